"""Depths that are out: `search/report/terminal/ruled_out.py`."""

from dataclasses import replace

from fathom.search.analysis.interim import DepthLoss, InterimAnswer
from fathom.search.report.terminal.ruled_out import RuledOut

DEPTHS = (1, 2, 3, 4, 5, 8)
ANSWER = InterimAnswer(
    budget=80_000, tokens=1, time=0.0, depth=3, low=2, high=4, verdict=None, loss=2.0,
    lowest_loss=2.0, trials={},
)  # fmt: skip


def told(*intervals: tuple[int, int] | None, error: float = 0.001) -> list[str]:
    """News of answers with these intervals, where losses rise by 0.1 nats a layer from depth 3."""
    ruled_out, sentences = RuledOut(), []
    losses = [DepthLoss(depth, 2 + 0.1 * abs(depth - 3), error, True) for depth in DEPTHS]
    for tokens, interval in enumerate(intervals):
        low, high = interval or (None, None)
        answer = replace(ANSWER, tokens=tokens, low=low, high=high)
        sentences += ruled_out.news(answer, losses)
        assert not ruled_out.news(answer, losses), "the same answer is no news"
    return sentences


def test_a_depth_is_out_once_two_intervals_in_a_row_leave_it_out() -> None:
    assert told((2, 4)) == []
    assert told((2, 4), (1, 4), (2, 4)) == ["80k: depths 5, 8 are out, 95 % interval [1-4] so far"]
    assert told((2, 8), (2, 8), (2, 8)) == ["80k: depth 1 is out, 95 % interval [2-8] so far"]
    assert told((3, 3), (3, 3)) == ["80k: depths 1-2, 4-5, 8 are out, 95 % interval [3] so far"]


def test_a_depth_that_is_not_clearly_worse_is_not_out() -> None:
    [sentence] = told((3, 3), (3, 3), error=0.02)
    assert sentence == "80k: depths 1, 5, 8 are out, 95 % interval [3] so far"
    assert told((4, 4), (4, 4), error=1.0) == []


def test_a_depth_that_the_interval_has_again_is_told_too() -> None:
    _, sentence = told((2, 8), (2, 8), (1, 8))
    assert sentence == "80k: depth 1 is possible again, 95 % interval [1-8] so far"


def test_nothing_is_out_without_an_interval() -> None:
    assert told(None, None) == []
