"""Estimates of the work that a search has left, as ranges, and of the time that it takes."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt

from fathom.search.analysis.answer.interim import ENOUGH_DEPTHS
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.timing.time_left import TimeLeft

LEAST_SHARE, MOST_SHARE = 0.45, 1.2
"""Least and most work of a budget, as shares of the planned work: 45 of 48 simulated budgets took
0.5 to 1.2 of it, one with two minima 1.7."""
STILL_OPEN = 0.3
"""Most work left, as a share of the work done, of a budget that has done all the work expected of
it and is still not settled."""
PACE_ERROR, FIRST_PACE_ERROR = 0.1, 0.5
"""Relative error of the pace after many evaluations, and what is added to it after a single one."""
SLOWNESS = 0.2
"""Time that the printed range takes to follow a new estimate, as a share of the time passed."""
FEWEST_EVALUATIONS = 8
"""Evaluations and starts of trials in this run before its pace is known."""


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """The training that a budget still takes, as a range of tokens."""

    least: float
    most: float
    together: float
    """Number of the budget's trials that can run at a time."""


def work_left(
    plan: BudgetPlan,
    records: Sequence[TrialRecord],
    *,
    waiting: int = 0,
    explored: bool = False,
    settled: bool = False,
    together: int = 1,
) -> WorkLeft:
    """Returns the training that a budget still takes.

    It is at least the running trials, the `waiting` confirming trials of the present batch, and as
    many whole trainings as a curve needs; the plan gives a rough number of further ones. Once the
    budget is `settled`, only the trials that run are left. While it is not `explored`, any number
    of its trials run at a time; afterwards only those of one batch do, `together` or more.
    """
    length = _length(plan, records)
    running = [record for record in records if record.outcome is None]
    sure = _running_left(plan, running, length)
    at_a_time = float(max(len(running) + waiting, together)) if explored else inf
    if settled:
        return WorkLeft(sure, sure, at_a_time)
    planned = plan.expected_tokens * length / plan.budget.tokens
    done = sum(record.shared_tokens for record in records)
    finished = sum(record.outcome is Outcome.FINISHED for record in records)
    missing = 0.0 if explored else length * max(0, ENOUGH_DEPTHS - finished - len(running))
    least = max(sure + waiting * length, sure + missing, LEAST_SHARE * planned - done)
    most = max(MOST_SHARE * planned - done, least + max(2 * length, STILL_OPEN * done))
    return WorkLeft(least, most, at_a_time)


def _length(plan: BudgetPlan, records: Sequence[TrialRecord]) -> float:
    """Returns the tokens of a finished trial: fewer than the horizon with early stopping."""
    finished = [record.shared_tokens for record in records if record.outcome is Outcome.FINISHED]
    return statistics.fmean(finished) if finished else float(plan.budget.tokens)


def _running_left(plan: BudgetPlan, running: Sequence[TrialRecord], length: float) -> float:
    """Returns the tokens that running trials still take: an exploring one to its next rung."""
    left = 0.0
    for record in running:
        rungs = plan.rungs if record.spec.stage is Stage.EXPLORE else ()
        ends = (rung.tokens for rung in rungs if rung.tokens > record.shared_tokens)
        left += max(0.0, next(ends, length) - record.shared_tokens)
    return left


@dataclass(frozen=True, slots=True)
class TrialWork:
    """Work that the trials of a budget have done in some time."""

    flops: float = 0.0
    train_seconds: float = 0.0
    """Seconds of training steps."""
    starts: int = 0
    """Trials that were started."""
    evaluations: int = 0

    @property
    def others(self) -> int:
        """Number of starts and evaluations, which take a worker's time in addition to the steps."""
        return self.starts + self.evaluations


def work_since(records: Iterable[TrialRecord], since: float) -> TrialWork:
    """Returns the work of these trials since the Unix time `since`, up to their last
    evaluations."""
    flops = seconds = 0.0
    starts = evaluations = 0
    for record in records:
        points = record.curve
        starts += record.started > since
        for index in range(len(points)):
            if points[index].time > since:
                before = points[index - 1] if index else None
                tokens = points[index].tokens - (before.tokens if before else 0)
                flops += record.spec.shape.train_flops_per_token * tokens
                seconds += points[index].train_seconds - (before.train_seconds if before else 0.0)
                evaluations += 1
    return TrialWork(flops, seconds, starts, evaluations)


def steady_clock() -> Callable[[], float]:
    """Returns a clock of Unix time that does not change when the system's clock is set."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


class SearchPace:
    """The pace of a run at each budget, which the run measures itself, and the time left at that
    pace.

    The clock starts at the first evaluation of this run: before, workers load PyTorch. The pace is
    that of the later half of the time since: other programs come and go, and the last trials are of
    other depths than the first.
    """

    def __init__(
        self, plans: Iterable[BudgetPlan], evaluations: Mapping[int, int],
        clock: Callable[[], float] | None = None,
    ) -> None:  # fmt: skip
        """`evaluations` maps each budget to the number of evaluations that interrupt a whole
        training; 0 for a command of the user's own, whose training time includes them."""
        self._plans = {plan.budget.params: plan for plan in plans}
        self._evaluations, self._clock = evaluations, clock or steady_clock()
        self._began: float | None = None
        self._last = self._clock()
        self._busy = 0.0
        self._told: tuple[float, float, float] | None = None

    def evaluated(self) -> None:
        """Starts the clock at the first evaluation of this run."""
        if self._began is None:
            self._began = self._last = self._clock()

    def passed(self, busy_workers: float) -> None:
        """Adds the time since the last call, in which `busy_workers` workers were busy."""
        now = self._clock()
        if self._began is not None:
            self._busy += busy_workers * max(0.0, now - self._last)
        self._last = now

    def left(
        self, records: Mapping[int, Sequence[TrialRecord]], left: Mapping[int, WorkLeft]
    ) -> TimeLeft | None:
        """Returns the time left; None before this run has measured its pace.

        The new estimate is cut to the part that it shares with the range shown before, so that the
        range narrows; if the two share nothing, the new one is shown whole.
        """
        if self._began is None:
            return None
        run = work_since((r for of_budget in records.values() for r in of_budget), self._began)
        # A search whose trials all failed has nothing done, however long they were busy.
        if run.others < FEWEST_EVALUATIONS or not (self._busy > 0 and run.flops > 0):
            return None
        a_token = self._seconds_of_a_token(records, run, self._began)
        error = PACE_ERROR + FIRST_PACE_ERROR / sqrt(run.others)
        least = {
            budget: a_token[budget] * work.least / (1 + error) for budget, work in left.items()
        }
        most = {budget: a_token[budget] * work.most * (1 + error) for budget, work in left.items()}
        at_a_time = {budget: work.together for budget, work in left.items()}
        workers = self._busy / (self._last - self._began)
        low, high = self._without_jumps(
            self._began,
            _wall_seconds(least, workers, at_a_time),
            _wall_seconds(most, workers, at_a_time),
        )
        return TimeLeft(low, high, sum(least.values()), sum(most.values()))

    def _seconds_of_a_token(
        self, records: Mapping[int, Sequence[TrialRecord]], run: TrialWork, began: float
    ) -> dict[int, float]:
        """Returns a worker's seconds per training token of each budget, including shares of
        evaluations and of the trial's start."""
        half = began + (self._last - began) / 2
        others = run.others if any(self._evaluations.values()) else max(1, run.starts)
        beside = max(0.0, self._busy - run.train_seconds) / others
        found = {}
        for budget, plan in self._plans.items():
            training = _training_seconds(records[budget], began, half)
            if training is None:
                training = run.train_seconds / run.flops * plan.flops_of_a_token
            stops = (1 + self._evaluations[budget]) / plan.budget.tokens
            found[budget] = training + beside * stops
        return found

    def _without_jumps(self, began: float, low: float, high: float) -> tuple[float, float]:
        """Returns the range of seconds left that the user sees: both ends move towards the new
        estimates a little at a time, and more slowly in a longer run."""
        now = self._last
        at, *ends = self._told or (now, now + low, now + high)
        least = low
        share = min(1.0, (now - at) / (SLOWNESS * (now - began)))
        low, high = (
            end + share * (now + new - end) for end, new in zip(ends, (low, high), strict=True)
        )
        self._told = now, low, high
        return max(0.0, low - now, least), max(0.0, high - now, least)


def _training_seconds(records: Iterable[TrialRecord], began: float, half: float) -> float | None:
    """Returns the seconds of a training token, counted as `TrialRecord.shared_tokens` are: the mean
    over the depths that trained since the Unix time `half`, each as fast as its last trial; None if
    no depth trained since `began`."""
    rates: dict[int, tuple[float, float]] = {}
    for record in records:
        here = work_since([record], began)
        if here.flops and here.train_seconds:
            spec = record.spec
            rate = here.train_seconds / here.flops * spec.shape.train_flops_per_token
            rate *= spec.horizon_tokens / spec.shared_horizon
            depth = spec.shape.depth
            rates[depth] = max(rates.get(depth, (0.0, 0.0)), (record.curve[-1].time, rate))
    lately = [rate for at, rate in rates.values() if at > half]
    known = lately or [rate for _, rate in rates.values()]
    return statistics.fmean(known) if known else None


def _wall_seconds(
    busy: Mapping[int, float], workers: float, at_a_time: Mapping[int, float]
) -> float:
    """Returns the time in which `workers` workers do the training seconds `busy` of the budgets; a
    budget uses no more workers than it has trials at a time."""
    longest = max((seconds / at_a_time[budget] for budget, seconds in busy.items()), default=0.0)
    return max(sum(busy.values()) / workers, longest)
