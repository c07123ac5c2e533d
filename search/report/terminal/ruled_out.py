"""Depths that a running search has ruled out, as sentences."""

import math
from collections.abc import Sequence

from fathom.search.analysis.interim import DepthLoss, InterimAnswer
from fathom.search.formatting import format_count, ranges

TWICE = 2
"""Answers in a row that must rule a depth out."""
ERRORS = 4.0
"""Standard errors by which a depth that is out must be worse than the best, beside lying outside of
the interval: intervals of an early search are often too narrow, and are looked at many times."""


class RuledOut:
    """The depths of each budget that its trials have ruled out."""

    def __init__(self) -> None:
        self._times: dict[tuple[int, int], int] = {}
        self._seen: dict[int, InterimAnswer] = {}

    def news(self, answer: InterimAnswer, losses: Sequence[DepthLoss]) -> list[str]:
        """Returns a sentence for the depths that are ruled out now, and one for those that are
        possible again."""
        out, back = self.changes(answer, losses)
        if answer.low is None or answer.high is None:
            return []
        known = f"95 % interval [{ranges(range(answer.low, answer.high + 1))}] so far"
        at = format_count(answer.budget)
        return [
            f"{at}: {_subject(depths)} {state}, {known}"
            for depths, state in ((out, "out"), (back, "possible again"))
            if depths
        ]

    def changes(
        self, answer: InterimAnswer, losses: Sequence[DepthLoss]
    ) -> tuple[list[int], list[int]]:
        """Returns the depths that are ruled out now, and those that are possible again; none for an
        answer that was seen before."""
        out: list[int] = []
        back: list[int] = []
        if answer.low is None or answer.high is None or self._seen.get(answer.budget) == answer:
            return out, back
        self._seen[answer.budget] = answer
        lowest = min(losses, key=lambda known: known.loss)
        for known in losses:
            clear = ERRORS * math.hypot(known.error, lowest.error)
            outside = not answer.low <= known.depth <= answer.high
            times = self._times.get((answer.budget, known.depth), 0)
            is_worse = outside and known.loss - lowest.loss > clear
            self._times[answer.budget, known.depth] = times + 1 if is_worse else 0
            out += [known.depth] * (is_worse and times + 1 == TWICE)
            back += [known.depth] * (not outside and times >= TWICE)
        return out, back


def _subject(depths: Sequence[int]) -> str:
    """Returns `depth 1 is` or `depths 1-3, 7 are`."""
    many = len(depths) > 1
    return f"depth{'s' * many} {ranges(depths)} {'are' if many else 'is'}"
