"""Reads the lowest losses of a table of runs by size and tokens, even without depths."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.search.analysing.source import open_table
from fathom.search.analysis.laws.loss_law import LowestLoss
from fathom.search.analysis.losses.noise import USUAL_NOISE
from fathom.search.formatting import printable
from fathom.search.tables.analysis import budget_count
from fathom.search.tables.columns.cells import Cells, read_cells
from fathom.search.tables.columns.columns import choose_columns, parse_maps
from fathom.search.tables.columns.selecting import ended_rows
from fathom.search.tables.columns.settings import settings_of, to_read
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.grouping import SIZES, group_runs
from fathom.search.tables.grouped.losses import (
    check_loss_name,
    in_nats,
    plausible,
    positive_losses,
    unit_of,
)
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.runs import Runs

TABLES = (".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson", ".md")
"""Ends of the names of tables; a `.json` is the output of an analysis."""
CURVE = 10
"""Rows of a model from which on they are its learning curve, not final losses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLosses:
    """The lowest losses of a table, and why they show no depth."""

    losses: tuple[LowestLoss, ...]
    count: Count
    """Rule by which the sizes are counted."""
    no_depth: str
    """Why the losses show no depth, as the end of a sentence."""


def is_table(source: str) -> bool:
    """True for a file whose name ends like a table's (`TABLES`)."""
    return source.lower().removesuffix(".gz").endswith(TABLES) and Path(source).is_file()


def read_losses(source: str, maps: Sequence[str] = ()) -> TableLosses:
    """The lowest loss of each size at each number of tokens, rounded to two digits. Of a learning
    curve only the last row counts. `maps` are the arguments of `--map`.

    Raises:
        TableError: when the table lacks losses in a known unit, sizes or tokens.
    """
    told, needed = parse_maps(maps), ("loss", "tokens")
    with open_table(Path(source), told) as table:
        columns = choose_columns(table.names, told, table.label, table.lacking, needed=needed)
        loss, label = columns.taken["loss"], table.label
        check_loss_name(loss, label, maximised=False)
        cells = read_cells(table, columns, to_read(table.names, columns, table.results, ()))
    depths = cells.values.get("depth")
    cells = replace(cells, values={**cells.values, "depth": np.ones_like(cells.values["loss"])})
    cells = positive_losses(ended_rows(cells)[0], label)[0]
    unit, names = unit_of(loss, "", None), settings_of(cells, ()).names
    runs = group_runs(cells, label, names, with_names=True)
    runs = in_nats(plausible(runs, loss, label, unit, said=True), unit)
    if runs.coin is not Coin.TOKENS:
        tokens = printable(columns.taken["tokens"])
        raise TableError(f"{label} must have the tokens of its runs, got none above 0 in {tokens}")
    count = budget_count(TableQuestion(), columns, label)
    no_depth = (
        "no column has it" if depths is None
        else f"`fathom analyse {label} --horizons` asks this table for depths"
    )  # fmt: skip
    lowest = _lowest(runs, count, curves=_is_of_curves(cells))
    return TableLosses(losses=lowest, count=count, no_depth=no_depth)


def _is_of_curves(cells: Cells) -> bool:
    """True if several rows are of one run, by the names of runs. If each size has only one name, in
    a few rows, it names a model that was trained on several numbers of tokens."""
    sizes = next(cells.values[name] for name in SIZES if name in cells.values)
    names = cells.values.get("run", np.arange(len(sizes))).tolist()
    pairs = Counter(zip(names, sizes.tolist(), strict=True))
    of_models = len(pairs) == len(set(sizes.tolist())) and max(pairs.values()) < CURVE
    return len(set(names)) < len(names) and not of_models


def _lowest(runs: Runs, count: Count, *, curves: bool) -> tuple[LowestLoss, ...]:
    """The lowest losses; if runs are `curves`, only last losses count, since before them the
    learning rate had not decayed."""
    found: dict[tuple[int, str], LowestLoss] = {}
    for run in runs.runs:
        ends = slice(-1 if curves else 0, None)
        for at, loss in zip(run.tokens[ends].tolist(), run.losses[ends].tolist(), strict=True):
            key = run.params(count), f"{at:.1e}"
            if not run.diverged and loss < (found[key].loss if key in found else inf):
                found[key] = LowestLoss(
                    params=run.params(count), tokens=round(at), loss=loss,
                    error=USUAL_NOISE[0], curvature=None,
                )  # fmt: skip
    return tuple(found.values())
