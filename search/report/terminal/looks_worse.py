"""Depths that look worse in a running search, as sentences."""

import math
from collections.abc import Sequence

from fathom.search.analysis.answer.interim import DepthLoss, InterimAnswer
from fathom.search.formatting import ranges

TWICE = 2
"""Number of answers in a row in which a depth must be worse before this is reported."""
ERRORS = 4.0
"""Standard errors by which a depth must be worse than the best to look worse, besides being outside
the interval: intervals of an early search are often too narrow, and are checked many times."""


class LooksWorse:
    """The depths of each budget that look worse so far; each is reported once.

    It reports neither the interval of an early search nor that a depth is ruled out: the verdict
    may support neither, and a report can't be taken back.
    """

    def __init__(self, errors: float = ERRORS) -> None:
        """`errors` is the number of standard errors by which a depth must be worse than the best to
        look worse."""
        self._errors = errors
        self._times: dict[tuple[int, int], int] = {}
        self._told: set[tuple[int, int]] = set()
        self._seen: dict[int, InterimAnswer] = {}

    def news(self, answer: InterimAnswer, losses: Sequence[DepthLoss]) -> list[str]:
        """Returns a sentence on the depths that now look worse for the first time; empty without
        any."""
        worse = self.depths(answer, losses)
        if not worse:
            return []
        subject, verb = ("depths", "look") if len(worse) > 1 else ("depth", "looks")
        return [f"{subject} {ranges(worse)} {verb} worse so far"]

    def depths(self, answer: InterimAnswer, losses: Sequence[DepthLoss]) -> list[int]:
        """Returns the depths that look worse for the first time; none if the answer was seen
        before."""
        if answer.low is None or answer.high is None or self._seen.get(answer.budget) == answer:
            return []
        self._seen[answer.budget] = answer
        lowest = min(losses, key=lambda known: known.loss)
        worse = []
        for known in losses:
            key = (answer.budget, known.depth)
            outside = not answer.low <= known.depth <= answer.high
            clear = self._errors * math.hypot(known.error, lowest.error)
            is_worse = outside and known.loss - lowest.loss > clear
            self._times[key] = self._times.get(key, 0) + 1 if is_worse else 0
            if self._times[key] == TWICE and key not in self._told:
                self._told.add(key)
                worse.append(known.depth)
        return worse
