"""Counts the parameters of rows that name a type of model, such as llama, and its sizes."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from fathom.models.shape import Count
from fathom.search.tables.columns.columns import meaning, plain_name
from fathom.search.tables.grouped.model_config import FAMILIES, decoder_size
from fathom.search.tables.open_table import OpenTable

TYPE = ("model_type", "architecture", "architectures", "arch")
"""Names of columns that may have the type of a model, in order of preference."""
ENDS = re.compile(r"forcausallm|lmheadmodel|[^a-z0-9]")
"""Pattern of what to remove from an architecture's name, in small letters, to get its type."""
TYPES = {ENDS.sub("", name): name for name in FAMILIES}
SIZES = {"params_total": Count.TOTAL, "params_non_embedding": Count.NON_EMBEDDING}
PEEKED = 1000
"""Number of first rows that are searched for a known type."""


def with_sizes(table: OpenTable, _told: Mapping[str, str]) -> OpenTable:
    """The table with columns of parameters added for rows that name a known type of dense decoder
    and its configuration; unchanged if it already has sizes, or has no such row."""
    names = [plain_name(name) for name in table.names]
    kind = next((names.index(name) for name in TYPE if name in names), None)
    if kind is None or any(meaning(name) in SIZES for name in table.names):
        return table
    head = list(islice(table.rows, PEEKED))
    rows = chain(head, table.rows)
    if not any(_type(row[kind]) in FAMILIES for _, row in head):
        return replace(table, rows=rows)

    def sizes(row: Any) -> list[int | None]:
        values = {name: _value(cell) for name, cell in zip(names, row, strict=True)}
        try:
            params = decoder_size(values | {"model_type": _type(row[kind])})[-1]
        except ValueError:
            return [None] * len(SIZES)
        return [params[count] for count in SIZES.values()]

    return replace(
        table,
        names=[*table.names, *SIZES],
        rows=((line, [*row, *sizes(row)]) for line, row in rows),
    )


def _type(cell: object) -> str:
    """The type that a cell names, such as `llama` for `LlamaForCausalLM`; the cell itself if
    unknown."""
    return TYPES.get(ENDS.sub("", str(cell).lower()), str(cell))


def _value(cell: object) -> object:
    """A cell as the value of a configuration: a number, true, false, None, or a text."""
    try:
        found = json.loads(str(cell).strip().lower())
    except (ValueError, RecursionError):
        return None if not str(cell).strip() else cell
    return int(found) if isinstance(found, float) and found.is_integer() else found
