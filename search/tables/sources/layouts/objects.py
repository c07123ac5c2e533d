"""Finds the rows in a JSON file that is a single array or object."""

from collections.abc import Iterator, Mapping
from typing import Any

from fathom.search.tables.columns.columns import meaning

RUN = "run"


def rows_in(found: object) -> list[dict[str, Any]]:
    """The rows in an array of objects, or in an object. The object may map names to runs or to
    columns, or have one array of objects, to which its other keys are added. Any other object is
    one row.

    Raises:
        ValueError: when `found` is neither an array of objects nor an object.
    """
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return found
    if not isinstance(found, dict):
        raise ValueError("it must be an array of objects, one for each run or evaluation")
    if _is_of(found, dict) and not any(map(_knows_depth, found.items())):
        return [{RUN: name} | row for name, row in found.items()]
    if any(meaning(name) == "depth" for name in found) and (rows := list(_of_columns(found))):
        return rows
    arrays = [name for name, value in found.items() if value and _is_rows(value)]
    if len(arrays) != 1:
        return [found]
    rest = {name: value for name, value in found.items() if name != arrays[0]}
    return [rest | row for row in found[arrays[0]]]


def _is_of(found: Mapping[str, Any], kind: type) -> bool:
    return len(found) > 1 and all(isinstance(value, kind) for value in found.values())


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _knows_depth(item: tuple[str, Mapping[str, Any]]) -> bool:
    """True for a part of an object with the depths of several runs, or with one run's depth as
    `config` may have."""
    name, inside = item
    return meaning(name) == "depth" or any(meaning(f"{name}.{key}") == "depth" for key in inside)


def _of_columns(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the rows of an object of columns; each column is an array, or an object by names of
    rows."""
    if _is_of(found, list) and len({len(column) for column in found.values()}) == 1:
        for values in zip(*found.values(), strict=True):
            yield dict(zip(found, values, strict=True))
    elif _is_of(found, dict):
        for row in next(iter(found.values())):
            yield {name: column.get(row) for name, column in found.items()}
