"""Depths that a running search has ruled out, as sentences."""

from collections.abc import Collection, Sequence

from fathom.search.analysis.interim import InterimAnswer
from fathom.search.formatting import format_count

TWICE = 2
"""Answers in a row that must leave a depth out of their interval."""


class RuledOut:
    """The depths of each budget that the 95 % interval has left."""

    def __init__(self) -> None:
        self._times: dict[tuple[int, int], int] = {}
        self._seen: dict[int, InterimAnswer] = {}

    def news(self, answer: InterimAnswer, depths: Collection[int]) -> list[str]:
        """Returns a sentence for the depths that are ruled out now, and one for those that the
        interval has again; nothing for an answer that was seen before."""
        if answer.low is None or answer.high is None or self._seen.get(answer.budget) == answer:
            return []
        self._seen[answer.budget] = answer
        out, back = [], []
        for depth in sorted(depths):
            times = self._times.get((answer.budget, depth), 0)
            if answer.low <= depth <= answer.high:
                self._times[answer.budget, depth] = 0
                back += [depth] * (times >= TWICE)
            else:
                self._times[answer.budget, depth] = times + 1
                out += [depth] * (times + 1 == TWICE)
        known = f"95 % interval [{answer.low}-{answer.high}] so far"
        at = format_count(answer.budget)
        return [
            f"{at}: {_subject(own)} {state}, {known}"
            for own, state in ((out, "out"), (back, "possible again"))
            if own
        ]


def _subject(depths: Sequence[int]) -> str:
    """Returns `depth 1 is` or `depths 1-3, 7 are`."""
    groups: list[list[int]] = []
    for depth in depths:
        if groups and depth == groups[-1][-1] + 1:
            groups[-1].append(depth)
        else:
            groups.append([depth])
    parts = [f"{own[0]}-{own[-1]}" if len(own) > 1 else str(own[0]) for own in groups]
    return f"depth{'s' * (len(depths) > 1)} {', '.join(parts)} {'are' if len(depths) > 1 else 'is'}"
