"""What is wrong with a study file, in one line for its author: the key, the rule, the value.

Pydantic knows which rule broke; its words are for programmers. The words here follow the types.
"""

import difflib
from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

UNKNOWN = ("extra_forbidden", "invalid_key")
BOUNDS = {
    "greater_than": "above {gt:.15g}",
    "greater_than_equal": "at least {ge:.15g}",
    "less_than": "below {lt:.15g}",
    "less_than_equal": "at most {le:.15g}",
    "finite_number": "a finite number",
    "string_too_long": "text of at most {max_length} characters",
}
KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}
PLURALS: dict[Any, str] = {int: "whole numbers", float: "numbers"}
LONGEST_VALUE = 80
"""Characters of a value that are repeated to its author."""


def explain(error: ValidationError, root: type[BaseModel]) -> str:
    """The first complaint; an unknown key before all, for it is why another one is missing."""
    errors = error.errors()
    first = next((one for one in errors if one["type"] in UNKNOWN), errors[0])
    return " ".join(_sentence(first, root).split())


def _sentence(error: ErrorDetails, root: type[BaseModel]) -> str:
    if error["type"] in UNKNOWN:
        return _unknown_key([str(part) for part in error["loc"] if part != "[key]"], root)
    keys, field = _locate(error["loc"], root)
    where = ".".join(keys)
    if error["type"] == "value_error":
        return _own_words(where, error["msg"].removeprefix("Value error, "))
    assert field is not None, error
    if error["type"] == "missing" and error["loc"] == tuple(keys):
        return f"`{where}` is required{_example(field, '; for example ')}"
    return f"`{where}` must be {_rule(error, field)}, got {short(error['input'])}"


def _own_words(where: str, message: str) -> str:
    """A message of our own validators: of a value, or of a group, which names the key itself."""
    if not where:
        return message
    if message.startswith("`"):
        return f"`{where}.{message[1:]}"
    return f"`{where}` {message}"


def _rule(error: ErrorDetails, field: FieldInfo) -> str:
    if error["type"] in BOUNDS:
        return BOUNDS[error["type"]].format(**error.get("ctx", {}))
    if error["type"] == "string_pattern_mismatch" and field.description:
        return field.description
    return _kind(field.annotation) + _example(field, " such as ")


def _kind(annotation: Any) -> str:
    """What a value of a type is, in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0])
    if origin is tuple:
        number = "" if parts[-1] is Ellipsis else "two "
        return f"a list of {number}{PLURALS[_plain(parts[0])]}"
    if origin in (Union, UnionType):
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if issubclass(annotation, Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in annotation)
    if issubclass(annotation, BaseModel):
        return f"a group of keys ({', '.join(annotation.model_fields)})"
    return KINDS[annotation]


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _example(field: FieldInfo, words: str) -> str:
    """The field's example, or else its default, as YAML; nothing for a choice or a group."""
    value = field.examples[0] if field.examples else field.default
    if isinstance(value, tuple):
        value = list(value)
    if not isinstance(value, list | dict | int | float | str) or isinstance(value, bool | Enum):
        return ""
    already_said = f"`{value}`" in _kind(field.annotation)
    return "" if already_said else f"{words}{value}".replace("'", "")


def short(value: object) -> str:
    """A value as its author is told of it: not more than a line of it."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


def _locate(
    location: tuple[int | str, ...], root: type[BaseModel]
) -> tuple[list[str], FieldInfo | None]:
    """The keys of a location and the last one's field; places in lists and unions are left out."""
    keys: list[str] = []
    group: Any = root
    field = None
    for part in location:
        if not _is_group(group) or part not in group.model_fields:
            break
        field = group.model_fields[part]
        keys.append(str(part))
        group = field.annotation
    return keys, field


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _unknown_key(path: list[str], root: type[BaseModel]) -> str:
    *parents, key = path
    paths = list(_all_paths(root))
    siblings = [other[-1] for other in paths if other[:-1] == parents]
    near = [[*parents, name] for name in difflib.get_close_matches(key, siblings, n=1)]
    near += [other for other in paths if other[-1] == key]
    hint = f"did you mean `{'.'.join(near[0])}`?" if near else f"known here: {', '.join(siblings)}"
    return f"unknown key `{'.'.join(path)}`; {hint}"


def _all_paths(group: type[BaseModel]) -> Iterator[list[str]]:
    for name, field in group.model_fields.items():
        yield [name]
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from ([name, *rest] for rest in _all_paths(annotation))
