"""Unfolds cells that hold several values: objects into columns, and curves into rows."""

import json
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from fathom.search.tables.columns.columns import choose_columns, meaning
from fathom.search.tables.open_table import OpenTable, flat_names

PEEKED = 1000
"""Number of first rows that are searched for such a cell."""
TIMES = ("tokens", "step")

Row = Mapping[str, Any]


def unfolded(table: OpenTable, told: Mapping[str, str]) -> OpenTable:
    """The table with a column for each value of its objects, and a row for each value of its
    curves; any other table unchanged.

    Raises:
        TableError: when a table with such cells lacks a needed column.
    """
    head = list(islice(table.rows, PEEKED))
    everything = chain(head, table.rows)
    if not _has_nested(table, told, [list(map(_parsed, row)) for _, row in head]):
        return replace(table, rows=everything)
    rows = [
        (line, part)
        for line, row in everything
        for part in _parts(flat_names(dict(zip(table.names, map(_parsed, row), strict=True))))
    ]
    names = list(dict.fromkeys(chain.from_iterable(row for _, row in rows)))
    loss = choose_columns(names, told, table.label, table.lacking).taken["loss"]
    curves = [row for _, row in rows if isinstance(row.get(loss), list)]
    if curves:
        names = [name for name in names if all(_goes_with(row, name, loss) for row in curves)]
    beside = [name for name in names if any(isinstance(row.get(name), list) for row in curves)]
    times = [name for name in beside if (told.get(name) or meaning(name)) in TIMES]
    note = f"no column has the steps of the curves in {loss}, so the last loss of each counts"
    return replace(
        table,
        names=names,
        rows=(
            (line, value) for line, row in rows for value in _values(row, names, loss, bool(times))
        ),
        results=table.results | {*beside},
        notes=(*table.notes, *[note] * bool(curves and not times)),
    )


def _has_nested(
    table: OpenTable, told: Mapping[str, str], head: Sequence[Sequence[object]]
) -> bool:
    """True if some cell is an object, or a list that is a history or a curve of the loss."""
    cells = [cell for row in head for cell in row if isinstance(cell, dict | list)]
    if any(isinstance(cell, dict) or _is_history(cell) for cell in cells) or not cells:
        return bool(cells)
    taken = choose_columns(table.names, told, table.label, table.lacking).taken
    place = table.names.index(taken["loss"])
    return any(isinstance(row[place], list) for row in head)


def _parsed(cell: object) -> object:
    """The object or list that a text holds in the syntax of JSON or Python; an array of parquet as
    a list; any other cell unchanged."""
    if isinstance(cell, np.ndarray):
        return cell.tolist()
    if not isinstance(cell, str) or cell.lstrip()[:1] not in ("{", "["):
        return cell
    for parse in (json.loads, literal_eval):
        try:
            found = parse(cell.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return found if isinstance(found, dict | list) else cell
    return cell


def _parts(row: Row) -> Iterator[Row]:
    """Yields a row for each entry of a history in the row; the row itself if it has no history."""
    history = next((name for name, value in row.items() if _is_history(value)), None)
    if history is None:
        yield row
        return
    rest = {name: value for name, value in row.items() if name != history}
    yield from (rest | flat_names(entry) for entry in row[history])


def _is_history(value: object) -> bool:
    """True for a list of objects in which some key names a loss, tokens or steps."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        return False
    return any(meaning(name) in ("loss", *TIMES) for entry in value for name in entry)


def _goes_with(row: Row, name: str, loss: str) -> bool:
    """True if a row's column `name` has one value, or as many values as the loss."""
    value = row.get(name)
    return not isinstance(value, list) or len(value) == len(row[loss])


def _values(row: Row, names: Sequence[str], loss: str, timed: bool) -> Iterator[list[Any]]:
    """Yields the values of a row for each of its losses, or only for the last loss unless
    `timed`."""
    losses = row.get(loss)
    if not isinstance(losses, list):
        yield [row.get(name) for name in names]
        return
    for place in range(0 if timed else max(0, len(losses) - 1), len(losses)):
        cells = (row.get(name) for name in names)
        yield [cell[place] if isinstance(cell, list) else cell for cell in cells]
