"""The best depths of a study of equal seconds, and how far its trainings were off their seconds.

fathom run configs/equal_seconds.yaml
python -m benchmarks.equal_seconds runs/equal_seconds --json benchmarks/figures/equal_seconds.json
"""

import argparse
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.spending.measured_seconds import measured_seconds
from fathom.search.api import load
from fathom.search.formatting import format_count, spend_text
from fathom.search.report.words import text

COLUMNS = ("budget", "each trains for", "depth", "95 % interval", "verdict")


def main() -> None:
    """Prints a row for each budget."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("run", type=Path, help="run folder")
    add_json_option(parser)
    asked = parser.parse_args()
    found = load(asked.run).conclusion
    table = PrintedTable(dict.fromkeys(COLUMNS, ""), asked.json)
    for optimum in found.optima:
        table.add(
            format_count(optimum.budget),
            spend_text(optimum.spend),
            str(optimum.optimal_depth or "-"),
            text.interval(optimum) or "-",
            optimum.kind.value,
        )
    spent = [
        took
        for optimum in found.optima
        if (took := measured_seconds(found.records_of(optimum.budget)))
    ]
    table.figure("trainings", sum(took.trials for took in spent), "whole trainings")
    for name, off in (
        ("median_off", [took.median_off for took in spent]),
        ("worst_off", [took.worst_off for took in spent]),
    ):
        table.figure(name, 100 * max(off, key=abs), "% off their seconds, the furthest", "+.1f")


if __name__ == "__main__":
    main()
