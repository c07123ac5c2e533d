"""Whether what a file says can be what Fathom wrote there, field by field.

A value of the wrong kind would otherwise be found out by a fit or a figure, far from its line.
"""

import dataclasses
import json
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

LARGEST = 10**18
"""Above every count of a study: parameters, tokens and seeds."""
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading a line that Fathom did not write may raise."""


class DamagedFileError(ValueError):
    """A file of a run that holds what Fathom did not write: one line with place and remedy."""


def problem_of(error: Exception) -> str:
    """What one of `DAMAGE` says of a line, in words."""
    match error:
        case json.JSONDecodeError() | RecursionError():
            return "it is not JSON"
        case UnicodeDecodeError():
            return "it is not UTF-8 text"
        case KeyError():
            return f"it lacks `{error.args[0]}`"
    return str(error)


def checked(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """The same values, when a dataclass can be made of them.

    Raises:
        ValueError: for a field that is missing, unknown or of another type.
    """
    kinds = _kinds(kind)
    if unknown := sorted(values.keys() - kinds.keys()):
        raise ValueError(f"`{unknown[0]}` is unknown to this version")
    for name, (types, required) in kinds.items():
        if name not in values:
            if required:
                raise ValueError(f"it lacks `{name}`")
        elif not _is_one(values[name], types):
            raise ValueError(f"`{name}` can't be {str(values[name])[:40]!r}")
    return values


def _is_one(value: object, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    if isinstance(value, int) and not isinstance(value, Enum):
        return int in types and -LARGEST < value < LARGEST
    if isinstance(value, dict):
        return dict in types and all(_is_one(inner, (int, float)) for inner in value.values())
    return isinstance(value, types)


@cache
def _kinds(kind: type) -> dict[str, tuple[tuple[type, ...], bool]]:
    """Name of a field -> its types, and whether it has no default."""
    hints, missing = get_type_hints(kind), dataclasses.MISSING
    return {
        field.name: (
            tuple(_types(hints[field.name])),
            field.default is missing and field.default_factory is missing,
        )
        for field in dataclasses.fields(kind)
    }


def _types(hint: Any) -> list[type]:
    if get_origin(hint) in (Union, UnionType):
        return [kind for part in get_args(hint) for kind in _types(part)]
    plain: type = get_origin(hint) or hint
    return [int, float] if plain is float else [plain]
