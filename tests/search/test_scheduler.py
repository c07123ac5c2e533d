"""Successive halving that is fair to depth: `search/scheduler.py`."""

import math
import random

import pytest

from search.config import StoppingConfig
from search.scheduler import FairHalving


def halving(depths: tuple[int, int] = (1, 64), **settings: float) -> FairHalving:
    return FairHalving(StoppingConfig.model_validate(settings), depths)


def test_the_first_to_arrive_goes_on() -> None:
    assert halving().judge("a", 4, 100, 3.0)


def test_one_in_eta_goes_on_when_depth_plays_no_part() -> None:
    rungs = halving(bands=1, eta=4)
    values = [float(value) for value in range(400)]
    random.Random(0).shuffle(values)
    kept = [value for i, value in enumerate(values) if rungs.judge(str(i), 8, 100, value)]
    # In random order the i-th goes on with probability ceil(i/4)/i.
    expected = sum(math.ceil(i / 4) / i for i in range(1, 401))
    assert abs(len(kept) - expected) < 3 * math.sqrt(400 * 0.25 * 0.75)
    assert min(values) in kept


def test_a_band_of_depth_is_never_wiped_out_by_one_rung() -> None:
    rungs = halving(bands=3)
    for i in range(20):
        assert rungs.judge(f"shallow-{i}", 2, 100, 1.0 + i / 100) == (i == 0 or i < 0.5 * (i + 1))
    assert rungs.judge("deep", 48, 100, 5.0), "the best of its band goes on however far behind"
    assert not rungs.judge("deeper", 50, 100, 6.0)


def test_bands_split_log_depth_evenly_and_cover_every_depth() -> None:
    rungs = halving((1, 64), bands=3)
    bands = [rungs.band(depth) for depth in range(1, 65)]
    assert bands == sorted(bands)
    assert set(bands) == {0, 1, 2}
    assert [rungs.band(depth) for depth in (3, 5, 15, 17)] == [0, 1, 1, 2]  # cut at 4 and 16


def test_a_single_depth_is_one_band() -> None:
    assert halving((8, 8)).band(8) == 0


def test_a_trial_that_comes_by_again_is_recorded_once_and_judged_alike() -> None:
    rungs = halving(bands=1)
    for i, value in enumerate((1.0, 2.0, 3.0, 4.0)):
        rungs.judge(str(i), 8, 100, value)
    first = rungs.judge("again", 8, 100, 3.5)
    second = rungs.judge("again", 8, 100, 3.5)
    assert first is second is False
    assert len(rungs.rungs[100]) == 5


def test_rungs_do_not_mix() -> None:
    rungs = halving(bands=1)
    for i in range(10):
        rungs.judge(str(i), 8, 100, 1.0)
    assert rungs.judge("late", 8, 200, 9.0), "the first at its rung"
    assert len(rungs.rungs[200]) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_a_bug_not_a_loss(bad: float) -> None:
    with pytest.raises(AssertionError):
        halving().judge("a", 8, 100, bad)
