"""Replays the trials of somebody's search in their order: after how many of them the answer is
settled, and how often depths whose labels were shuffled are.

The table has one row a trial, with columns as `fathom analyse` reads them; shapes of autoresearch
get a size: `python -m benchmarks.answers.tables.public_search tpe.csv`.
"""

import argparse
import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

import numpy as np

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.formatting import ranges
from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion

Row = dict[str, str]

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of the trials after which the table is answered."""
AUTORESEARCH = ("DEPTH", "ASPECT_RATIO", "HEAD_DIM")
DEPTHS = ("DEPTH", "depth", "n_layer")
"""Names of the column of depths."""
BOOKS = ("search_seed", "tid", "wall_seconds", "ASPECT_RATIO")
"""Columns of autoresearch that are no settings beside depth and size."""


def read_rows(path: Path) -> list[Row]:
    """The trials of a table, those of autoresearch with a size."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    if not set(AUTORESEARCH) <= set(rows[0]):
        return rows
    return [_sized(row) for row in rows]


def _sized(row: Row) -> Row:
    """A trial of autoresearch, whose width is a multiple of the width of a head."""
    depth, aspect, head = (float(row[name]) for name in AUTORESEARCH)
    width = head * ceil(depth * aspect / head)
    size = {"params_non_embedding": f"{12 * depth * width**2:g}"}
    return {name: value for name, value in row.items() if name not in BOOKS} | size


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """The trials with the depths of others."""
    name = next(name for name in DEPTHS if name in rows[0])
    order = np.random.default_rng(seed).permutation(len(rows))
    return [row | {name: rows[place][name]} for row, place in zip(rows, order, strict=True)]


def answer_of(rows: Sequence[Row]) -> Optimum | None:
    """The answer of a table of one size, or of the best; None where it is refused."""
    try:
        return analyse_table(rows_of("the search", rows), {}, TableQuestion()).optima[0]
    except TableError as error:
        print(f"refused: {error}")
        return None


def kinds_of_shuffled(rows: Sequence[Row], seeds: Iterable[int]) -> Counter[str]:
    """Kind of verdict -> how many tables with shuffled depths have it, `refused` among them."""
    found = (answer_of(shuffled(rows, seed)) for seed in seeds)
    return Counter(optimum.kind.value if optimum else "refused" for optimum in found)


def main() -> None:
    """Prints the answers after growing numbers of trials, and those of shuffled depths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+", help="CSV files with one row a trial")
    parser.add_argument("--shuffles", type=int, default=20)
    add_json_option(parser)
    asked = parser.parse_args()
    heads = {"table": "", "trials": "d", "verdict": "", "depth": "", "95 %": "", "plateau": ""}
    table = PrintedTable(heads, asked.json)
    for path in asked.tables:
        rows = read_rows(path)
        for share in SHARES:
            some = rows[: round(share * len(rows))]
            if optimum := answer_of(some):
                ends = [ranges(list(it)) for it in (optimum.interval or (), optimum.plateau)]
                table.add(path.stem, len(some), optimum.kind.value, optimum.optimal_depth, *ends)
        for kind, number in kinds_of_shuffled(rows, range(asked.shuffles)).items():
            table.add(path.stem, len(rows), f"{kind}, shuffled: {number}", "", "", "")


if __name__ == "__main__":
    main()
