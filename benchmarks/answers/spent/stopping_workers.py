"""Exploring time of stopping rules on simulated workers of different speeds, some of which fail.

python -m benchmarks.answers.spent.stopping_workers TABLE.csv ...

Every class of sizes of a table (benchmarks/worlds/curve_tables.py) with enough runs is explored
on the same orders of draws: under three rules with the same forecasts, ours, which takes results in
virtual time, ASHA that takes them as they come, and the synchronous rule; and by the classes of Ray
Tune and Optuna, which judge the loss of an evaluation and stop a trial for good. The slowest
worker takes twice the time of the fastest; one job in twenty is lost on its way and done again.
Times are shares of the synchronous rule's, with the speeds at which the shapes of the table train,
which differ up to thirtyfold, and with one speed for all shapes.
"""

import argparse
import heapq
import itertools
import random
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.rival_searchers.halving import OptunaStopper, RayStopper, Stopper
from benchmarks.simulate.arrivals import LAST_RUNG, OurHalving, Races, rungs_of
from benchmarks.worlds.curve_tables import read_runs, size_class
from fathom.search.study.keys.groups import StoppingConfig, StoppingMethod
from fathom.search.study.planning.virtual_time import Closing, Draw, Promotion, VirtualJob
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.sizes import WIDTH, size_classes

WORKERS = (2, 8, 32, 128)
SLOWEST = 2.0
"""Time of the slowest worker, as a multiple of the fastest one's."""
LOST = 1 / 20
"""Share of the jobs whose worker is lost on the way."""
FIRST = 7
"""First draws, for which the later ones wait."""
FEWEST = 9
"""Fewest runs of a class, as many as a study has trials by default."""
WHOLE_ETAS = (2, 3)
"""The whole numbers beside our `eta` of 2.5, for Optuna, which takes no other."""
COLUMNS = {
    "speed of shapes": "",
    "rule": "",
    "workers": "d",
    "time": ".2f",
    "tokens": ".2f",
    "best shape kept": ".0%",
    "regret, nats": ".4f",
}


class ExploringRule(Protocol):
    """Names the jobs of an exploration, and is told when one is done."""

    def next(self) -> tuple[int, int, int] | None:
        """A job for an idle worker: row of the trial, and the evaluations that the job starts from
        (-1: from the start) and goes to; None if there is none now."""

    def came(self, trial: int) -> None:
        """Takes or stores the result of a trial's job."""

    def finished(self) -> Sequence[int]:
        """Rows of the trials that were trained to the end."""


@dataclass
class Exploring:
    """Halving, whose results are taken in virtual time or as they come."""

    rule: OurHalving
    in_virtual_time: bool
    queue: list[VirtualJob] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)

    def next(self) -> tuple[int, int, int] | None:
        """The first job in virtual time that no worker has had."""
        time, tokens = self.rule.time, self.rule.races.tokens
        self._advance()
        if not self.queue:
            return None
        job = heapq.heappop(self.queue)
        place = time.places[job.trial]
        return int(job.trial), tokens.index(place) if place else -1, tokens.index(job.to)

    def came(self, trial: int) -> None:
        """Stores the result."""
        self.arrived.append(str(trial))

    def finished(self) -> Sequence[int]:
        """Rows of the trials that were trained to the end."""
        return self.rule.finished()[0]

    def _advance(self) -> None:
        time = self.rule.time
        while True:
            while decision := time.decision(self.rule):
                match decision:
                    case Draw():
                        self._assign(self.rule.drawn())
                    case Promotion(trial):
                        self._assign(trial)
                    case Closing():
                        time.close(decision)
            if not self.arrived:
                return
            taken = time.first.trial if self.in_virtual_time and time.first else self.arrived[0]
            if taken not in self.arrived:
                return
            self.arrived.remove(taken)
            over = time.jobs[taken].to == time.horizon
            time.take(taken, () if over else (time.jobs[taken].to,), over=over)

    def _assign(self, trial: str) -> None:
        job = self.rule.time.job(trial)
        self.rule.time.assign(job)
        heapq.heappush(self.queue, job)


@dataclass
class Stopping:
    """Halving that stops trials for good: a trial keeps its worker from rung to rung till then."""

    stopper: Stopper
    stage: Races
    order: Sequence[int]
    eta: float
    first: int
    """Evaluation of the first rung; a later one is the first evaluation that has come to it."""
    places: dict[int, int] = field(default_factory=dict)
    """Row of a trial -> the evaluation that it has come to, or is on its way to."""
    going_on: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def next(self) -> tuple[int, int, int] | None:
        """The trial that goes on, else a new one."""
        if self.going_on:
            trial = self.going_on.pop()
        elif len(self.places) < len(self.order):
            trial = self.order[len(self.places)]
        else:
            return None
        start = self.places.get(trial, -1)
        self.places[trial] = self._after(start)
        return trial, start, self.places[trial]

    def came(self, trial: int) -> None:
        """Reports the loss to the stopper."""
        at = self.places[trial]
        tokens, loss = self.stage.tokens[at], float(self.stage.some.losses[trial, at])
        if self.stopper.goes_on(trial, tokens, loss):
            self.going_on.append(trial)
        elif tokens == self.stage.tokens[-1]:
            self.ended.append(trial)

    def finished(self) -> Sequence[int]:
        """Rows of the trials that were trained to the end."""
        return self.ended

    def _after(self, start: int) -> int:
        tokens, rung = self.stage.tokens, float(self.stage.tokens[self.first])
        while start >= 0 and rung <= tokens[start]:
            rung *= self.eta
        return min(bisect_left(tokens, rung), len(tokens) - 1)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What an exploration took and kept."""

    time: float
    tokens: float
    """Share of the tokens of training everything."""
    regret: float
    """Final loss of the best trial trained to the end above the best there is, nats."""


def explored(stage: Races, rule: ExploringRule, workers: int, seed: int) -> Exploration:
    """Explores a class on so many workers."""
    tokens, dice = [0.0, *map(float, stage.some.tokens)], random.Random(seed)
    spread = [SLOWEST ** (place / max(1, workers - 1)) for place in range(workers)]
    idle, due = dice.sample(spread, workers), list[tuple[float, int, int, float]]()
    now, spent, order = 0.0, 0.0, itertools.count()
    while True:
        while idle and (job := rule.next()):
            trial, start, to = job
            length, slowness = tokens[to + 1] - tokens[start + 1], idle.pop()
            luck = random.Random(f"{seed}/{trial}/{to}")
            again = luck.random() if luck.random() < LOST else 0.0
            spent += length
            end = now + length * stage.paces[trial] * slowness * (1 + again)
            heapq.heappush(due, (end, next(order), trial, slowness))
        if not due:
            break
        now, _, trial, slowness = heapq.heappop(due)
        idle.append(slowness)
        rule.came(trial)
    final = stage.some.final.tolist()
    best = min(final[trial] for trial in rule.finished())
    return Exploration(now, spent / len(final) / tokens[-1], best - min(final))


def rules(
    stage: Races, order: Sequence[int], workers: int
) -> dict[str, Callable[[], ExploringRule]]:
    """The rules by name, on an order of draws."""
    config, tokens = StoppingConfig(), stage.tokens
    first = rungs_of(stage.some, config.first_rung, config.eta, LAST_RUNG)[0]

    def exploring(rule: StoppingMethod, *, in_virtual_time: bool, **options: Any) -> Exploring:
        halving = stage.ours(StoppingConfig(rule=rule), order=order, **options)
        return Exploring(halving, in_virtual_time)

    def stopping(stopper: Callable[[int, int, Any], Stopper], eta: float) -> Stopping:
        return Stopping(stopper(tokens[first], tokens[-1], eta), stage, order, eta, first)

    synchronous, asha = (
        partial(exploring, rule) for rule in (StoppingMethod.SYNCHRONOUS, StoppingMethod.ASHA)
    )
    return {
        "synchronous": partial(
            synchronous, in_virtual_time=False, at_once=FIRST, workers=len(order)
        ),
        "ASHA in order of arrival": partial(asha, in_virtual_time=False, workers=workers),
        "ASHA in virtual time": partial(asha, in_virtual_time=True, at_once=FIRST),
        "Ray's `ASHAScheduler`": partial(stopping, RayStopper, config.eta),
        **{
            f"Optuna's `SuccessiveHalvingPruner`, eta {eta}": partial(stopping, OptunaStopper, eta)
            for eta in WHOLE_ETAS
        },
    }


def compared(stages: Sequence[Races], workers: int, orders: int) -> Iterator[tuple[object, ...]]:
    """Yields a row for each rule: means over classes and orders, its time beside the first's."""
    found: dict[str, list[tuple[float, Exploration]]] = {}
    for stage, seed in itertools.product(stages, range(orders)):
        order = random.Random(seed).sample(range(len(stage.paces)), len(stage.paces))
        results = {
            name: explored(stage, make(), workers, seed)
            for name, make in rules(stage, order, workers).items()
        }
        waits = next(iter(results.values())).time
        for name, result in results.items():
            found.setdefault(name, []).append((result.time / waits, result))
    for name, each in found.items():
        yield (
            name,
            workers,
            fmean(share for share, _ in each),
            fmean(result.tokens for _, result in each),
            fmean(result.regret == 0 for _, result in each),
            fmean(result.regret for _, result in each),
        )


def stages_of(tables: Sequence[Path], *, alike: bool = False) -> list[Races]:
    """The classes of the tables that have enough runs, whose shapes may train at one speed."""
    groups = [group for table in tables for group in size_classes(read_runs(table), "total", WIDTH)]
    if alike:
        groups = [tuple(replace(run, seconds_per_step=1.0) for run in g) for g in groups]
    return [Races(size_class(group)) for group in groups if len(group) >= FEWEST]


def main() -> None:
    """Prints a row for each rule and number of workers; a mistake is one line and status 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", type=Path, nargs="+", help="learning curves: CSV, or run folders")
    parser.add_argument("--orders", type=int, default=5, help="orders of draws of each class")
    add_json_option(parser)
    arguments = parser.parse_args()
    try:
        stages = {
            "the table's": stages_of(arguments.tables),
            "one": stages_of(arguments.tables, alike=True),
        }
    except (TableError, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    table = PrintedTable(COLUMNS, arguments.json)
    for (speeds, classes), workers in itertools.product(stages.items(), WORKERS):
        for row in compared(classes, workers, arguments.orders):
            table.add(speeds, *row)


if __name__ == "__main__":
    main()
