"""Errors of a study file: a line for each mistake, with key, rule and value.

Pydantic's messages are for programmers; those here are made from the types of the fields.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fathom.models.options import OptionError
from fathom.objectives.keys import RuleError, short

UNKNOWN = ("extra_forbidden", "invalid_key")
UNDECIDED = ("union_tag_invalid", "union_tag_not_found")
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
    Any: "a value",
}
PLURALS = {int: "whole numbers", float: "numbers", str: "texts", tuple: "pairs [low, high]"}


class ConfigError(ValueError):
    """A study that can't be run: a line for each mistake, with rule, value and remedy."""

    def __str__(self) -> str:
        return "\n".join(self.args)


class PlanError(ConfigError):
    """A study that turns out to have no plan once data are read and shapes are solved."""

    def __init__(self, problem: str, key: str = "budgets") -> None:
        super().__init__(problem)
        self.key = key


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a study file: its place and its message."""

    path: tuple[str | int, ...]
    sentence: str


def explain(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """The mistakes in a study, one for each key; a misspelt key is not reported as missing too."""
    errors = error.errors()
    unknown = [_last_key(mistake) for mistake in errors if mistake["type"] in UNKNOWN]
    problems: dict[tuple[str, ...], Problem] = {}
    for mistake in errors:
        missing = mistake["type"] == "missing"
        if missing and difflib.get_close_matches(_last_key(mistake), unknown):
            continue
        problem = _problem(mistake, root)
        keys = tuple(part for part in problem.path if isinstance(part, str))
        problems.setdefault(keys, problem)
    return list(problems.values())


def _problem(error: ErrorDetails, root: type[BaseModel]) -> Problem:
    keys, field, group = _locate(error["loc"], root)
    kind, where = error["type"], ".".join(keys)
    place: Sequence[str | int] = [part for part in error["loc"] if isinstance(part, int)]
    if kind in UNKNOWN:
        place = (_last_key(error),)
        sentence = _unknown_key(keys, _last_key(error), group, root)
    elif kind == "value_error":
        cause = error["ctx"]["error"]
        sentence = f"`{where}` {cause}" if where else str(cause)
        if isinstance(cause, RuleError | OptionError):
            place = cause.key.split(".")
            sentence = f"`{'.'.join((*keys, cause.key))}{cause.rest}"
    else:
        assert field is not None, error
        if kind in UNDECIDED:
            place, sentence = ("name",), _undecided(where, error["input"], field)
        elif kind == "missing" and error["loc"][-1] == keys[-1]:
            sentence = f"`{where}` is required{_example(field, '; for example ')}"
        else:
            sentence = f"`{where}` must be {_rule(error, field)}, got {short(error['input'])}"
            sentence += _neighbour(error["input"], _values(field.annotation))
    return Problem((*keys, *place), " ".join(sentence.split()))


def _neighbour(value: object, known: Sequence[str]) -> str:
    """The most similar value that the key may have, as a question; empty if none is similar."""
    near = difflib.get_close_matches(str(value), known, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _values(annotation: Any) -> list[str]:
    """The values of a choice, as text; empty for any other type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return list(map(str, parts))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(member.value) for member in annotation]
    if origin in (Union, UnionType):
        return [value for part in parts for value in _values(part)]
    return []


def _last_key(error: ErrorDetails) -> str:
    return str(next(part for part in reversed(error["loc"]) if part != "[key]"))


def _rule(error: ErrorDetails, field: FieldInfo) -> str:
    if error["type"] in BOUNDS:
        return BOUNDS[error["type"]].format(**error.get("ctx", {}))
    if error["type"] == "string_pattern_mismatch" and field.description:
        return field.description
    if get_args(_given(field.annotation))[-1:] == (Ellipsis,):
        if error["type"] == "too_long":
            return f"at most {error['ctx']['max_length']} values"
        if error["type"] == "too_short" and (fewest := error["ctx"]["min_length"]) > 1:
            return f"at least {fewest} values{_example(field, ' such as ')}"
    return _kind(field.annotation) + _example(field, " such as ")


def _kind(annotation: Any) -> str:
    """A phrase for the values of a type, such as `a whole number`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0])
    if origin is tuple:
        if issubclass(_plain(parts[0]), Enum):
            return f"a list of {', '.join(f'`{value}`' for value in _values(parts[0]))}"
        number = "" if parts[-1] is Ellipsis else "two "
        return f"a list of {number}{PLURALS[_plain(parts[0])]}"
    if origin is dict:
        return f"a group of names, each with {'a path' if parts[1] is str else _kind(parts[1])}"
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
    """A field's type without its constraints; `tuple` for any tuple."""
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return get_origin(plain) or plain


def _example(field: FieldInfo, phrase: str) -> str:
    """The field's example or default as YAML, after a phrase; empty for a choice or a group."""
    value = field.examples[0] if field.examples else field.default
    if isinstance(value, tuple):
        value = [list(item) if isinstance(item, tuple) else item for item in value]
        value = [item.value if isinstance(item, Enum) else item for item in value]
    if not isinstance(value, list | dict | int | float | str) or isinstance(value, bool | Enum):
        return ""
    already_said = f"`{value}`" in _kind(field.annotation)
    return "" if already_said else f"{phrase}{value}".replace("'", "")


def _undecided(where: str, value: object, field: FieldInfo) -> str:
    """The message for a group whose `name` is missing or unknown."""
    if not isinstance(value, Mapping):
        return (
            f"`{where}` must be a group of keys{_example(field, ' such as ')}, got {short(value)}"
        )
    names = [
        tag
        for tag, group in _choices(field.annotation).items()
        if get_origin(group.model_fields["name"].annotation) is Literal
    ]
    if "name" not in value:
        return f"`{where}.name` is required; for example {names[0]}"
    return (
        f"`{where}.name` must be one of {', '.join(f'`{name}`' for name in names)}, or the place "
        "of your own class such as `my_package.my_task:MyObjective`, "
        f"got {short(value['name'])}{_neighbour(value['name'], names)}"
    )


def _locate(
    location: tuple[int | str, ...], root: type[BaseModel]
) -> tuple[list[str], FieldInfo | None, Any]:
    """The keys of a location, without list positions and tags of unions; the field of the last key;
    and the type at that place."""
    keys: list[str] = []
    group: Any = root
    field = None
    for part in location:
        if str(part) in (choices := _choices(group)):
            group = choices[str(part)]
        elif _is_group(group) and part in group.model_fields:
            field = group.model_fields[part]
            keys.append(str(part))
            group = _given(field.annotation)
        else:
            break
    return keys, field, group


def _choices(annotation: Any) -> dict[str, type[BaseModel]]:
    """Groups of a union by their tags; empty for any other type."""
    if get_origin(annotation) not in (Union, UnionType):
        return {}
    tagged = [get_args(part) for part in get_args(annotation) if get_origin(part) is Annotated]
    return {note.tag: group for group, *notes in tagged for note in notes if isinstance(note, Tag)}


def groups_of(annotation: Any) -> list[type[BaseModel]]:
    """The groups of keys that a value of a type may be; empty for plain values."""
    given = _given(annotation)
    return [given] if _is_group(given) else list(_choices(given).values())


def _given(annotation: Any) -> Any:
    """The type of a value that is not None: `T` for `T | None`."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    given = [part for part in get_args(annotation) if part is not NoneType]
    return given[0] if len(given) == 1 else annotation


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _unknown_key(parents: list[str], key: str, group: Any, root: type[BaseModel]) -> str:
    siblings = list(group.model_fields) if _is_group(group) else []
    path, named = [*parents, key], key.replace("-", "_")
    close = difflib.get_close_matches(named, siblings, n=1)
    near = [".".join([*parents, name]) for name in close]
    near += [".".join(keys) for keys in _all_paths(root) if keys[-1] == named and keys != path]
    near += [
        f"{'.'.join([*parents, name])}: {named}"
        for name in siblings
        if named in _values(group.model_fields[name].annotation)
    ]
    hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(siblings)}"
    return f"unknown key `{'.'.join(path)}`; {hint}"


def _all_paths(group: type[BaseModel]) -> Iterator[list[str]]:
    for name, field in group.model_fields.items():
        yield [name]
        for below in groups_of(field.annotation):
            yield from ([name, *rest] for rest in _all_paths(below))
