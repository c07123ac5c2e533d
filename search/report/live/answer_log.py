"""The answer of each budget while a search runs: computed now and then, and written to a file."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from fathom.search.analysis.answer.interim import (
    DepthLosses,
    InterimAnswer,
    depth_losses,
    interim_answer,
)
from fathom.search.json_lines import append_line, read_as, truncate_torn_line
from fathom.search.record_json import from_values
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder

SHARE_OF_TIME = 0.02
"""Largest share of the search's time spent on answers, since no trial starts during it."""
GAP_SECONDS = 1.0
"""Minimum time between two answers."""
KEPT_SHARE = 0.01
"""Minimum distance of two logged answers, as a share of a budget's planned tokens."""


@dataclass(frozen=True, slots=True)
class AnswerSeries:
    """The answers of one budget while its search ran, ordered by training tokens."""

    budget: int
    answers: tuple[InterimAnswer, ...]


class AnswerLog:
    """The current answer of each budget, and the file of all answers."""

    def __init__(
        self, folder: RunFolder, planned_tokens: Mapping[int, float], *, seed: int
    ) -> None:
        """`planned_tokens` maps each budget to the training tokens planned for its search."""
        truncate_torn_line(folder.answers)
        self._folder, self._planned, self._seed = folder, planned_tokens, seed
        self._series = {series.budget: list(series.answers) for series in read_answers(folder)}
        self.latest: dict[int, InterimAnswer] = {}
        self.losses: dict[int, DepthLosses | None] = {}
        """Losses of the depths of each budget that has a current answer."""
        self._changed: dict[int, None] = {}
        self._next = 0.0

    def mark_changed(self, budget: int) -> None:
        """Notes that a budget's trials have changed since its last answer."""
        self._changed[budget] = None

    def update(self, records_of: Callable[[int], list[TrialRecord]]) -> None:
        """Computes the answer of the budget that waited longest, unless an answer was computed just
        now."""
        began = time.monotonic()
        if not self._changed or began < self._next:
            return
        budget = next(iter(self._changed))
        self._update(budget, records_of(budget))
        ended = time.monotonic()
        self._next = ended + max(GAP_SECONDS, (ended - began) / SHARE_OF_TIME)

    def update_now(self, budget: int, records: list[TrialRecord], *, done: bool) -> None:
        """Computes the answer of a budget if its trials have changed; the final one once `done`."""
        if budget in self._changed:
            self._update(budget, records, last=True, done=done)

    def _update(
        self, budget: int, records: list[TrialRecord], *, last: bool = False, done: bool = False
    ) -> None:
        self._changed.pop(budget)
        found = interim_answer(records, seed=self._seed, done=done)
        if found is None:
            self.latest.pop(budget, None)
            return
        self.latest[budget], self.losses[budget] = found, depth_losses(records)
        series = self._series.setdefault(budget, [])
        gap = found.tokens - (series[-1].tokens if series else 0)
        if gap > (0 if last else KEPT_SHARE * self._planned[budget]):
            series.append(found)
            append_line(self._folder.answers, asdict(found), wait=False)


def read_answers(folder: RunFolder) -> Iterable[AnswerSeries]:
    """Returns the logged answers of each budget."""
    by_budget: dict[int, list[InterimAnswer]] = {}
    for answer in read_as(folder.answers, lambda values: from_values(InterimAnswer, values)):
        by_budget.setdefault(answer.budget, []).append(answer)
    return [AnswerSeries(budget, tuple(answers)) for budget, answers in by_budget.items()]
