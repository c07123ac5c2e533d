"""Estimates of the work that a search has left, and of the time that it takes."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.study.config import StudyConfig
from fathom.search.study.groups import Sampler
from fathom.search.study.plan import BudgetPlan

CONFIRMATION_SHARE = 2 / 3
"""Share of the confirming trials not yet started that are expected to run.

`python -m benchmarks.speed.time_left RUN` replays a run with it.
"""
LEAST_SHARE = 0.05
"""Share of a search that must be done before its remaining time is estimated."""


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """Estimated time that a search still takes."""

    seconds: float
    busy_seconds: float
    """Seconds of training, summed over all workers."""


def confirmation_share(config: StudyConfig) -> float:
    """Returns the expected share of confirming trials: all of them for a ladder."""
    return 1.0 if config.sampler is Sampler.LADDER else CONFIRMATION_SHARE


def flops_done(records: Sequence[TrialRecord]) -> float:
    """Returns the FLOPs that these trials have spent on training."""
    return sum(record.train_flops for record in records)


def flops_left(
    plan: BudgetPlan,
    records: Sequence[TrialRecord],
    *,
    waiting: int = 0,
    settled: bool = False,
    share: float = CONFIRMATION_SHARE,
) -> float:
    """Returns the FLOPs that a budget will most likely still spend.

    `waiting` confirming trials of the current batch have not started, and `share` of those not yet
    started are expected to run; none are once the confirmation is `settled`.
    """
    exploring = [record for record in records if record.spec.stage is Stage.EXPLORE]
    tokens = _exploring_left(plan, exploring)
    confirming = [record for record in records if record.spec.stage is Stage.CONFIRM]
    length = _length(plan, records)
    tokens += sum(max(0.0, length - r.tokens) for r in confirming if r.outcome is None)
    if not settled:
        open_places = plan.confirming - len(confirming)
        tokens += length * max(waiting, share * open_places)
    return tokens * plan.flops / plan.expected_tokens


def _length(plan: BudgetPlan, records: Sequence[TrialRecord]) -> float:
    """Returns the tokens of a finished trial: fewer than the horizon with early stopping."""
    finished = [record.tokens for record in records if record.outcome is Outcome.FINISHED]
    return statistics.fmean(finished) if finished else float(plan.budget.tokens)


def _exploring_left(plan: BudgetPlan, exploring: Sequence[TrialRecord]) -> float:
    """Returns the tokens that exploring trials still take.

    These are the planned tokens that are not done, but at least enough for each trial to reach
    its next rung.
    """
    to_start = plan.exploring - len(exploring)
    running = [record for record in exploring if record.outcome is None]
    if not (to_start or running):
        return 0.0
    ends = [*(rung.tokens for rung in plan.rungs), plan.budget.tokens]
    least = to_start * float(ends[0])
    least += sum(
        next((end for end in ends if end > r.tokens), r.tokens) - r.tokens for r in running
    )
    planned = plan.expected_tokens - plan.confirming * plan.budget.tokens
    return max(least, planned - sum(record.tokens for record in exploring))


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
        """Add the time since the last call; `running` maps each budget to its busy workers."""
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
        own = {budget: flops - self._before.get(budget, 0.0) for budget, flops in done.items()}
        total, busy = sum(own.values()), sum(self._busy.values())
        # A search whose trials all failed has nothing done, however long they were busy.
        if not (busy and total) or total < LEAST_SHARE * (total + sum(left.values())):
            return None
        pace = {budget: self._busy[budget] / flops for budget, flops in own.items() if flops}
        to_come = sum(flops * pace.get(budget, busy / total) for budget, flops in left.items())
        return RemainingTime(to_come * (self._last - self._began) / busy, to_come)
