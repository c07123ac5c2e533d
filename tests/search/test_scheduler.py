"""Successive halving that is fair to depth: `search/scheduler.py`."""

import math
import random
from dataclasses import replace

import pytest

from search.config import ConfigError, StoppingConfig, parse
from search.scheduler import Curve, FairHalving, foresee
from search.stopping import keeps
from tests.search.simulated import simulated_study

HORIZON = 1600


def halving(depths: tuple[int, int] = (1, 64), **settings: object) -> FairHalving:
    return FairHalving(StoppingConfig.model_validate(settings), depths)


def falling(floor: float, gain: float, *, power: float = 0.5) -> Curve:
    """A loss of `floor + gain` after a token, falling as a power of the tokens."""
    return [(float(t), floor + gain * t**-power) for t in range(4, HORIZON + 1, 4)]


def foreseen(curve: Curve, tokens: int, median_of: int = 1) -> float:
    loss = foresee(curve, tokens=tokens, horizon=HORIZON, median_of=median_of)
    assert loss is not None
    return loss


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


def test_a_slow_starter_that_is_foreseen_to_win_is_not_stopped() -> None:
    rungs, blind = halving(bands=1), halving(bands=1, foresight=(0, 0))
    for rule in (rungs, blind):
        for i in range(4):
            rule.judge(f"fast-{i}", 4, 100, 3.0 + i / 100, foreseen=2.9 + i / 100)
    assert rungs.judge("slow", 48, 100, 3.2, foreseen=2.8)
    assert not blind.judge("slow", 48, 100, 3.2, foreseen=2.8)


def test_a_forecast_alone_does_not_stop_who_is_ahead() -> None:
    rungs, sure = halving(bands=1), halving(bands=1, foresight=(1, 1))
    for rule in (rungs, sure):
        for i in range(4):
            rule.judge(f"slow-{i}", 48, 100, 3.2 + i / 100, foreseen=2.8 + i / 100)
    assert rungs.judge("fast", 4, 100, 3.0, foreseen=2.9)
    assert not sure.judge("fast", 4, 100, 3.0, foreseen=2.9)


def test_between_least_and_most_every_share_of_the_gain_must_agree() -> None:
    # Behind by 0.1 now, ahead by 0.1 in the end: behind as long as less than half is believed.
    for foresight, goes_on in (((0.0, 0.4), False), ((0.0, 0.6), True), ((0.6, 1.0), True)):
        rungs = halving(bands=1, foresight=foresight, eta=4)
        rungs.judge("fast", 4, 100, 3.0, foreseen=3.0)
        assert rungs.judge("slow", 48, 100, 3.1, foreseen=2.9) is goes_on


def test_the_least_believed_is_not_more_than_the_most() -> None:
    with pytest.raises(ConfigError, match=r"least, most\], got \[1.0, 0.5\]; swap them"):
        parse("{study: s, objective: language, budgets: [1M], stopping: {foresight: [1, 0.5]}}")


@pytest.mark.parametrize("tokens", [100, 400, 800])
def test_a_loss_that_falls_with_the_root_of_the_tokens_is_foreseen_exactly(tokens: int) -> None:
    curve = falling(2.0, 5.0)
    assert foreseen(curve, tokens) == pytest.approx(curve[-1][1], abs=1e-12)


@pytest.mark.parametrize("power", [0.25, 0.4, 0.7, 1.0])
def test_who_wins_in_the_end_is_foreseen_whatever_the_power_of_the_fall(power: float) -> None:
    # At an eighth of the horizon the steeper of two curves is 0.1 behind; it ends ahead.
    here = HORIZON // 8
    gain = 0.4 * here**power
    slow, fast = falling(2.0, 2 * gain, power=power), falling(2.3, gain, power=power)
    assert dict(slow)[here] == pytest.approx(dict(fast)[here] + 0.1)
    assert slow[-1][1] < fast[-1][1]
    assert foreseen(slow, here) < foreseen(fast, here)


@pytest.mark.parametrize("spike", [398, 400, 96, 100])
def test_no_spike_moves_what_is_foreseen(spike: int) -> None:
    curve = [(float(t), 2.0 + 5.0 * t**-0.5) for t in range(2, HORIZON + 1, 2)]
    spiked = [(t, loss + (1.0 if t == spike else 0.0)) for t, loss in curve]
    before, after = (foreseen(some, 400, median_of=3) for some in (curve, spiked))
    assert after == pytest.approx(before, abs=0.01)


def test_a_loss_that_rises_is_not_foreseen_to_rise_on() -> None:
    assert foreseen([(100.0, 2.0), (400.0, 3.0)], 400) == 3.0


def test_nothing_after_the_rung_is_looked_at() -> None:
    curve = falling(2.0, 5.0)
    assert foreseen(curve, 400) == foreseen([point for point in curve if point[0] <= 400], 400)


@pytest.mark.parametrize("curve", [[], [(400.0, 3.0)], [(300.0, 3.1), (400.0, 3.0)]])
def test_a_curve_too_short_foretells_nothing(curve: Curve) -> None:
    assert foresee(curve, tokens=400, horizon=HORIZON, median_of=3) is None


def test_a_record_is_judged_by_its_value_and_its_curve_up_to_the_rung() -> None:
    record = simulated_study()[0]
    tokens = record.curve[-1].tokens
    points = [
        replace(record.curve[-1], tokens=tokens // 8 * k, step=k, loss=3 + k**-0.5)
        for k in range(1, 9)
    ]
    record = replace(record, curve=tuple(points), rungs={tokens // 2: 3.5})
    rungs = halving()
    assert keeps(rungs, record, tokens // 2)
    (entry,) = rungs.rungs[tokens // 2]
    assert entry.trial == record.spec.trial
    assert entry.wary == 3.5
    assert entry.hopeful < 3.5


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_a_bug_not_a_loss(bad: float) -> None:
    with pytest.raises(AssertionError):
        halving().judge("a", 8, 100, bad)
