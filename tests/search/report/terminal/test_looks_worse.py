"""Depths that look worse so far: `search/report/terminal/looks_worse.py`."""

from dataclasses import replace

from fathom.search.analysis.answer.interim import DepthLoss, InterimAnswer
from fathom.search.report.terminal.looks_worse import LooksWorse

DEPTHS = (1, 2, 3, 4, 5, 8)
ANSWER = InterimAnswer(
    budget=80_000, tokens=1, time=0.0, depth=3, low=2, high=4, verdict=None, loss=2.0,
    lowest_loss=2.0, trials={},
)  # fmt: skip


def told(*intervals: tuple[int, int] | None, error: float = 0.001) -> list[str]:
    """News of answers with these intervals, where losses rise by 0.1 nats a layer from depth 3."""
    looks_worse, sentences = LooksWorse(), []
    losses = [DepthLoss(depth, 2 + 0.1 * abs(depth - 3), error, True) for depth in DEPTHS]
    for tokens, interval in enumerate(intervals):
        low, high = interval or (None, None)
        answer = replace(ANSWER, tokens=tokens, low=low, high=high)
        sentences += looks_worse.news(answer, losses)
        assert not looks_worse.news(answer, losses), "the same answer is no news"
    return sentences


def test_a_depth_looks_worse_once_two_intervals_in_a_row_leave_it_out() -> None:
    assert told((2, 4)) == []
    assert told((2, 4), (1, 4), (2, 4)) == ["depths 5, 8 look worse so far"]
    assert told((2, 8), (2, 8), (2, 8)) == ["depth 1 looks worse so far"]
    assert told((3, 3), (3, 3)) == ["depths 1-2, 4-5, 8 look worse so far"]


def test_a_depth_that_is_not_clearly_worse_does_not_look_worse() -> None:
    assert told((3, 3), (3, 3), error=0.02) == ["depths 1, 5, 8 look worse so far"]
    assert told((4, 4), (4, 4), error=1.0) == []


def test_what_was_told_of_a_depth_is_neither_taken_back_nor_told_again() -> None:
    again = ((2, 8), (2, 8), (1, 8), (1, 8), (2, 8), (2, 8))
    assert told(*again) == ["depth 1 looks worse so far"]


def test_no_depth_looks_worse_without_an_interval() -> None:
    assert told(None, None) == []
