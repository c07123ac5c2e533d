"""Replays a class of learning curves as a study: trials arrive, reach rungs, and stop or continue.

The arrival model, in full: every run of the class is a trial; they start in a random order, `slots`
at a time, the next as soon as one ends. A trial trains at the speed that the table gives it
(seconds_per_step), so trials reach rungs at different times and in another order than they started
in. Stock ASHA judges a trial when it gets to a rung, by those that came before it, and one that it
stops is gone for good. Our rule takes its trials through virtual time, so the speeds of the table
change nothing: only the order of the draws does.
"""

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from benchmarks.worlds.curve_tables import SizeClass
from fathom.models.shape import Count
from fathom.search.analysis.losses.forecast import RungForecast, forecast_ranking
from fathom.search.analysis.losses.rung_value import rung_value
from fathom.search.records import CurvePoint, Stage, TrialRecord, TrialSpec
from fathom.search.scheduling.halving import TOO_CLOSE, HalvingRule
from fathom.search.study.keys.groups import StoppingConfig, StoppingMethod
from fathom.search.study.planning.virtual_time import VirtualTime, explore
from fathom.search.tables.grouped.sizes import sized_shape

TOGETHER = 16
"""Virtual workers, as many as a study has by default."""
LAST_RUNG = 0.8
"""Share of the horizon where a study's cool-down begins, after which it has no rung."""


class StoppingRule(Protocol):
    """Judges a trial, by its row in the class, at a rung, by its evaluation."""

    rungs: Sequence[int]

    def goes_on(self, trial: int, rung: int) -> bool:
        """True if the trial trains beyond the rung."""

    def resume(self) -> tuple[int, int] | None:
        """Returns a paused trial to resume, and its rung, when nothing else can run."""

    @property
    def waited(self) -> bool:
        """True if trials were promoted only because they were too close to the best to tell."""


MakeRule = Callable[[], "StoppingRule | OurHalving"]
"""Creates a stopping rule that has seen no trial."""


@dataclass(frozen=True, slots=True)
class Survival:
    """Effect of a rule on a class, over many orders of arrival."""

    kept: float
    """Share of the orders in which the best shape is trained to the end."""
    tokens: float
    """Share of the tokens of training everything."""
    regret: float
    """Final loss of the best shape that is kept, above the best there is; nats, mean."""
    waited: float
    """Share of the orders in which the rule said that it waits, as trials were too close to tell.
    """


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
        """Judges a trial by those that reached the rung earlier, then records its value."""
        loss = float(self.some.losses[trial, rung])
        before = self.seen.setdefault(rung, [])
        goes_on = not before or loss <= _quantile(before, 1 / self.eta)
        before.append(loss)
        return goes_on

    def resume(self) -> None:
        """Returns None: a stopped trial never resumes."""

    @property
    def waited(self) -> bool:
        """False: it has no doubts."""
        return False


@dataclass(slots=True)
class OurHalving:
    """The rule of a real run, on records as a real trial would have reported them."""

    races: "Races"
    rule: HalvingRule
    rungs: Sequence[int]
    workers: int = TOGETHER
    """Virtual workers, or real ones where results are taken as they come."""
    order: Sequence[int] = ()
    """Rows of the class in the order in which they are drawn."""
    at_once: int = 0
    """Number of first draws that the later ones wait for at the first rung."""
    waits: bool = False
    """True for the synchronous rule."""
    begun: int = 0
    time: VirtualTime = field(init=False)

    def __post_init__(self) -> None:
        tokens = self.races.tokens
        self.time = VirtualTime(
            workers=self.workers,
            rungs=tuple(tokens[rung] for rung in self.rungs),
            horizon=tokens[-1],
            eta=self.rule.eta,
            at_once=self.at_once,
            waits=self.waits,
        )

    def drawn(self) -> str:
        """The next trial in the order."""
        self.begun += 1
        return str(self.order[self.begun - 1])

    def pauses(self, trial: str, rung: int) -> bool:
        """True: every trial pauses at every rung."""
        return True

    def ranked(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials at a rung, the best forecast first."""
        return self.rule.ranked(self._records(trials), rung)

    def kept(self, trials: Sequence[str], rung: int) -> Sequence[str]:
        """The trials that train beyond a rung to which no more will come."""
        return self.rule.promoted(self._records(trials), rung)

    @property
    def all_drawn(self) -> bool:
        """True if every trial has begun."""
        return self.begun == len(self.order)

    def finished(self) -> tuple[tuple[int, ...], float]:
        """The trials that finish, and the tokens that all of them train."""
        whole = len(self.time.over) * self.time.horizon
        paused = sum(rung * len(self.time.waiting(rung)) for rung in self.time.rungs)
        ended = tuple(trial for trial in self.order if str(trial) in self.time.over)
        return ended, float(whole + paused)

    @property
    def waited(self) -> bool:
        """True if trials were promoted only because they were too close to the best to tell."""
        return any(
            self.rule.divided(self._records(tuple(self.time.standing[rung])), rung)[1]
            for rung in self.time.rungs
        )

    def _records(self, trials: Sequence[str]) -> list[TrialRecord]:
        """Records of trials that have come as far as they stand."""
        places = [self.time.places[trial] for trial in trials]
        return [
            self.races.record_at(int(trial), place)
            for trial, place in zip(trials, places, strict=True)
        ]


@dataclass
class Races:
    """A class of curves as trials, with the rankings at its rungs, each worked out once."""

    some: SizeClass
    _known: dict[tuple[object, ...], dict[str, RungForecast]] = field(default_factory=dict)
    _at: dict[tuple[int, int], TrialRecord] = field(default_factory=dict)

    @cached_property
    def paces(self) -> list[float]:
        """Seconds that each trial takes for a token, up to a factor common to all."""
        return [run.seconds_per_step for run in self.some.runs]

    @cached_property
    def tokens(self) -> list[int]:
        """Tokens of each evaluation."""
        return [int(tokens) for tokens in self.some.tokens]

    @cached_property
    def values(self) -> list[list[float]]:
        """(trials, evaluations) values at each evaluation if it were a rung, nats."""
        return [
            [rung_value(losses[: end + 1]) for end in range(len(losses))]
            for losses in self.some.losses.tolist()
        ]

    @cached_property
    def records(self) -> list[TrialRecord]:
        """Each trial with its whole curve, before it comes to any rung."""
        return [_record(self.some, trial, self.tokens) for trial in range(len(self.some.runs))]

    def ranking(self, came: Sequence[TrialRecord], rung: int) -> dict[str, RungForecast]:
        """The forecasts of the trials that reached a rung, whatever the order of arrival."""
        key = (rung, frozenset(record.spec.trial for record in came))
        if key not in self._known:
            by_row = sorted(came, key=lambda record: int(record.spec.trial))
            self._known[key] = forecast_ranking(by_row, rung)
        return self._known[key]

    def ours(
        self, config: StoppingConfig, too_close: float = TOO_CLOSE, **options: Any
    ) -> OurHalving:
        """The rule of a real run on this class."""
        rule = HalvingRule(eta=config.eta, ranking=self.ranking, too_close=too_close)
        rungs = rungs_of(self.some, config.first_rung, config.eta, LAST_RUNG)
        waits = config.rule is StoppingMethod.SYNCHRONOUS
        return OurHalving(self, rule, rungs, waits=waits, **options)

    def record_at(self, trial: int, tokens: int) -> TrialRecord:
        """A trial that has come to every evaluation up to these tokens as to a rung."""
        if (trial, tokens) not in self._at:
            values = zip(self.tokens, self.values[trial], strict=True)
            rungs = {at: value for at, value in values if at <= tokens}
            self._at[trial, tokens] = replace(self.records[trial], rungs=rungs)
        return self._at[trial, tokens]

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
    kept, tokens, regret, waited = 0, 0.0, 0.0, 0
    for _ in range(orders):
        luck.shuffle(trials)
        rule = make()
        finished, spent = replay(stage, rule, trials, slots)
        best = min((final[trial] for trial in finished), default=math.inf)
        kept += best == min(final)
        tokens += spent
        regret += best - min(final)
        waited += rule.waited
    everything = orders * len(trials) * some.horizon
    return Survival(kept / orders, tokens / everything, regret / orders, waited / orders)


def replay(
    stage: Races, rule: StoppingRule | OurHalving, order: Sequence[int], slots: int
) -> tuple[tuple[int, ...], float]:
    """The trials that finish, and the tokens that all of them train."""
    if isinstance(rule, OurHalving):
        rule.order = order
        explore(rule.time, rule)
        return rule.finished()
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

    for trial in itertools.islice(waiting, slots):
        train_to(trial, 0)
    while True:
        while due:
            now, trial, station = heapq.heappop(due)
            last = station == len(stations) - 1
            if not last and rule.goes_on(trial, stations[station]):
                train_to(trial, station + 1)
            else:
                finished += [trial] if last else []
                for trial in itertools.islice(waiting, 1):
                    train_to(trial, 0)
        again = rule.resume()
        if again is None:
            return tuple(finished), spent
        train_to(again[0], stations.index(again[1]) + 1)


def _record(some: SizeClass, trial: int, tokens: Sequence[int]) -> TrialRecord:
    """A trial that has reported its whole curve and reached no rung."""
    return TrialRecord(
        spec=_spec(some, trial),
        outcome=None,
        reason="",
        curve=tuple(map(_point, tokens, some.losses[trial].tolist())),
        rungs={},
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
        shape=sized_shape(run, run.params_total, Count.TOTAL),
        seed=run.seed,
        learning_rate=1.0,
        rate_scale=1.0,
        prunable=True,
    )


def _quantile(values: Sequence[float], share: float) -> float:
    """Returns the quantile of `numpy.percentile`, in a fiftieth of its time on lists this short."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
