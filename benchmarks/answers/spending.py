"""Measures what spending by value saves: ladders of planted losses whose law of depth is known.

python -m benchmarks.answers.spending

Each ladder has four budgets, and asks for the best depth at a size beyond them. It is searched
budget by budget, as a study without a `target` does, and then with the target, until its interval
is as narrow. What both cost is in operations of their trainings.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

import numpy as np
from numpy.random import Generator

from benchmarks.answers.coverage import STUDY, world
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.worlds.planted import symmetric
from fathom.search.analysis.law import LOGARITHMIC, POWER, depth_and_slopes
from fathom.search.analysis.optimum import find_optima
from fathom.search.analysis.weighed_laws import AtSize, at_size
from fathom.search.records import TrialRecord
from fathom.search.study.keys.config import StudyConfig, parse
from fathom.search.study.planning.budget import expand_budgets

SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
TARGET = 100_000_000
LADDER = f"{STUDY}budgets: {list(SIZES)}\ntokens_per_parameter: 20\n"
COLUMNS = {
    "law": "",
    "ladders": "",
    "with a law": "",
    "cost of today's": ".2f",
    "interval holds": "",
    "interval of today's holds": "",
    "trainings, of the largest": "",
}


@dataclass(frozen=True, slots=True)
class Ladder:
    """Planted best depths by a law."""

    law: str
    constants: tuple[float, float]

    def best_depth(self, params: float) -> float:
        """The best depth of a size, in layers."""
        depth, _ = depth_and_slopes(self.law, np.array(self.constants), np.array([params]))
        return float(depth[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedTarget:
    """A simulated search: what it found at the target, and what it cost."""

    found: AtSize | None
    flops: float
    trainings: int
    """Trials that trained to the end."""
    largest: int
    """Of these, those of the largest budget."""

    def holds(self, depth: float) -> bool:
        """True if the interval at the target holds a depth."""
        return self.found is not None and self.found.interval[0] <= depth <= self.found.interval[1]


def main() -> None:
    """Prints a row for each kind of law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ladders", type=int, default=14, help="ladders of each kind of law")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other worlds")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable(COLUMNS, arguments.json)
    shares: list[float] = []
    seeds = range(arguments.first, arguments.first + arguments.ladders)
    for law in (POWER, LOGARITHMIC):
        pairs = list(_pairs(law, seeds))
        both = [(old, new, depth) for old, new, depth in pairs if old.found and new.found]
        costs = [new.flops / old.flops for old, new, _ in both]
        shares += costs
        table.add(
            law, len(pairs), len(both), float(np.median(costs)),
            f"{sum(new.holds(depth) for _, new, depth in both)} of {len(both)}",
            f"{sum(old.holds(depth) for old, _, depth in both)} of {len(both)}",
            f"{np.mean([new.trainings for _, new, _ in both]):.0f}, "
            f"{np.mean([new.largest for _, new, _ in both]):.0f}",
        )  # fmt: skip
    table.figure("median_cost", round(float(np.median(shares)), 3), "of today's", ".2f")
    table.figure("worst_cost", round(max(shares), 3), "of today's", ".2f")


def _pairs(law: str, seeds: range) -> Iterator[tuple[ReachedTarget, ReachedTarget, float]]:
    """Yields what a search without and with the target found, and the best depth there."""
    for seed in seeds:
        ladder = planted(law, np.random.default_rng([seed, len(law)]))
        whole = searched(parse(f"{LADDER}seed: {seed}\n"), ladder)
        width = whole.found.width if whole.found else 1.5
        asked = f"target: {{params: {TARGET}, until_width: {max(1.05, width)}}}\n"
        yield (
            whole,
            searched(parse(f"{LADDER}seed: {seed}\n{asked}"), ladder),
            ladder.best_depth(TARGET),
        )


def planted(law: str, generator: Generator) -> Ladder:
    """A law whose best depths at the budgets lie inside the range that a study tries."""
    first = exp(generator.uniform(log(2.5), log(6)))
    if law == POWER:
        slope = generator.uniform(0.05, 0.3)
        return Ladder(law, (log(first) - slope * log(SIZES[0]), slope))
    # ln d_model = a + b * depth: doubling the width takes 2 to 7 layers.
    slope = log(2) / generator.uniform(2, 7)
    return Ladder(law, (log(SIZES[0] / (12 * first)) / 2 - slope * first, slope))


def searched(config: StudyConfig, ladder: Ladder) -> ReachedTarget:
    """A search of all budgets of a ladder with one worker."""
    worlds = {}
    curvature = exp(np.random.default_rng(config.seed).uniform(log(0.03), log(0.15)))
    for budget in expand_budgets(config):
        curve = symmetric(ladder.best_depth(budget.params), curvature)
        luck = np.random.default_rng([config.seed, 1])
        worlds[budget] = replace(world(curve, luck), budget=budget.params)
    with tempfile.TemporaryDirectory() as path:
        scheduler = new_scheduler(config, Path(path))
        SimulatedWorkers(scheduler, PlantedLosses(config, worlds)).run()
        records = scheduler.records
    return _measured(records, config.seed)


def _measured(records: list[TrialRecord], seed: int) -> ReachedTarget:
    finished = [record for record in records if record.loss is not None]
    return ReachedTarget(
        found=at_size(find_optima(records, seed=seed), TARGET),
        flops=sum(record.train_flops for record in records),
        trainings=len(finished),
        largest=sum(record.spec.budget == SIZES[-1] for record in finished),
    )


if __name__ == "__main__":
    main()
