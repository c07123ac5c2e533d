"""The best sizes and depths of studies whose size is free, and what their trainings took.

fathom run configs/size_flops.yaml
fathom run configs/size_seconds.yaml
python -m benchmarks.size_and_depth runs/size_flops runs/size_seconds \
    --json benchmarks/figures/size_and_depth.json
"""

import argparse
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.spending.measured_seconds import measured_seconds
from fathom.search.api import load
from fathom.search.formatting import format_count, rounded_count, spend_text
from fathom.search.records import TrialRecord
from fathom.search.report.words import text
from fathom.search.report.words.sizes import amount_law_text

COLUMNS = ("each spends", "size", "95 % interval", "verdict", "depth", "95 % interval of the depth",
           "verdict of the depth", "tokens", "whole trainings")  # fmt: skip


def main() -> None:
    """Prints a row for each amount of each study."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    add_json_option(parser)
    asked = parser.parse_args()
    table = PrintedTable(dict.fromkeys(COLUMNS, ""), asked.json)
    for run in asked.runs:
        found = load(run).conclusion
        records = [record for record in found.records if record.ended]
        for optimum in found.optima:
            table.add(*cells(optimum, found.records_of(optimum.budget)))
            if took := measured_seconds(found.records_of(optimum.budget)):
                for name, off in (("median", took.median_off), ("worst", took.worst_off)):
                    unit = "% off the seconds asked"
                    table.figure(f"{name}_off_{optimum.budget}", 100 * off, unit, "+.1f")
        first, last = min(r.started for r in records), max(r.ended or 0.0 for r in records)
        unit = "minutes, from the first trial to the last"
        table.figure(f"minutes_{found.config.count}", (last - first) / 60, unit, ".0f")
        if law := found.amount_law:
            table.figure(f"law_{found.config.count}", amount_law_text(law), "as powers")


def cells(optimum: Optimum, records: list[TrialRecord]) -> list[str]:
    """The cells of the row of an amount."""
    size = optimum.best_size
    assert size, "the size is free"
    spent = sum(record.shared_tokens / record.spec.shared_horizon for record in records)
    return [
        spend_text(optimum.spend),
        format_count(size.size) if size.size else "-",
        " to ".join(map(format_count, size.interval or ())) or "-",
        size.verdict.kind.value,
        str(optimum.optimal_depth or "-"),
        text.interval(optimum) or "-",
        optimum.kind.value,
        rounded_count(optimum.tokens),
        f"{spent:.1f}",
    ]


if __name__ == "__main__":
    main()
