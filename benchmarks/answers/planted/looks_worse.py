"""Counts how often a running search says that a depth looks worse which is the best in truth.

Searches of two budgets in a world whose losses rise with the squared logarithm of the distance from
the best depth: `python -m benchmarks.answers.planted.looks_worse`. Beside the rule of a
search, that of its interval alone is counted.
"""

import argparse
import math
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.driver import Loss, SimulatedWorkers, new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.interim import depth_losses, interim_answer
from fathom.search.analysis.answer.optimum import Located
from fathom.search.records import TrialRecord, TrialSpec
from fathom.search.report.terminal.looks_worse import ERRORS, LooksWorse
from fathom.search.study.file.study_file import parse

BEST = (1, 2, 3, 4, 6, 8, 12)
NOISE, CURVATURE = 0.01, 0.06
"""Standard deviation between seeds, and rise with the squared ln of a factor in depth; nats."""
EVENTS = 5
"""Evaluations between two answers, which is more often than a search computes them."""


RULES = {"": ERRORS, "_by_interval": 0.0}
"""Standard errors of the rule of a search, and of that by the interval alone, by the ends of the
names of their figures."""
COLUMNS = {
    "standard errors": "g",
    "budgets": "",
    "called worse": "",
    "in the final interval": "",
    "planted best depth": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseDepths:
    """A budget of a search, and what was told of it."""

    worse: Mapping[float, set[int]]
    """Standard errors of a rule -> the depths that it ever called worse."""
    interval: tuple[int, int]
    """The final interval."""
    planted: int
    """The best depth."""


def main() -> None:
    """Prints for each rule how many depths were called worse, and how many of these wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=25)
    add_json_option(parser)
    arguments = parser.parse_args()
    found = [told for seed in range(arguments.searches) for told in _searched(seed)]
    table = PrintedTable(COLUMNS, arguments.json)
    table.figure("budgets", len(found), "budgets")
    for rule, errors in RULES.items():
        called = [(depth, told) for told in found for depth in told.worse[errors]]
        inside = sum(told.interval[0] <= depth <= told.interval[1] for depth, told in called)
        best = sum(depth == told.planted for depth, told in called)
        table.add(errors, len(found), len(called), inside, best)
        counts = {"called_out": len(called), "in_interval": inside, "best": best}
        for name, count in counts.items():
            table.figure(f"{name}{rule}", count, "depths")


def _searched(seed: int) -> list[WorseDepths]:
    """Returns what was told of each budget of a search that has an interval."""
    planted = random.Random(seed).choice(BEST)
    with tempfile.TemporaryDirectory() as folder:
        search = new_scheduler(parse(TWO_BUDGETS).model_copy(update={"seed": seed}), Path(folder))
        workers = SimulatedWorkers(search, _loss(seed, planted), 3, random.Random(seed).random)
        rules = {errors: LooksWorse(errors) for errors in RULES.values()}
        ever = {budget: {errors: set[int]() for errors in rules} for budget in search.budgets}
        while not search.done:
            workers.run(events=EVENTS)
            for budget, worse in ever.items():
                records = [r for r in (*search.records, *search.live.values()) if _is(r, budget)]
                answer, losses = interim_answer(records, seed=seed), depth_losses(records)
                if answer and losses:
                    for errors, rule in rules.items():
                        worse[errors].update(rule.depths(answer, losses.losses))
        optima = find_optima(search.records, seed=seed)
    return [
        WorseDepths(worse=ever[o.budget], interval=o.interval, planted=planted)
        for o in optima
        if isinstance(o, Located)
    ]


def _is(record: TrialRecord, budget: int) -> bool:
    return record.spec.budget == budget


def _loss(seed: int, planted: int) -> Loss:
    def loss(spec: TrialSpec, share: float) -> float:
        noise = random.Random(f"{seed}{spec.trial}").gauss(0, NOISE)
        above = CURVATURE * math.log(spec.shape.depth / planted) ** 2
        return 2 + above + (1 - share) * (0.5 + 0.02 * spec.shape.depth) + noise

    return loss


if __name__ == "__main__":
    main()
