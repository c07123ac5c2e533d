"""How much of a search is still to come, and how long that takes."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.study.config import StudyConfig
from fathom.search.study.groups import Sampler
from fathom.search.study.plan import BudgetPlan

CONFIRMED_SHARE = 2 / 3
"""Of the confirming trials that a plan allows at most and that have not begun, those that are taken
for coming. `python -m benchmarks.speed.time_left RUN` replays a run with it."""
LEAST_SHARE = 0.05
"""Of a search that must be done before anything is said of the rest."""


@dataclass(frozen=True, slots=True)
class Wave:
    """What a budget's confirming stage is known to want."""

    waiting: int = 0
    """Trials that are to start before the next look at the records."""
    settled: bool = False
    """It wants no more."""
    share: float = CONFIRMED_SHARE
    """Of the confirming trials that may still start, those that are taken for coming."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is still to come."""

    seconds: float
    busy_seconds: float
    """Of all workers together."""


def confirmed_share(config: StudyConfig) -> float:
    """What share of the confirming trials comes: a ladder asks for all, at once."""
    return 1.0 if config.sampler is Sampler.LADDER else CONFIRMED_SHARE


def flops_done(records: Sequence[TrialRecord]) -> float:
    """Spent on training."""
    return sum(record.tokens * record.spec.shape.train_flops_per_token for record in records)


def flops_left(plan: BudgetPlan, records: Sequence[TrialRecord], wave: Wave) -> float:
    """What a budget will most likely still spend."""
    exploring = [record for record in records if record.spec.stage is Stage.EXPLORE]
    tokens = _exploring_left(plan, exploring)
    confirming = [record for record in records if record.spec.stage is Stage.CONFIRM]
    length = _length(plan, records)
    tokens += sum(max(0.0, length - r.tokens) for r in confirming if r.outcome is None)
    if not wave.settled:
        open_places = plan.confirming - len(confirming)
        tokens += length * max(wave.waiting, wave.share * open_places)
    return tokens * plan.flops / plan.expected_tokens


def _length(plan: BudgetPlan, records: Sequence[TrialRecord]) -> float:
    """Tokens of a trial that runs to its end: with patience that comes before the horizon."""
    finished = [record.tokens for record in records if record.outcome is Outcome.FINISHED]
    return statistics.fmean(finished) if finished else float(plan.budget.tokens)


def _exploring_left(plan: BudgetPlan, exploring: Sequence[TrialRecord]) -> float:
    """Tokens: what is planned and not done, or at least what is to start and to reach a rung."""
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
    """How long the trials of this run have taken, by budget."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self._busy: defaultdict[int, float] = defaultdict(float)
        self._before: Mapping[int, float] = {}

    def begin(self, done: Mapping[int, float]) -> None:
        """Count from here on; `done` is by budget the FLOPs that an earlier run has spent."""
        self._before = done
        self._began = self._last = self._clock()

    def passed(self, running: Mapping[int, float]) -> None:
        """Time went by, with so many workers of each budget that trained."""
        now = self._clock()
        for budget, workers in running.items():
            self._busy[budget] += workers * (now - self._last)
        self._last = now

    def left(self, done: Mapping[int, float], left: Mapping[int, float]) -> Left | None:
        """By budget the FLOPs spent and to come; None before there is enough to judge by.

        A FLOP of a small model takes longer than one of a large one, hence a pace of each budget.
        """
        own = {budget: flops - self._before.get(budget, 0.0) for budget, flops in done.items()}
        total, busy = sum(own.values()), sum(self._busy.values())
        if not busy or total < LEAST_SHARE * (total + sum(left.values())):
            return None
        pace = {budget: self._busy[budget] / flops for budget, flops in own.items() if flops}
        to_come = sum(flops * pace.get(budget, busy / total) for budget, flops in left.items())
        return Left(to_come * (self._last - self._began) / busy, to_come)
