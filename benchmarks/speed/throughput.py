"""Training throughput of the trials of a run: the figure behind the hours that `plan` prints.

python -m benchmarks.speed.throughput runs/quickstart
"""

import argparse
import statistics
from pathlib import Path

from fathom.search.formatting import format_count
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder, read_records


def main() -> None:
    """Prints tokens and FLOPs a second by budget, medians over trials, evaluations excluded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="run folder")
    records = read_records(RunFolder(parser.parse_args().run).records)
    print("| budget | tokens/s | FLOP/s (median) | lowest | highest |")
    print("|---|---|---|---|---|")
    for budget in sorted({record.spec.budget for record in records}):
        print(row_of(budget, [r for r in records if r.spec.budget == budget and r.tokens]))


def row_of(budget: int, records: list[TrialRecord]) -> str:
    """Returns one table row."""
    speeds = [record.tokens_per_second or 0.0 for record in records]
    flops = [
        speed * record.spec.shape.train_flops_per_token
        for speed, record in zip(speeds, records, strict=True)
    ]
    return (
        f"| {format_count(budget)} | {statistics.median(speeds):,.0f} | "
        f"{statistics.median(flops):.2g} | {min(flops):.2g} | {max(flops):.2g} |"
    )


if __name__ == "__main__":
    main()
