"""A class of learning curves as a study: trials arrive, come to rungs, are stopped or go on.

The arrival model, in full: every run of the class is a trial; they start in a random order, `slots`
at a time, the next as soon as one ends. A trial trains at the speed that the table gives it
(seconds_per_step), so trials reach rungs at different times and in another order than they started
in. A rung judges a trial when it gets there, on what has been reported by then. A stopped trial is
gone for good.
"""

import heapq
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from benchmarks.tables import SizeClass
from search.config import StoppingConfig
from search.scheduler import FairHalving, foresee

LAST_RUNG = 0.8
"""Share of the horizon where a study's cool-down begins, after which it has no rung."""


class Rule(Protocol):
    """Judges a trial, by its row in the class, at a rung, by its evaluation."""

    rungs: Sequence[int]

    def goes_on(self, trial: int, rung: int) -> bool:
        """Whether the trial trains beyond the rung."""


MakeRule = Callable[[], Rule]
"""A fresh rule, which has seen nothing yet."""


@dataclass(frozen=True, slots=True)
class Survival:
    """What a rule does to a class, over many orders of arrival."""

    kept: float
    """How often the best shape is trained to the end."""
    tokens: float
    """Share of the tokens of training everything."""
    regret: float
    """Final loss of the best shape that is kept, above the best there is; nats, mean."""


@dataclass(slots=True)
class StockAsha:
    """Ray's AsyncHyperBandScheduler with one bracket, on one evaluation's loss.

    A trial goes on unless its loss is above the 1/eta quantile of those that came before it, which
    `numpy.percentile` interpolates between neighbours.
    """

    some: SizeClass
    eta: float
    rungs: Sequence[int]
    seen: dict[int, list[float]] = field(default_factory=dict)

    def goes_on(self, trial: int, rung: int) -> bool:
        """Judge by those who came before, then record."""
        loss = float(self.some.losses[trial, rung])
        before = self.seen.setdefault(rung, [])
        goes_on = not before or loss <= _quantile(before, 1 / self.eta)
        before.append(loss)
        return goes_on


@dataclass(slots=True)
class Ours:
    """The rule of a real run, told what a real trial would tell it."""

    stage: "Stage"
    config: StoppingConfig
    rungs: Sequence[int]
    halving: FairHalving

    def goes_on(self, trial: int, rung: int) -> bool:
        """Ask the scheduler."""
        value, foreseen = self.stage.report(trial, rung, self.config.median_of)
        depth = self.stage.some.runs[trial].depth
        tokens = int(self.stage.some.tokens[rung])
        return self.halving.judge(str(trial), depth, tokens, value, foreseen)


@dataclass
class Stage:
    """A class of curves, and what its trials report at rungs, worked out once."""

    some: SizeClass
    _reports: dict[tuple[int, int, int], tuple[float, float | None]] = field(default_factory=dict)

    @cached_property
    def paces(self) -> list[float]:
        """Seconds that a trial takes for a token, up to a factor common to all."""
        return [run.seconds_per_step for run in self.some.runs]

    def report(self, trial: int, rung: int, median_of: int) -> tuple[float, float | None]:
        """A trial's value at a rung, and the loss foreseen there."""
        key = (trial, rung, median_of)
        if key not in self._reports:
            losses = self.some.losses[trial, : rung + 1]
            curve = list(zip(self.some.tokens.tolist(), losses.tolist(), strict=False))
            tokens, horizon = int(self.some.tokens[rung]), int(self.some.horizon)
            foreseen = foresee(curve, tokens=tokens, horizon=horizon, median_of=median_of)
            self._reports[key] = (float(np.median(losses[-median_of:])), foreseen)
        return self._reports[key]

    def ours(self, config: StoppingConfig) -> Rule:
        """The rule of a real run on this class."""
        depths = [run.depth for run in self.some.runs]
        rungs = rungs_of(self.some, config.first_rung, config.eta, LAST_RUNG)
        halving = FairHalving(config, (min(depths), max(depths)))
        return Ours(self, config, rungs, halving)

    def stock(self, grace: float, eta: float) -> Rule:
        """Ray's rule on this class."""
        return StockAsha(self.some, eta, rungs_of(self.some, grace, eta))


def rungs_of(some: SizeClass, first: float, factor: float, last: float = 1.0) -> tuple[int, ...]:
    """Evaluations nearest to the rungs: `first` of the horizon, then each `factor` times later.

    None comes after the share `last`, nor at the end; the first is there all the same.
    """
    shares = some.tokens / some.horizon
    start = float(shares[np.abs(np.log(shares / first)).argmin()])
    count = max(1, math.ceil(math.log(last / start) / math.log(factor)))
    wanted = [start * factor**k for k in range(count)]
    nearest = {int(np.abs(np.log(shares / share)).argmin()) for share in wanted}
    return tuple(sorted(nearest - {len(shares) - 1}))


def survival(stage: Stage, make: MakeRule, *, slots: int, orders: int, seed: int) -> Survival:
    """Replay a rule over random orders of arrival."""
    some, luck = stage.some, random.Random(seed)
    final = some.final.tolist()
    trials = list(range(len(some.runs)))
    kept, tokens, regret = 0, 0.0, 0.0
    for _ in range(orders):
        luck.shuffle(trials)
        finished, spent = replay(stage, make(), trials, slots)
        best = min((final[trial] for trial in finished), default=math.inf)
        kept += best == min(final)
        tokens += spent
        regret += best - min(final)
    everything = orders * len(trials) * some.horizon
    return Survival(kept / orders, tokens / everything, regret / orders)


def replay(
    stage: Stage, rule: Rule, order: Sequence[int], slots: int
) -> tuple[tuple[int, ...], float]:
    """The trials that finish, and the tokens that all of them train."""
    tokens, paces = stage.some.tokens, stage.paces
    stations = [*rule.rungs, len(tokens) - 1]
    waiting, finished, spent = iter(order), [], 0.0
    due: list[tuple[float, int, int]] = []
    for _ in range(slots):
        _start(due, waiting, paces, float(tokens[stations[0]]), now=0.0)
    while due:
        now, trial, station = heapq.heappop(due)
        at = float(tokens[stations[station]])
        last = station == len(stations) - 1
        if not last and rule.goes_on(trial, stations[station]):
            later = now + (float(tokens[stations[station + 1]]) - at) * paces[trial]
            heapq.heappush(due, (later, trial, station + 1))
            continue
        spent += at
        finished += [trial] if last else []
        _start(due, waiting, paces, float(tokens[stations[0]]), now)
    return tuple(finished), spent


def _start(
    due: list[tuple[float, int, int]],
    waiting: Iterator[int],
    paces: Sequence[float],
    first: float,
    now: float,
) -> None:
    for trial in waiting:
        heapq.heappush(due, (now + first * paces[trial], trial, 0))
        return


def _quantile(values: Sequence[float], share: float) -> float:
    """As `numpy.percentile` does, in a fiftieth of the time on lists this short."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
