"""Selects the rows of a table that a question is about, and finds the columns that it names."""

import difflib
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fathom.search.analysis.losses.depth_estimates import Array
from fathom.search.formatting import printable
from fathom.search.tables.columns.cells import Cells, form
from fathom.search.tables.columns.columns import listed, plain_name
from fathom.search.tables.errors import TableError

STATES = ("state", "status", "run_state", "run_status")
"""Names of columns that say whether a run ended."""
NOT_ENDED = (
    *(
        "running",
        "crashed",
        "failed",
        "fail",
        "killed",
        "pruned",
        "waiting",
        "pending",
        "preempted",
    ),
    *(
        "canceled",
        "cancelled",
        "aborted",
        "error",
        "scheduled",
        "timeout",
        "stopped",
        "interrupted",
    ),
)
"""Values of the columns `STATES` that say that a run did not end."""
FLAGS = ("success", "succeeded", "converged", "has_converged", "is_finished", "completed")
"""Names of columns that are false for a run without a usable result."""
UNSETTLED = re.compile(r"\b(not|never|failed to|did ?n.t|no)[ _-]((fully|yet) )?converge", re.I)
"""Pattern of a remark, in any column, that a run did not converge."""


SIZES = ("params_total", "params_non_embedding")
"""Columns with a model's size, by Fathom's names."""

Rows = NDArray[np.bool_]


def parse_where(texts: Sequence[str]) -> dict[str, str]:
    """The arguments `COLUMN=VALUE` of `--where`: column -> value.

    Raises:
        TableError: when one has another form, or two name one column.
    """
    where: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name in where:
            raise TableError(
                f"`--where` must be COLUMN=VALUE, once for a column, got {printable(text)!r}; for "
                "example --where batch_size=64"
            )
        where[name] = value
    return where


def their_name(
    name: str, flag: str, names: Sequence[str], taken: Mapping[str, str], label: str
) -> str:
    """The table's name of the column that a flag names by the table's name or by Fathom's.

    Raises:
        TableError: when the table has no such column.
    """
    if name in names or name in taken:
        return name if name in names else taken[name]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {printable(near[0])}?" if near else f"it has {listed(names)}"
    raise TableError(
        f"`{flag}` must name a column of {label}, got {printable(name)!r}; {printable(hint)}"
    )


def rows_where(cells: Cells, where: Mapping[str, str], label: str) -> Cells:
    """The rows that have the values `where`; numbers match in any form, such as 64 and 64.0.

    Raises:
        TableError: when no row has these values.
    """
    kept = np.ones(len(cells.values["depth"]), dtype=np.bool_)
    for name, value in where.items():
        texts = cells.texts[name]
        wanted = form(value)
        there = kept & (
            texts.codes == (texts.values.index(wanted) if wanted in texts.values else -1)
        )
        if not there.any():
            left = [texts.values[code] or "nothing" for code in np.unique(texts.codes[kept])]
            raise TableError(
                f"`--where {printable(name)}` must be a value of rows of {label}, got "
                f"{printable(value)!r}; they have {listed(left)}"
            )
        kept = there
    return cells if kept.all() else cells.at(kept)


def ended_rows(cells: Cells) -> tuple[Cells, str]:
    """The rows of runs that ended, by the columns with their state, and a note on the rows left
    out.

    Rows of other runs are kept if they have fewer tokens than ended runs of their size, since their
    tokens are then those at the loss, not those planned.
    """
    kept, states = np.ones(len(cells.values["depth"]), dtype=np.bool_), list[str]()
    for name, texts in cells.texts.items():
        open_ones = [code for code, value in enumerate(texts.values) if _is_open(name, value)]
        if open_ones and not texts.cut:
            kept &= ~np.isin(texts.codes, open_ones)
            states.append(printable(name))
    tokens = cells.values.get("tokens")
    if tokens is not None and kept.any():
        kept |= tokens < _most_of_size(cells, kept)
    if kept.all() or not kept.any():
        return cells, ""
    left = int((~kept).sum())
    rows = "1 row has not ended, by its" if left == 1 else f"{left} rows have not ended, by their"
    return cells.at(kept), f"{rows} {' and '.join(states)}: left out"


def _is_open(name: str, value: str) -> bool:
    """True if a column's value says that the run has not ended, or has no usable result."""
    plain, word = plain_name(name), value.lower()
    return (
        (plain in STATES and word in NOT_ENDED)
        or (plain in FLAGS and word in ("false", "0", "no"))
        or UNSETTLED.search(value) is not None
    )


def _most_of_size(cells: Cells, kept: Rows) -> Array:
    """For each row, the most tokens among the kept rows of its size, or among all kept rows if none
    has its size."""
    tokens = np.nan_to_num(cells.values["tokens"])
    size = next(
        (cells.values[name] for name in SIZES if name in cells.values), np.zeros_like(tokens)
    )
    _, place = np.unique(size, return_inverse=True)
    most = np.zeros(len(tokens))
    np.maximum.at(most, place[kept], tokens[kept])
    return np.where(most > 0, most, tokens[kept].max(initial=0.0))[place]
