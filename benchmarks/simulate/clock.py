"""A simulated clock and cluster on which any searcher runs through known learning curves.

A trial trains at the speed of its shape, comes to its searcher's evaluations one by one, and goes
on, pauses or ends as the searcher says. The result is the answer that the searcher would have given
after each number of tokens.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.worlds.known import Known
from fathom.models.shape import Shape


@dataclass(frozen=True, slots=True)
class Start:
    """A trial to start, or to resume if it has started before."""

    trial: str
    shape: Shape
    seed: int


class Searcher(Protocol):
    """Anything that searches one budget."""

    @property
    def shares(self) -> Sequence[float]:
        """Shares of the horizon at which its trials are evaluated; the last is 1."""

    def start(self) -> Start | None:
        """Returns the trial that a free worker trains next; None when it has to wait."""

    def report(self, trial: str, index: int, loss: float) -> bool:
        """Takes the evaluation at `shares[index]`; False when the trial ends or pauses."""

    def answer(self) -> int | None:
        """Returns the depth that the search would report now; None when it has none."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The answer of a search after a number of tokens."""

    tokens: float
    answer: int | None


def run(known: Known, searcher: Searcher, *, workers: int, limit: float) -> Iterator[Moment]:
    """Yields the answers of a search until nothing runs or the token limit is spent."""
    due: list[tuple[float, int, Start, int]] = []
    progress: dict[str, int] = {}
    order = itertools.count()
    free, now, spent = workers, 0.0, 0.0
    tokens = [share * known.horizon for share in searcher.shares]

    def advance(start: Start, index: int) -> None:
        cost = tokens[index] - (tokens[index - 1] if index else 0.0)
        pace = known.seconds_per_token[start.shape]
        heapq.heappush(due, (now + cost * pace, next(order), start, index))

    while spent < limit:
        while free and (start := searcher.start()):
            free -= 1
            advance(start, progress.get(start.trial, 0))
        if not due:
            return
        now, _, start, index = heapq.heappop(due)
        spent += tokens[index] - (tokens[index - 1] if index else 0.0)
        progress[start.trial] = index + 1
        loss = known.loss(start.shape, start.seed, tokens[index])
        if searcher.report(start.trial, index, loss) and index + 1 < len(tokens):
            advance(start, index + 1)
        else:
            free += 1
        yield Moment(spent, searcher.answer())


def tokens_until_right(moments: Sequence[Moment], plateau: Sequence[int]) -> float:
    """Tokens after which the answer is in the plateau and stays there; infinite when it is not."""
    since = float("inf")
    for moment in moments:
        if moment.answer not in plateau:
            since = float("inf")
        elif since == float("inf"):
            since = moment.tokens
    return since
