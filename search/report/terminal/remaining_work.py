"""Estimates of the work that a search has left, and of the time that it takes."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.study.planning.plan import BudgetPlan

LEAST_SHARE = 0.05
"""Share of a search that must be done before its remaining time is estimated."""


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """Estimated time that a search still takes."""

    seconds: float
    busy_seconds: float
    """Seconds of training, summed over all workers."""


def flops_done(records: Sequence[TrialRecord]) -> float:
    """Returns the FLOPs that these trials have spent on training."""
    return sum(record.train_flops for record in records)


def flops_left(
    plan: BudgetPlan, records: Sequence[TrialRecord], *, waiting: int = 0, settled: bool = False
) -> float:
    """Returns the FLOPs that a budget will most likely still spend.

    These are the planned ones that are not done, but at least those of the trials that run and of
    the `waiting` ones, confirming trials of the current batch that have not started. Once the
    confirmation is `settled`, only the trials that run are left.
    """
    length = _length(plan, records)
    tokens = _running_left(plan, records, length)
    if not settled:
        planned = plan.expected_tokens * length / plan.budget.tokens
        done = sum(record.tokens for record in records)
        tokens = max(tokens + waiting * length, planned - done)
    return tokens * plan.flops / plan.expected_tokens


def _length(plan: BudgetPlan, records: Sequence[TrialRecord]) -> float:
    """Returns the tokens of a finished trial: fewer than the horizon with early stopping."""
    finished = [record.tokens for record in records if record.outcome is Outcome.FINISHED]
    return statistics.fmean(finished) if finished else float(plan.budget.tokens)


def _running_left(plan: BudgetPlan, records: Sequence[TrialRecord], length: float) -> float:
    """Returns the tokens that running trials still take: an exploring one to its next rung."""
    left = 0.0
    for record in records:
        if record.outcome is None:
            rungs = plan.rungs if record.spec.stage is Stage.EXPLORE else ()
            ends = (rung.tokens for rung in rungs if rung.tokens > record.tokens)
            left += max(0.0, next(ends, length) - record.tokens)
    return left


class SearchPace:
    """Training time of the trials of this run, by budget."""

    def __init__(
        self, done: Mapping[int, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Starts the clock; `done` maps each budget to the FLOPs that earlier runs have spent."""
        self._before, self._clock = done, clock
        self._began = self._last = clock()
        self._busy: defaultdict[int, float] = defaultdict(float)

    def passed(self, running: Mapping[int, float]) -> None:
        """Adds the time since the last call; `running` maps each budget to its busy workers."""
        now = self._clock()
        for budget, workers in running.items():
            self._busy[budget] += workers * (now - self._last)
        self._last = now

    def left(self, done: Mapping[int, float], left: Mapping[int, float]) -> RemainingTime | None:
        """Returns the remaining time; None before enough is done to estimate it.

        `done` and `left` map each budget to its FLOPs. Each budget has a pace of its own, since a
        FLOP of a small model takes longer than one of a large model.
        """
        if not sum(left.values()):
            return RemainingTime(0.0, 0.0)
        spent = {budget: flops - self._before.get(budget, 0.0) for budget, flops in done.items()}
        total, busy = sum(spent.values()), sum(self._busy.values())
        # A search whose trials all failed has nothing done, however long they were busy.
        if not (busy and total) or total < LEAST_SHARE * (total + sum(left.values())):
            return None
        pace = {budget: self._busy[budget] / flops for budget, flops in spent.items() if flops}
        to_come = sum(flops * pace.get(budget, busy / total) for budget, flops in left.items())
        return RemainingTime(to_come * (self._last - self._began) / busy, to_come)
