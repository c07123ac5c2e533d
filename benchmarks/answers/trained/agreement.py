"""Compares a search with the exhaustive search of the same study.

fathom run configs/quickstart.yaml
fathom run benchmarks/quickstart_ladder.yaml
python -m benchmarks.answers.trained.agreement runs/quickstart runs/quickstart-ladder
"""

import argparse
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.formatting import format_count
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.study.file.study_file import load


def main() -> None:
    """Prints the answers of the search and of the ladder side by side for each budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("search", type=Path, help="run folder of the search")
    parser.add_argument(
        "ladder", type=Path, help="the ladder's run folder, or a file of its losses"
    )
    parser.add_argument("--keep", type=Path, help="write the ladder's losses to this file")
    add_json_option(parser)
    arguments = parser.parse_args()
    folder = RunFolder(arguments.search)
    records = read_records(folder.records)
    ladder = read_ladder(arguments.ladder)
    if arguments.keep:
        lines = (json.dumps(row) for row in ladder)
        arguments.keep.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    compare(records, load(folder.config).seed, ladder, arguments.json)


COLUMNS = ("budget", "ladder: loss by depth", "best", "search: depth [95 %]", "verdict", "agrees")


def compare(
    records: list[TrialRecord], seed: int, ladder: list[dict[str, float]], file: Path | None
) -> None:
    """Prints the table and the tokens of both, and writes them to `file`, if one is given."""
    table = PrintedTable(dict.fromkeys(COLUMNS, ""), file)
    optima = find_optima(records, seed=seed)
    rows = [
        row_of(best, [row for row in ladder if row["budget"] == best.budget]) for best in optima
    ]
    for cells in rows:
        table.add(*cells)
    agreeing = sum(cells[-1] == "yes" for cells in rows)
    table.figure(
        "inside", f"{agreeing} of {len(rows)}", "sizes whose ladder is best inside the interval"
    )
    spent, full = tokens(records), sum(row["tokens"] for row in ladder)
    table.figure("search_tokens", format_count(spent), "tokens")
    table.figure("ladder_tokens", format_count(full), "tokens")
    print(
        f"\nThe search trained on {format_count(spent)} tokens, the ladder on {format_count(full)}."
    )


def read_ladder(path: Path) -> list[dict[str, float]]:
    """Budget, depth, seed, tokens and loss of every finished trial of a ladder."""
    if path.is_file():
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        {
            "budget": record.spec.budget,
            "depth": record.spec.shape.depth,
            "d_model": record.spec.shape.d_model,
            "d_ff": record.spec.shape.d_ff,
            "seed": record.spec.seed,
            "tokens": record.tokens,
            "loss": round(record.loss, 5),
        }
        for record in read_records(RunFolder(path).records)
        if record.loss is not None
    ]


def row_of(optimum: Optimum, ladder: list[dict[str, float]]) -> list[str]:
    """Returns the cells of a budget's row."""
    losses: dict[int, list[float]] = defaultdict(list)
    for row in ladder:
        losses[int(row["depth"])].append(row["loss"])
    means = {depth: statistics.fmean(values) for depth, values in sorted(losses.items())}
    best = min(means, key=lambda depth: means[depth])
    cells = ", ".join(f"{depth}: {mean:.4f}" for depth, mean in means.items())
    error = standard_error(losses)
    low, high = optimum.interval if isinstance(optimum, Located) else (math.inf, -math.inf)
    return [
        format_count(optimum.budget),
        f"{cells} (standard error {error:.4f})",
        str(best),
        f"{optimum.optimal_depth or '-'} [{low}-{high}]" if isinstance(optimum, Located) else "-",
        optimum.kind.value,
        "yes" if low <= best <= high else "no",
    ]


def standard_error(losses: dict[int, list[float]]) -> float:
    """Returns the standard error of a depth's mean loss, pooled over depths, nats."""
    repeated = [values for values in losses.values() if len(values) > 1]
    if not repeated:
        return math.nan
    pooled = statistics.fmean(statistics.variance(values) for values in repeated)
    return math.sqrt(pooled / statistics.fmean(len(values) for values in repeated))


def tokens(records: list[TrialRecord]) -> int:
    """Training tokens of all trials."""
    return sum(record.tokens for record in records)


if __name__ == "__main__":
    main()
