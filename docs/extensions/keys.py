"""Every key of a study file as tables, from the types and docstrings of the groups of keys."""

from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.pycode import ModuleAnalyzer

from fathom.search.study.file.errors import groups_of
from fathom.search.study.keys.config import StudyConfig

HEADS = "| key | value | default | |\n|---|---|---|---|\n"
PLAIN = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text"}


def all_keys() -> str:
    """Markdown: the study's own keys, then each group's."""
    return "\n".join(_sections(StudyConfig, ""))


def _sections(group: type[BaseModel], path: str) -> Iterator[str]:
    yield f"## {_heading(group, path)}\n\n{cleandoc(group.__doc__ or '')}\n"
    yield HEADS + "\n".join(_row(group, name, path) for name in group.model_fields)
    for name, field in group.model_fields.items():
        yield from _words_of_values(name, field)
    for name, field in group.model_fields.items():
        for inner in groups_of(field.annotation):
            yield from _sections(inner, f"{path}.{name}".lstrip("."))


def _heading(group: type[BaseModel], path: str) -> str:
    if path != "objective":
        return path or "The study"
    [*names] = get_args(group.model_fields["name"].annotation)
    return f"objective: {names[0] if names else 'your own'}"


def _row(group: type[BaseModel], name: str, path: str) -> str:
    field = group.model_fields[name]
    default = "required" if field.is_required() else _default(field)
    anchor = f"{path}{name}".replace(".", "")
    words = _docstring(group, name) or field.description or ""
    words = words or _words_of_kind(field.annotation, anchor)
    cells = (f"`{name}`", _kind(field.annotation), default, words)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    return "below" if isinstance(value, BaseModel) else f"`{_plain(value)}`"


def _plain(value: object) -> str:
    """As YAML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kind(annotation: Any) -> str:
    """What may stand there, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0])
    if origin in (Union, UnionType):
        kinds = dict.fromkeys(_kind(part) for part in inner if part is not NoneType)
        return " or ".join(kinds)
    if origin is Literal:
        return " or ".join(f"`{_plain(part)}`" for part in inner)
    if origin is tuple:
        return f"[{', '.join('...' if part is ... else _kind(part) for part in inner)}]"
    if origin is dict:
        return f"name and {'path' if inner[1] is str else _kind(inner[1])} of each"
    if issubclass(annotation, Enum):
        return " or ".join(f"`{part.value}`" for part in annotation)
    return PLAIN.get(annotation, "keys")


def _words_of_kind(annotation: Any, anchor: str) -> str:
    """What the class of a value says of itself; a group's keys have a section of their own."""
    if not isinstance(annotation, type) or annotation in PLAIN:
        return ""
    words = cleandoc(annotation.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return f"[{words}](#{anchor})" if issubclass(annotation, BaseModel) else words


def _words_of_values(name: str, field: FieldInfo) -> Iterator[str]:
    """What each of the words that a key may have means."""
    kind = field.annotation
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return
    told = [f"- `{part.value}`: {words}" for part in kind if (words := _docstring(kind, part.name))]
    if told:
        yield f"\nThe words of `{name}`:\n\n" + "\n".join(told) + "\n"


def _docstring(owner: type, name: str) -> str:
    """The docstring behind a field, in one line; also where a class before it has the field."""
    for each in owner.__mro__:
        if each.__module__.split(".")[0] == "fathom":
            found = ModuleAnalyzer.for_module(each.__module__).find_attr_docs()
            if lines := found.get((each.__name__, name)):
                return " ".join(" ".join(lines).split())
    return ""
