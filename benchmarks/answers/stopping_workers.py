"""Exploring time of stopping rules on simulated workers of different speeds, some of which are lost.

python -m benchmarks.answers.stopping_workers TABLE.csv ...

Every class of sizes of a table (benchmarks/worlds/curve_tables.py) with enough runs is explored
under three rules, on the same orders of draws: ours, which takes results in virtual time; ASHA that
takes them as they come, with the same forecasts; and the rule that waits until all have come to a
rung. The slowest worker takes twice the time of the fastest; one job in twenty is lost on its way
and done again. Times are shares of the waiting rule's.
"""

import argparse
import heapq
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Protocol

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.arrivals import OurHalving, Races, WaitingHalving
from benchmarks.worlds.curve_tables import read_runs, size_class
from fathom.search.study.keys.groups import StoppingConfig
from fathom.search.study.planning.virtual_time import Closing, Draw, Job, Promotion
from fathom.search.tables.runs import TableError
from fathom.search.tables.sizes import WIDTH, size_classes

DEFAULT = StoppingConfig()
WORKERS = (2, 8, 32, 128)
SLOWEST = 2.0
"""Time of the slowest worker, as a multiple of the fastest one's."""
LOST = 1 / 20
"""Share of the jobs whose worker is lost on the way."""
FIRST = 7
"""First draws, for which the later ones wait."""
TOGETHER = 16
"""Later draws that were made together, by the rule that waits."""
FEWEST = 9
"""Fewest runs of a class, as many as a study has trials by default."""
COLUMNS = {
    "rule": "",
    "workers": "d",
    "time": ".2f",
    "tokens": ".2f",
    "best shape kept": ".0%",
    "regret, nats": ".4f",
}


class Rule(Protocol):
    """A stopping rule that hands out segments of trials and takes their ends."""

    def next(self) -> tuple[int, int, int] | None:
        """Row of the class, and the evaluations from and to which it trains; None for now."""

    def came(self, trial: int) -> None:
        """Records that a trial has come to where it was sent."""

    def finished(self) -> tuple[int, ...]:
        """Rows of the trials that were trained to the end."""


@dataclass
class Asha:
    """Asynchronous halving, whose results are taken in virtual time or as they come."""

    rule: OurHalving
    in_virtual_time: bool
    queue: list[Job] = field(default_factory=list)
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

    def finished(self) -> tuple[int, ...]:
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
class Waiting:
    """Synchronous halving, whose trials are drawn in rounds."""

    rule: WaitingHalving
    order: Sequence[int]
    begun: int = 0
    queue: list[tuple[int, int, int]] = field(default_factory=list)
    under_way: dict[int, int] = field(default_factory=dict)
    """Trial -> the evaluation to which it trains."""
    ended: list[int] = field(default_factory=list)

    def next(self) -> tuple[int, int, int] | None:
        """A new trial or, once all have come to a rung, one that is promoted there."""
        if self.begun < len(self.order):
            later = max(0, self.begun - FIRST)
            known = FIRST + later - later % TOGETHER if self.begun >= FIRST else 0
            if any(trial not in self.rule.records for trial in self.order[:known]):
                return None
            self.queue.append((self.order[self.begun], -1, self.rule.rungs[0]))
            self.begun += 1
        elif not (self.queue or self.under_way):
            stations = [*self.rule.rungs, len(self.rule.races.tokens) - 1]
            self.queue = [
                (trial, rung, stations[stations.index(rung) + 1])
                for trial, rung in self.rule.resumed()
            ]
        if not self.queue:
            return None
        trial, start, to = self.queue.pop(0)
        self.under_way[trial] = to
        return trial, start, to

    def came(self, trial: int) -> None:
        """Pauses the trial at its rung, or ends it."""
        to = self.under_way.pop(trial)
        if to in self.rule.rungs:
            self.rule.goes_on(trial, to)
        else:
            self.rule.records[trial] = replace(self.rule.records[trial], outcome=None)
            self.ended.append(trial)

    def finished(self) -> tuple[int, ...]:
        """Rows of the trials that were trained to the end."""
        return tuple(self.ended)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What an exploration took and kept."""

    time: float
    tokens: float
    """Share of the tokens of training everything."""
    regret: float
    """Final loss of the best trial trained to the end above the best there is, nats."""


def explored(stage: Races, rule: Rule, workers: int, seed: int) -> Exploration:
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


def rules(stage: Races, order: Sequence[int], workers: int) -> dict[str, Callable[[], Rule]]:
    """The rules by name, on an order of draws."""

    def asha(together: int, first: int) -> OurHalving:
        rule = stage.ours(DEFAULT, workers=together)
        rule.order, rule.first = order, first
        return rule

    return {
        "waits for all": lambda: Waiting(stage.waiting(DEFAULT), order),
        "ASHA in order of arrival": lambda: Asha(asha(workers, 0), in_virtual_time=False),
        "ASHA in virtual time": lambda: Asha(asha(TOGETHER, FIRST), in_virtual_time=True),
    }


def compared(stages: Sequence[Races], workers: int, orders: int) -> Iterator[tuple[object, ...]]:
    """Yields a row for each rule: means over classes and orders, times beside the waiting rule's."""
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


def stages_of(tables: Sequence[Path]) -> list[Races]:
    """The classes of the tables that have enough runs."""
    groups = [group for table in tables for group in size_classes(read_runs(table), "total", WIDTH)]
    return [Races(size_class(group)) for group in groups if len(group) >= FEWEST]


def main() -> None:
    """Prints a row for each rule and number of workers; a mistake is one line and status 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", type=Path, nargs="+", help="learning curves: CSV, or run folders")
    parser.add_argument("--orders", type=int, default=20, help="orders of draws of each class")
    add_json_option(parser)
    arguments = parser.parse_args()
    try:
        stages = stages_of(arguments.tables)
    except (TableError, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    table = PrintedTable(COLUMNS, arguments.json)
    for workers in WORKERS:
        for row in compared(stages, workers, arguments.orders):
            table.add(*row)


if __name__ == "__main__":
    main()
