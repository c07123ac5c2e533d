"""Measures how often the loss of a depth lies inside the 95 % band that the other depths give.

python -m benchmarks.answers.planted.left_out TABLE.csv ...

Each depth between the outermost of a size is left out in turn, after a quarter, a half and all of
the tokens. The band is that of the posterior of the others, with the noise of the depth's own
measurement. A table of final losses has one horizon.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.curve.curve_fit import points_of
from fathom.search.analysis.curve.posterior import FEWEST, find_posterior
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.analysis.losses.noise import Repeats
from fathom.search.records import TrialRecord, by_budget
from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.read import open_text

COLUMNS = {"table": "", "depths left out": "", "inside": "", "share": ".2f", "median width": ".4f"}


SHARES = (0.25, 0.5, 1.0)
"""Horizons, as shares of that which the runs of a size have in common."""


def main() -> None:
    """Prints a row for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+", help="tables, as `fathom analyse` reads")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable(COLUMNS, arguments.json)
    number = inside = 0
    for path in arguments.tables:
        found = list(left_out(path))
        hits = sum(low <= loss <= high for loss, low, high in found)
        width = float(np.median([high - low for _, low, high in found]))
        table.add(path.stem, len(found), hits, hits / len(found), width)
        number, inside = number + len(found), inside + hits
    table.figure("left_out", number, "depths")
    table.figure("inside", inside, "depths")


def left_out(path: Path) -> Iterator[tuple[float, float, float]]:
    """Yields the loss of each inner depth of a table, and the ends of the band of the others."""
    for records in _budgets(path, TableQuestion()):
        spec = records[0].spec
        horizons = [Horizon(int(share * spec.horizon_tokens)) for share in SHARES]
        asked = TableQuestion(budgets=[spec.budget], horizons=horizons, count=spec.count)
        for shorter in _budgets(path, asked) if spec.horizon_tokens > 1 else [records]:
            estimates = estimate_depths(shorter)
            points = points_of(estimates)
            if len(points.depths) > FEWEST:
                for place in range(1, len(points.depths) - 1):
                    yield band(points, estimates.repeats, place)


def _budgets(path: Path, question: TableQuestion) -> Iterator[list[TrialRecord]]:
    """Yields the runs of each budget at each horizon."""
    with open_text(path) as table:
        analysis = analyse_table(table, {}, question)
    for findings in analysis.findings:
        yield from by_budget(findings.records).values()


def band(points: DepthPoints, repeats: Repeats, place: int) -> tuple[float, float, float]:
    """The loss of a depth, and the ends of the 95 % band of its measurement by the others."""
    others = points.at(np.delete(np.arange(len(points.depths)), place))
    depth = int(points.depths[place])
    generator = np.random.default_rng(depth)
    posterior = find_posterior(others, repeats, generator)
    error = np.sqrt(points.covariance_for(posterior.noise)[place, place])
    losses = posterior.losses[:, depth - int(posterior.depths[0])]
    low, high = np.quantile(losses + error * generator.standard_normal(len(losses)), [0.025, 0.975])
    return float(points.losses[place]), float(low), float(high)


if __name__ == "__main__":
    main()
