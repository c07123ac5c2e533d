"""Converts a Markdown table, such as one from a README, to names and rows of values."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from fathom.search.tables.open_table import OpenTable

RULE = re.compile(r"\s*:?-+:?\s*")
"""Pattern of a cell of the line of dashes below the names."""


def from_markdown(table: OpenTable, _told: Mapping[str, str]) -> OpenTable:
    """A Markdown table without the line of dashes, outer bars and marks of bold type; any other
    table unchanged."""
    first = next(table.rows, None)
    named = [place for place, name in enumerate(table.names) if name]
    if first is None or not all(_is_rule(first[1][place]) for place in named):
        return replace(table, rows=chain([] if first is None else [first], table.rows))
    return replace(
        table,
        names=[_plain(table.names[place]) for place in named],
        rows=((line, [_plain(row[place]) for place in named]) for line, row in table.rows),
    )


def _is_rule(cell: object) -> bool:
    return isinstance(cell, str) and RULE.fullmatch(cell) is not None


def _plain(cell: object) -> str:
    """A cell without spaces, and without the marks of bold type or code around it."""
    return str(cell).strip().strip("*`").strip()
