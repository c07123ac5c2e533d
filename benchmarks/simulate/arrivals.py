"""A class of learning curves as a study: trials arrive, come to rungs, are stopped or go on.

The arrival model, in full: every run of the class is a trial; they start in a random order, `slots`
at a time, the next as soon as one ends. A trial trains at the speed that the table gives it
(seconds_per_step), so trials reach rungs at different times and in another order than they started
in. A rung judges a trial when it gets there, on what has been reported by then. A trial that stock
ASHA stops is gone for good; one that pauses by our rule is taken up again when the rule says so.
"""

import heapq
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from benchmarks.worlds.curve_tables import SizeClass
from benchmarks.worlds.known import sized_shape
from fathom.models.shape import Count
from fathom.search.analysis.forecast import MEDIAN_OF
from fathom.search.records import CurvePoint, Stage, TrialRecord, TrialSpec
from fathom.search.scheduling.halving import promoted
from fathom.search.study.groups import StoppingConfig

LAST_RUNG = 0.8
"""Share of the horizon where a study's cool-down begins, after which it has no rung."""


class StoppingRule(Protocol):
    """Judges a trial, by its row in the class, at a rung, by its evaluation."""

    rungs: Sequence[int]

    def goes_on(self, trial: int, rung: int) -> bool:
        """Whether the trial trains beyond the rung."""

    def take_up(self, *, complete: bool) -> tuple[int, int] | None:
        """A paused trial that goes on after all, and its rung; `complete` when nothing else can."""


MakeRule = Callable[[], StoppingRule]
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

    def take_up(self, *, complete: bool) -> None:
        """None ever."""


@dataclass(slots=True)
class PausingRule:
    """The rule of a real run, told what a real trial would tell it."""

    stage: "Races"
    eta: float
    rungs: Sequence[int]
    came: dict[int, set[int]] = field(default_factory=dict)
    paused: dict[int, set[int]] = field(default_factory=dict)

    def goes_on(self, trial: int, rung: int) -> bool:
        """Ask the scheduler."""
        self.came.setdefault(rung, set()).add(trial)
        goes_on = trial in self._promoted(rung, complete=False)
        if not goes_on:
            self.paused.setdefault(rung, set()).add(trial)
        return goes_on

    def take_up(self, *, complete: bool) -> tuple[int, int] | None:
        """The furthest first, as long as more trials come."""
        for rung in sorted(self.paused, reverse=not complete):
            for trial in self._promoted(rung, complete=complete):
                if trial in self.paused[rung]:
                    self.paused[rung].remove(trial)
                    return trial, rung
        return None

    def _promoted(self, rung: int, *, complete: bool) -> tuple[int, ...]:
        return self.stage.promoted(frozenset(self.came[rung]), rung, self.eta, complete)


@dataclass
class Races:
    """A class of curves, and what its rungs say of them, worked out once."""

    some: SizeClass
    _known: dict[tuple[object, ...], tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def paces(self) -> list[float]:
        """Seconds that a trial takes for a token, up to a factor common to all."""
        return [run.seconds_per_step for run in self.some.runs]

    def promoted(
        self, came: frozenset[int], rung: int, eta: float, complete: bool
    ) -> tuple[int, ...]:
        """Who may train beyond a rung, best first."""
        key = (came, rung, eta, complete)
        if key not in self._known:
            tokens = int(self.some.tokens[rung])
            records = [_record(self.some, trial, rung) for trial in sorted(came)]
            names = promoted(records, tokens, eta=eta, complete=complete)
            self._known[key] = tuple(map(int, names))
        return self._known[key]

    def ours(self, config: StoppingConfig) -> StoppingRule:
        """The rule of a real run on this class."""
        return PausingRule(
            self, config.eta, rungs_of(self.some, config.first_rung, config.eta, LAST_RUNG)
        )

    def stock(self, grace: float, eta: float) -> StoppingRule:
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


def survival(stage: Races, make: MakeRule, *, slots: int, orders: int, seed: int) -> Survival:
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
    stage: Races, rule: StoppingRule, order: Sequence[int], slots: int
) -> tuple[tuple[int, ...], float]:
    """The trials that finish, and the tokens that all of them train."""
    tokens, paces = stage.some.tokens, stage.paces
    stations = [*rule.rungs, len(tokens) - 1]
    waiting, finished, now, spent = iter(order), [], 0.0, 0.0
    due: list[tuple[float, int, int]] = []

    def train_to(trial: int, station: int) -> None:
        before = float(tokens[stations[station - 1]]) if station else 0.0
        length = float(tokens[stations[station]]) - before
        nonlocal spent
        spent += length
        heapq.heappush(due, (now + length * paces[trial], trial, station))

    def fill(slots: int) -> None:
        for _ in range(slots):
            if again := rule.take_up(complete=False):
                train_to(again[0], stations.index(again[1]) + 1)
            elif (trial := next(waiting, None)) is not None:
                train_to(trial, 0)

    fill(slots)
    while True:
        while due:
            now, trial, station = heapq.heappop(due)
            last = station == len(stations) - 1
            if not last and rule.goes_on(trial, stations[station]):
                train_to(trial, station + 1)
            else:
                finished += [trial] if last else []
                fill(1)
        again = rule.take_up(complete=True)
        if again is None:
            return tuple(finished), spent
        train_to(again[0], stations.index(again[1]) + 1)


def _record(some: SizeClass, trial: int, rung: int) -> TrialRecord:
    """A trial at a rung, as a real one would have reported it."""
    losses = some.losses[trial, : rung + 1].tolist()
    tokens = [int(at) for at in some.tokens[: rung + 1]]
    points = tuple(map(_point, tokens, losses))
    return TrialRecord(
        spec=_spec(some, trial),
        outcome=None,
        reason="",
        curve=points,
        rungs={tokens[-1]: statistics.median(losses[-MEDIAN_OF:])},
        started=0.0,
        ended=None,
        setup_seconds=0.0,
        peak_memory_bytes=None,
    )


def _point(tokens: int, loss: float) -> CurvePoint:
    return CurvePoint(
        step=tokens, tokens=tokens, loss=loss, train_loss=loss, train_seconds=0.0, time=0.0
    )


def _spec(some: SizeClass, trial: int) -> TrialSpec:
    run = some.runs[trial]
    return TrialSpec(
        trial=str(trial),
        study="replay",
        stage=Stage.EXPLORE,
        budget=run.params_total,
        count=Count.TOTAL,
        horizon_tokens=int(some.horizon),
        shape=sized_shape(run, run.params_total),
        seed=run.seed,
        learning_rate=1.0,
        rate_scale=1.0,
        prunable=True,
    )


def _quantile(values: Sequence[float], share: float) -> float:
    """As `numpy.percentile` does, in a fiftieth of the time on lists this short."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
