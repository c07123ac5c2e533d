"""The values of a study file: numbers as people write them, and groups of keys."""

import re
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fathom.search.study.errors import short

SUFFIXES = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
COUNT_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]{1,3})?)\s*([kmbt]?)", re.IGNORECASE)


def parse_count(value: object) -> int:
    """A whole number, also written `300k`, `1.5M`, `2B` or `1e6`.

    >>> parse_count("1.5M")
    1500000

    Raises:
        ValueError: when the value is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a number such as 300000, 300k or 1.5M, got {short(value)}")
    match = COUNT_PATTERN.fullmatch(str(value).strip().replace("_", ""))
    if match is None:
        raise ValueError(
            f"must be a positive number such as 300000, 300k or 1.5M, got {short(value)}"
        )
    number = Decimal(match[1]) * SUFFIXES.get(match[2].lower(), 1)
    if not 1 <= number < 10**18:
        raise ValueError(f"must be between 1 and 1e18, got {short(value)}")
    if number % 1:
        raise ValueError(f"must be a whole number, got {short(value)}")
    return int(number)


def _not_a_switch(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, got {str(value).lower()}")
    return value


# As editors are told of it, to whom `parse_count` says nothing.
CountText = Annotated[str, Field(pattern=r"^[0-9_]+(\.[0-9]+)?([eE]\+?[0-9]+)?\s*[kKmMbBtT]?$")]
Number = Annotated[int, BeforeValidator(parse_count, json_schema_input_type=int | CountText)]
Whole = Annotated[int, BeforeValidator(_not_a_switch)]
Real = Annotated[float, BeforeValidator(_not_a_switch)]
# Far beyond any study, and yet what is computed of it stays a number and a plan an instant.
Positive = Annotated[Whole, Field(ge=1, le=10**9)]
Parameters = Annotated[Number, Field(le=10**12)]
Few = Annotated[Whole, Field(ge=1, le=1000)]
Share = Annotated[Real, Field(ge=0.0, lt=1.0)]
PositiveReal = Annotated[Real, Field(gt=0.0)]
Multiple = Annotated[Real, Field(ge=1e-3, le=1e6)]


class Group(BaseModel):
    """A part of the study file: unknown keys are errors, values never change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class ObjectiveGroup(Group):
    """The keys of an objective."""

    name: str
    loss_unit: ClassVar[str] = "nats per token"
    """What the held-out loss is measured in."""

    def settings(self) -> dict[str, Any]:
        """What the objective is prepared from."""
        return self.model_dump(exclude={"name"})

    @property
    def pretraining_tokens(self) -> int:
        """Of the horizon, from its beginning: training on other data than the loss is measured on,
        which therefore judges nothing yet."""
        return 0

    def probing(self, *, context: int, eval_tokens: int) -> dict[str, Any]:
        """The settings for short trainings, at most so large where the task allows it."""
        return self.settings()
