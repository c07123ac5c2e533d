"""Measures what more workers save: searches of three budgets on a simulated clock.

python -m benchmarks.answers.spent.workers

Every search has a world of its own, and evaluations take from 0.8 to 1.25 of their mean time, so
that trials come in another order with each number of workers.
"""

import argparse
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.answers.planted.coverage import STUDY, one_hump
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.worlds.planted import World, symmetric
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.records import TrialRecord
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, evaluation_steps, expand_budgets

BUDGETS = "budgets: [300k, 1M, 3M]\n"
TOGETHER = (1, 16)
"""Values of `confirm.together`: its default, and one for many workers."""
WORKERS = (8, 32)
COLUMNS = {
    "`confirm.together`": "",
    "workers": "",
    "time, whole trainings": ".1f",
    "workers busy": ".2f",
    "whole trainings": ".1f",
    "answers as with 8 workers": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A simulated search; times and costs in units of a whole training."""

    time: float
    trainings: float
    records: tuple[TrialRecord, ...]
    optima: tuple[Optimum, ...]

    @property
    def answer(self) -> tuple[object, ...]:
        """The trials and the optimum of each budget: equal for any number of workers."""
        trials = sorted((r.spec.trial, r.spec, r.tokens, r.outcome, r.loss) for r in self.records)
        return trials, self.optima


def main() -> None:
    """Prints a row for each number of trainings decided together and each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=8, help="searches of each row")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other worlds")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable(COLUMNS, arguments.json)
    seeds = range(arguments.first, arguments.first + arguments.studies)
    for together in TOGETHER:
        few, many = ([searched(s, together, workers) for s in seeds] for workers in WORKERS)
        for workers, found in zip(WORKERS, (few, many), strict=True):
            table.add(together, workers, *_cells(workers, found, few))
        saved = sum(search.time for search in few) / sum(search.time for search in many)
        table.figure(f"faster_{together}", round(saved, 2), "times", ".2f")
    table.figure("searches", len(seeds), "searches")


def searched(seed: int, together: int, workers: int) -> Searched:
    """A search of three budgets with so many workers."""
    config: StudyConfig = parse(
        f"{STUDY}{BUDGETS}confirm: {{together: {together}}}\nseed: {seed}\n"
    )
    worlds = dict(_worlds(config, seed))
    luck = random.Random(f"{seed} {workers}")
    with tempfile.TemporaryDirectory() as path:
        scheduler = new_scheduler(config, Path(path))
        losses = PlantedLosses(config, worlds)
        simulated = SimulatedWorkers(scheduler, losses, workers, lambda: luck.uniform(0.8, 1.25))
        simulated.run()
        records = tuple(scheduler.records)
    evaluations = len(evaluation_steps(config, next(iter(worlds))))
    horizons = {budget.params: budget.tokens for budget in worlds}
    return Searched(
        time=simulated.now / evaluations,
        trainings=sum(record.tokens / horizons[record.spec.budget] for record in records),
        records=records,
        optima=find_optima(records, seed=seed),
    )


def _worlds(config: StudyConfig, seed: int) -> Iterator[tuple[Budget, World]]:
    """Yields each budget with a world of one hump."""
    for number, budget in enumerate(expand_budgets(config)):
        generator = np.random.default_rng([seed, number])
        yield budget, replace(one_hump(symmetric)(generator).world, budget=budget.params)


def _cells(workers: int, found: list[Searched], few: list[Searched]) -> list[object]:
    """The cells of a row after its heads: means over the searches, and how many are `few`'s."""
    time = float(np.mean([search.time for search in found]))
    trainings = float(np.mean([search.trainings for search in found]))
    alike = sum(a.answer == b.answer for a, b in zip(found, few, strict=True))
    busy = trainings / time / workers
    return [round(time, 2), round(busy, 3), round(trainings, 2), f"{alike} of {len(found)}"]


if __name__ == "__main__":
    main()
