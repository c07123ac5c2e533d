"""The group `objective` of a study file: the keys of the objective with this `name`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag

from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.registry import OBJECTIVES
from fathom.objectives.user_objective import UserObjectiveConfig, UserObjectiveName

USER = "own"
"""Tag of a user's own objective, whose `name` is an import path."""


def _as_group(value: object) -> object:
    """A bare word as a group with that name."""
    return {"name": value} if isinstance(value, str) else value


def _tag(value: object) -> str | None:
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    if not isinstance(name, str):
        return None
    return USER if ":" in name else name


if TYPE_CHECKING:  # the union of all keys is known once the registry is read
    ObjectiveChoice = ObjectiveConfig
else:
    TAGGED = {name: entry.keys for name, entry in OBJECTIVES.items()} | {USER: UserObjectiveConfig}
    GROUPS = Annotated[
        Union[tuple(Annotated[keys, Tag(tag)] for tag, keys in TAGGED.items())],  # noqa: UP007
        Discriminator(_tag),
    ]
    NAMES = Literal[tuple(OBJECTIVES)]
    ObjectiveChoice = Annotated[
        GROUPS,
        BeforeValidator(_as_group, json_schema_input_type=GROUPS | NAMES | UserObjectiveName),
        Field(examples=[{"name": "language"}]),
    ]
