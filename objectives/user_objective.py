"""A user's own objective, named by its place: `my_package.my_task:MyObjective`.

Preparing it runs the user's code, which the user asks for by naming it.
"""

import importlib
import inspect
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.keys import ObjectiveConfig, Positive, RuleError, short
from fathom.objectives.user_code import PLACE_PATTERN, named, user_code

MEMBERS = (
    *("vocab_size", "context", "chance_loss"),
    *("to", "batch", "loss", "evaluate", "final_metrics"),
)
"""Members of `contract.Objective`."""
TRIED_SEED = 2**31
"""Seed of the batch that is tried out; no trial trains with it."""

UserObjectiveName = Annotated[
    str,
    Field(
        pattern=PLACE_PATTERN,
        description="the place of a class, such as `my_package.my_task:MyObjective`",
    ),
]


class UserObjectiveConfig(ObjectiveConfig):
    """A user's own objective; its other keys go to its `prepare`."""

    model_config = ConfigDict(extra="allow")

    loss_unit: ClassVar[str] = "nats"
    bidirectional: ClassVar[bool] = True
    name: UserObjectiveName
    context: Positive = 256
    """Tokens of the longest sequence; goes to `prepare` as well."""

    @model_validator(mode="after")
    def _check_plain(self) -> Self:
        """Refuses values that YAML does not write and read back unchanged."""
        for key, value in self.model_dump(exclude={"name", "context"}).items():
            if not is_plain(value):
                raise RuleError(
                    key,
                    f"must be text, a number, true or false, or lists and groups of them, "
                    f"got {short(value)}; write a date in quotes",
                )
        return self

    def vocab_size(self) -> int:
        """Number of token ids of the objective, which is prepared to find it."""
        return int(load_user_objective(self).vocab_size)

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys unchanged: a user's objective has no known smaller version."""
        return self


def is_plain(value: object) -> bool:
    """True if YAML writes a value and reads it back unchanged."""
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    finite = not isinstance(value, float) or math.isfinite(value)
    return finite and (value is None or isinstance(value, str | int | float))


def load_user_objective(keys: UserObjectiveConfig) -> Any:
    """The user's objective, imported and prepared.

    Raises:
        ObjectiveError: if it can't be imported or prepared, lacks a member, or has token ids that
            are not of its vocabulary.
    """
    name = keys.name
    found, settings = _class(name), keys.settings()
    _check_keys(name, found.prepare, settings)
    with user_code(f"objective {name} must be prepared from its keys and give a batch"):
        try:
            objective = found.prepare(**settings)
        except ValueError as error:
            raise ObjectiveError(f"objective {name}: {error}") from error
        _check(name, objective, keys.context)
    return objective


def _check(name: str, objective: Any, context: int) -> None:
    lacking = [member for member in MEMBERS if not hasattr(objective, member)]
    if lacking:
        raise ObjectiveError(
            f"what `prepare` of {name} returns must be an objective, but it has no "
            f"{', '.join(lacking)}; see objectives/contract.py"
        )
    if objective.context != context:
        raise ObjectiveError(
            f"the `context` of {name} must be the study's, {context}, by which tokens are counted, "
            f"got {objective.context}; set `objective.context: {objective.context}`"
        )
    size, chance = objective.vocab_size, objective.chance_loss
    if not (isinstance(size, int) and size > 0 and isinstance(chance, int | float)):
        raise ObjectiveError(
            f"`vocab_size` of {name} must be a whole number above 0 and `chance_loss` a number, "
            f"got {short(size)} and {short(chance)}; correct them"
        )
    cpu = importlib.import_module("torch").device("cpu")
    batch = objective.to(cpu).batch(seed=TRIED_SEED, step=0, batch_size=1)
    least = min(int(part.min()) for part in batch.read)
    most = max(int(part.max()) for part in (*batch.read, batch.targets))
    if least < 0 or most >= size:
        raise ObjectiveError(
            f"token ids of a batch of {name} must be from 0 to {size - 1}, by its `vocab_size`, "
            f"got {least} to {most}; correct one of the two"
        )


def _class(name: str) -> Any:
    module, found = named(name, "objective")
    if not callable(getattr(found, "prepare", None)):
        class_name = name.partition(":")[2]
        classes = [key for key, value in vars(module).items() if hasattr(value, "prepare")]
        lack = f"no {class_name}" if found is None else f"{class_name} without it"
        remedy = nearest(class_name, classes, otherwise="correct `objective.name`")
        raise ObjectiveError(
            f"objective {name} must be a class with `prepare`, but {module.__name__} has {lack}; "
            + remedy
        )
    return found


def _check_keys(name: str, prepare: Any, settings: Mapping[str, Any]) -> None:
    try:
        inspect.signature(prepare).bind(**settings)
    except TypeError as error:
        raise ObjectiveError(
            f"the keys of objective {name} must be what its `prepare` takes, "
            f"{inspect.signature(prepare)}, got {', '.join(settings)}: {error}"
        ) from error
