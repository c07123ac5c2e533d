"""Compares real searches with and without a `target`: the best depth at one size, and the cost.

python -m benchmarks.answers.aimed runs/whole runs/aimed --params 400k

Each row is a run folder: the best depth at that size by both laws of depth, weighed by how well
they fit, and the operations of all its trainings.
"""

import argparse
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.objectives.keys import parse_count
from fathom.search.analysis.weighed_laws import at_size
from fathom.search.api import load

COLUMNS = {
    "run": "",
    "best depth": ".1f",
    "95 % interval": "",
    "factor": ".1f",
    "whole trainings": "",
    "of the largest": "",
    "TFLOPs": ".2f",
}


def main() -> None:
    """Prints a row for each run folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    parser.add_argument("--params", type=parse_count, required=True, help="size that is asked for")
    add_json_option(parser)
    asked = parser.parse_args()
    table = PrintedTable(COLUMNS, asked.json)
    costs = []
    for run in asked.runs:
        found = load(run).conclusion
        known = at_size(found.optima, asked.params)
        records = [r for optimum in found.optima for r in found.records_of(optimum.budget)]
        whole = [record for record in records if record.loss is not None]
        largest = max(record.spec.budget for record in records)
        costs.append(sum(record.train_flops for record in records) / 1e12)
        table.add(
            run.name,
            known.depth if known else "-",
            f"{known.interval[0]:.1f} to {known.interval[1]:.1f}" if known else "-",
            known.width if known else "-",
            len(whole),
            sum(record.spec.budget == largest for record in whole),
            costs[-1],
        )
    table.figure("cost", costs[-1] / costs[0], "of the operations of the first run", ".2f")


if __name__ == "__main__":
    main()
