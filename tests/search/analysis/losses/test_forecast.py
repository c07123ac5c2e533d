"""Forecasts of unfinished trials: `search/analysis/losses/forecast.py`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.worlds.planted import World, flat, symmetric
from fathom.search.analysis.losses.forecast import extrapolated_loss, forecast_ranking, forecasts
from fathom.search.records import Outcome, TrialRecord
from tests.support.simulated import cut

HORIZON = 1600
WORLD = World(curve=symmetric(6), noise=0.0, ratio_effect=0.0, params_slope=0.0)
DEPTHS = (1, 2, 4, 8, 16)

Curve = list[tuple[float, float]]


def falling(floor: float, gain: float, *, power: float = 0.5) -> Curve:
    """A loss of `floor + gain` after a token, falling as a power of the tokens."""
    return [(float(t), floor + gain * t**-power) for t in range(2, HORIZON + 1, 2)]


def foreseen(curve: Curve, tokens: int) -> float:
    loss = extrapolated_loss(*zip(*curve, strict=True), tokens=tokens, horizon=HORIZON)
    assert loss is not None
    return loss


def trials(world: World, depths: Sequence[int] = DEPTHS, seed: int = 0) -> list[TrialRecord]:
    generator = np.random.default_rng(seed)
    return [world.record(world.spec(world.shape(d), seed=0), generator) for d in depths]


@pytest.mark.parametrize("tokens", [100, 400, 800])
def test_a_loss_that_falls_with_the_root_of_the_tokens_is_forecast_exactly(tokens: int) -> None:
    curve = falling(2.0, 5.0)
    assert foreseen(curve, tokens) == pytest.approx(curve[-1][1], abs=1e-3)


@pytest.mark.parametrize("power", [0.25, 0.4, 0.7, 1.0])
def test_the_final_winner_is_forecast_for_any_power_of_the_fall(power: float) -> None:
    # At an eighth of the horizon the steeper of two curves is 0.1 behind; it ends ahead.
    here = HORIZON // 8
    gain = 0.4 * here**power
    slow, fast = falling(2.0, 2 * gain, power=power), falling(2.3, gain, power=power)
    assert dict(slow)[here] == pytest.approx(dict(fast)[here] + 0.1)
    assert slow[-1][1] < fast[-1][1]
    assert foreseen(slow, here) < foreseen(fast, here)


@pytest.mark.parametrize("spike", [398, 400, 96, 100])
def test_no_spike_changes_a_forecast(spike: int) -> None:
    curve = falling(2.0, 5.0)
    spiked = [(t, loss + (1.0 if t == spike else 0.0)) for t, loss in curve]
    assert foreseen(spiked, 400) == pytest.approx(foreseen(curve, 400), abs=0.01)


def test_a_rising_loss_is_not_forecast_to_rise_further() -> None:
    assert foreseen([(100.0, 2.0), (400.0, 3.0)], 400) == 3.0


def test_a_forecast_ignores_later_evaluations() -> None:
    curve = falling(2.0, 5.0)
    assert foreseen(curve, 400) == foreseen([point for point in curve if point[0] <= 400], 400)


@pytest.mark.parametrize("curve", [[], [(400.0, 3.0)], [(300.0, 3.1), (400.0, 3.0)]])
def test_a_curve_too_short_has_no_forecast(curve: Curve) -> None:
    times, losses = [tokens for tokens, _ in curve], [loss for _, loss in curve]
    assert extrapolated_loss(times, losses, tokens=400, horizon=HORIZON) is None


def test_the_forecast_of_a_finished_trial_is_its_final_loss() -> None:
    records = trials(WORLD)
    for record, forecast in zip(records, forecasts(records), strict=True):
        assert forecast.loss == record.loss


@pytest.mark.parametrize("slow_start", [-0.02, 0.0, 0.05])
def test_trials_with_more_tokens_inform_the_forecasts_of_others(slow_start: float) -> None:
    """The depth bias is learned too, and forecasts are right within their stated errors."""
    records = trials(replace(WORLD, slow_start=slow_start))
    rung = min(records[0].rungs)
    mixed = [*records[:2], cut(records[2], rung), cut(records[3], rung), records[4]]
    for record, forecast in zip(records, forecasts(mixed), strict=True):
        assert record.loss is not None
        error = max(forecast.variance**0.5, 1e-9)
        assert forecast.loss == pytest.approx(record.loss, abs=2 * error)
    assert forecasts(mixed)[2].variance > forecasts(mixed)[1].variance


def test_trials_that_failed_have_no_forecast() -> None:
    records = trials(WORLD)
    for outcome in (Outcome.DIVERGED, Outcome.FAILED, Outcome.OUT_OF_MEMORY):
        lost = [replace(record, outcome=outcome) for record in records]
        assert forecasts(lost) == []


def test_a_ranking_compares_all_trials_at_the_same_tokens() -> None:
    records = trials(WORLD)
    rung = min(records[0].rungs)
    early = [cut(record, rung) for record in records]
    assert forecast_ranking(records, rung) == forecast_ranking(early, rung)
    assert forecast_ranking(records, rung + 1) == {}


def test_curves_without_depth_bias_keep_their_order() -> None:
    records = trials(replace(WORLD, curve=flat, noise=0.01, slow_start=0.0), seed=1)
    rung = min(records[0].rungs)
    there = forecast_ranking(records, rung)
    now = {record.spec.trial: record.rungs[rung] for record in records}
    best = min(now, key=lambda trial: now[trial])
    assert sorted(there, key=lambda trial: there[trial].loss).index(best) <= 1
