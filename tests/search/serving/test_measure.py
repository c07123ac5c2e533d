"""Measured times: what is timed, and which of the rounds counts."""

from dataclasses import replace

import pytest
import torch

from fathom.search.serving import measure as measuring
from fathom.search.serving.measure import Bench, measure
from fathom.search.serving.values import Request
from tests.support.models import SMALL, STANDARD

ASKED = Request(batch=2, prompt=3, tokens=3)
HERE = Bench(device=torch.device("cpu"), dtype=torch.float32, threads=1)


def test_a_time_is_that_of_the_fastest_round_at_each_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(_clock([[0.0, 0.0, 0.0]] + [[9.0, 2.0, 8.0], [5.0, 7.0, 4.0]] * 3))
    monkeypatch.setattr(Bench, "now", lambda _: next(clock))
    monkeypatch.setattr(measuring, "FEWEST_ROUNDS", 6)
    [times] = measure([SMALL], STANDARD, ASKED, HERE, seconds=0)
    assert times.prefill.seconds == pytest.approx(5.0)
    assert times.token.seconds == pytest.approx((2.0 + 4.0) / 2)
    assert times.measured


def _clock(rounds: list[list[float]]) -> list[float]:
    """What the clock shows in rounds of a prefill and two tokens, with these durations."""
    shown, now = [], 0.0
    for durations in rounds:
        shown.append(now)
        for duration in durations:
            now += duration
            shown.append(now)
    return shown


def test_every_shape_is_timed_in_the_given_numbers() -> None:
    shapes = [SMALL, replace(SMALL, depth=5, queries_per_key=2)]
    half = replace(HERE, dtype=torch.bfloat16)
    for place in (HERE, half):
        found = measure(shapes, STANDARD, ASKED, place, seconds=0)
        assert [times.shape for times in found] == shapes
        assert all(times.token.seconds > 0 for times in found)
        assert all(times.prefill.seconds > 0 for times in found)
