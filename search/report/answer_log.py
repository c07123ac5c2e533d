"""The answer of each budget as the search goes on: looked at now and then, and written down."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from fathom.search.analysis.interim import SoFar, so_far
from fathom.search.record_validation import checked
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder, append_line, read_as, repair

SHARE_OF_TIME = 0.02
"""At most this much of the time goes into looking: nobody starts trials meanwhile."""
GAP_SECONDS = 1.0
"""At least so long between two looks."""
KEPT_SHARE = 0.01
"""Of a budget's planned tokens, from one answer that is written down to the next."""


@dataclass(frozen=True, slots=True)
class Trail:
    """The answers of one budget, in the order of its tokens."""

    budget: int
    answers: tuple[SoFar, ...]


class Answers:
    """What each budget says by now."""

    def __init__(
        self,
        folder: RunFolder,
        planned_tokens: Mapping[int, float],
        *,
        seed: int,
    ) -> None:
        """`planned_tokens` are by budget."""
        repair(folder.answers)
        self._folder, self._planned, self._seed = folder, planned_tokens, seed
        self._trails = {trail.budget: list(trail.answers) for trail in read_trails(folder)}
        self.latest: dict[int, SoFar] = {}
        self._news: dict[int, None] = {}
        self._next = 0.0

    def news(self, budget: int) -> None:
        """Its trials say more than when they were last looked at."""
        self._news[budget] = None

    def look(self, records_of: Callable[[int], list[TrialRecord]]) -> None:
        """At the budget whose news has waited longest, unless the last look was just now."""
        began = time.monotonic()
        if not self._news or began < self._next:
            return
        budget = next(iter(self._news))
        self._look(budget, records_of(budget), last=False)
        ended = time.monotonic()
        self._next = ended + max(GAP_SECONDS, (ended - began) / SHARE_OF_TIME)

    def look_at_all(self, records_of: Callable[[int], list[TrialRecord]]) -> None:
        """Once, when nothing more comes."""
        for budget in list(self._news):
            self._look(budget, records_of(budget), last=True)

    def _look(self, budget: int, records: list[TrialRecord], *, last: bool) -> None:
        self._news.pop(budget)
        found = so_far(records, seed=self._seed)
        if found is None:
            return
        self.latest[budget] = found
        trail = self._trails.setdefault(budget, [])
        gap = found.tokens - (trail[-1].tokens if trail else 0)
        if gap > (0 if last else KEPT_SHARE * self._planned[budget]):
            trail.append(found)
            append_line(self._folder.answers, asdict(found), wait=False)


def read_trails(folder: RunFolder) -> Iterable[Trail]:
    """Every answer that was written down, by budget."""
    trails: dict[int, list[SoFar]] = {}
    for answer in read_as(folder.answers, lambda values: SoFar(**checked(SoFar, values))):
        trails.setdefault(answer.budget, []).append(answer)
    return [Trail(budget, tuple(answers)) for budget, answers in trails.items()]
