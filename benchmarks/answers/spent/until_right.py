"""Shows where the tokens of a search go until its answer is right for good, and what the least is.

python -m benchmarks.answers.spent.until_right gemstones/curves.csv --count total
python -m benchmarks.answers.spent.until_right benchmarks/data/ladder.csv \\
    benchmarks/data/ladders/*.csv

All numbers are shares of the tokens of the exhaustive ladder. A cell of a use of tokens has them
until right, and in all. The ladders train every shape with every seed to a share of the horizon, in
random order, and the posterior of the search reads them. The oracle is the least for which the best
shapes of the plateau and of the depths beside it, one seed of each, are read right: it knows which
these are, and where to stop.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.clock import Moment, run, tokens_until_right
from benchmarks.simulate.ours import DRAWS, FathomSearch
from benchmarks.worlds.curve_tables import read_runs
from benchmarks.worlds.known import Known, known_budgets
from benchmarks.worlds.planted import World, finished, flat
from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.curve.joint_curve import finished_depths
from fathom.search.records import Stage

USES = ("first rung", "later rungs", "resumed", "new depths", "repeats")
"""What an evaluation of a search is trained for."""
LADDERS = (4, 8, 16)
"""Inverse shares of the horizon of the ladders."""
STOPS = np.geomspace(1 / 256, 1, 33)
"""Shares of the horizon at which the oracle may stop."""
COLUMNS = {
    "table": "", "until right": ".3f", **dict.fromkeys(USES, ""), "spent": ".2f",
    **{f"ladder to 1/{share}": ".3f" for share in LADDERS}, "oracle": ".3f",
}  # fmt: skip
Training = tuple[Shape, int]
"""A shape and a seed."""


class ItemisedSearch(FathomSearch):
    """A search that says what its last evaluation was trained for."""

    use = ""

    def report(self, trial: str, index: int, loss: float) -> bool:
        """Reports an evaluation to the scheduler as a real trial would."""
        spec = self.scheduler.live[trial].spec
        if spec.stage is Stage.CONFIRM:
            known = spec.shape.depth in finished_depths(self.scheduler.records)
            self.use = "repeats" if known else "new depths"
        elif self.scheduler.budgets[self.budget.params].explored:
            self.use = "resumed"
        else:
            first = self.shares[index] <= self.config.stopping.first_rung
            self.use = "first rung" if first else "later rungs"
        return super().report(trial, index, loss)


def main() -> None:
    """Prints a row for each budget of each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+", help="CSV of learning curves")
    parser.add_argument("--count", type=Count, default=Count.NON_EMBEDDING, help="of a size")
    parser.add_argument("--repetitions", type=int, default=4, help="searches of each budget")
    add_json_option(parser)
    told = parser.parse_args()
    table = PrintedTable(COLUMNS, told.json)
    for path in told.tables:
        for known in known_budgets(read_runs(path), told.count):
            if len(known.depths) > 1:
                table.add(f"{path.stem} {known.title}", *row(known, told.repetitions))


def row(known: Known, repetitions: int) -> list[object]:
    """Returns the cells of a budget after its title: medians over the repetitions."""
    found = [itemised(known, seed) for seed in range(repetitions)]
    uses = [
        f"{median(until[use] for _, until, _ in found):.3f} of "
        f"{median(spent[use] for _, _, spent in found):.3f}"
        for use in USES
    ]
    until = median(until for until, _, _ in found)
    spent = median(sum(spent.values()) for _, _, spent in found)
    ladders = [
        median(ladder_until_right(known, 1 / share, seed) for seed in range(repetitions))
        for share in LADDERS
    ]
    cells = [until, *uses, spent, *ladders, oracle(known)]
    return ["never" if cell == inf else cell for cell in cells]


def itemised(known: Known, seed: int) -> tuple[float, dict[str, float], dict[str, float]]:
    """Returns the tokens of a search until right, what of them went to each use, and what in all;
    shares of the ladder's. All of them go where the search ends wrong: it is never right."""
    items: list[tuple[str, float]] = []
    moments: list[Moment] = []
    with tempfile.TemporaryDirectory() as home:
        search = ItemisedSearch(known, "", seed, Path(home))
        for moment in run(known, search, workers=4, limit=known.ladder_tokens):
            before = moments[-1].tokens if moments else 0.0
            items.append((search.use, (moment.tokens - before) / known.ladder_tokens))
            moments.append(moment)
    right = tokens_until_right(moments, known.plateau)
    until, spent = dict.fromkeys(USES, 0.0), dict.fromkeys(USES, 0.0)
    for (use, share), moment in zip(items, moments, strict=True):
        spent[use] += share
        until[use] += share if moment.tokens <= right else 0.0
    return right / known.ladder_tokens, until, spent


def ladder_until_right(known: Known, share: float, seed: int) -> float:
    """Tokens after which a ladder to a share of the horizon is right for good, as a share of the
    exhaustive ladder's; infinite where it ends wrong."""
    trainings = [(shape, i) for shape, seeds in known.curves.items() for i in range(len(seeds))]
    order = np.random.default_rng(seed).permutation(len(trainings))
    drawn, each = [trainings[place] for place in order], share * known.horizon
    ended = range(1, len(drawn) + 1)
    return _until_right(known, (Moment(n * each, answer(known, drawn[:n], each)) for n in ended))


def oracle(known: Known) -> float:
    """The least tokens for which the best shapes of the plateau and of the depths beside it, one
    seed of each, are read right, and stay so when trained further, as a share of the exhaustive
    ladder's; infinite where none are."""
    ends = {shape: float(losses[:, -1].mean()) for shape, losses in known.curves.items()}
    first, last = (known.depths.index(end) for end in (known.plateau[0], known.plateau[-1]))
    best = [
        (min((s for s in known.shapes if s.depth == depth), key=lambda s: ends[s]), 0)
        for depth in known.depths[max(0, first - 1) : last + 2]
    ]
    tokens = [share * known.horizon for share in STOPS.tolist()]
    return _until_right(
        known,
        (Moment(len(best) * t, answer(known, best, t)) for t in tokens if t >= known.tokens[0]),
    )


def answer(known: Known, trainings: Sequence[Training], tokens: float) -> int | None:
    """The best depth by the posterior of trainings that ended after so many tokens."""
    world = World(curve=flat, budget=known.params, horizon=round(tokens))
    records = [
        finished(world.spec(shape, seed=seed), known.loss(shape, seed, tokens))
        for shape, seed in trainings
    ]
    return find_optimum(records, seed=0, draws=DRAWS).optimal_depth


def _until_right(known: Known, moments: Iterator[Moment]) -> float:
    return tokens_until_right(list(moments), known.plateau) / known.ladder_tokens


if __name__ == "__main__":
    main()
