"""Depth estimates from trials: seeds are averaged to shapes, shapes to depths."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from benchmarks.worlds.planted import World, finished, flat, symmetric
from fathom.search.analysis.losses.depth_estimates import (
    BestLoss,
    DepthEstimate,
    DepthEstimates,
    best_loss,
    estimate_depths,
    loss_difference,
    seed_noise,
)
from fathom.search.analysis.losses.noise import USUAL_NOISE, Repeats
from fathom.search.records import Stage, TrialRecord
from tests.support.simulated import confirm
from tests.support.training import SHAPE


def trials(
    world: World, losses: dict[tuple[float, int, float], float], stage: Stage = Stage.CONFIRM
) -> list[TrialRecord]:
    """Losses by (ff_ratio, seed, rate), all at depth 3."""
    return [
        finished(world.spec(world.shape(3, ratio), seed=seed, stage=stage, rate_scale=rate), loss)
        for (ratio, seed, rate), loss in losses.items()
    ]


def test_the_loss_of_a_larger_model_is_corrected_for_its_size() -> None:
    world = World(curve=flat, params_slope=-0.3)
    exact = world.shape(3)
    large = replace(exact, d_ff=exact.d_ff + 400)
    step = log(large.params_total / exact.params_total)
    runs = [
        finished(world.spec(shape, seed=seed, stage=Stage.EXPLORE), loss)
        for seed in range(3)
        for shape, loss in ((exact, 1.6), (large, 1.6 - 0.3 * step))
    ]
    found = estimate_depths(runs)
    assert found.params_slope == pytest.approx(-0.3, abs=0.1)
    # The ratio grew along with the size, so the two share what the larger model gained.
    assert found.depths[0].loss == pytest.approx(1.6, abs=0.015)


def test_the_gain_of_the_best_rate_applies_to_the_other_seeds() -> None:
    world = World(curve=flat, params_slope=0)
    runs = trials(
        world, {(4, 0, 1.0): 1.60, (4, 0, 2.0): 1.58, (4, 1, 1.0): 1.61, (4, 2, 1.0): 1.62}
    )
    (estimate,) = estimate_depths(runs).depths
    assert estimate.loss == pytest.approx((1.58 + 1.59 + 1.60) / 3, abs=2e-4)
    assert estimate.trials == 4


def test_a_gain_measured_on_one_seed_is_less_certain_than_with_more_seeds() -> None:
    world = World(curve=flat)
    plain = trials(world, {(4, seed, 1.0): 1.6 + 0.004 * seed for seed in range(3)})
    bracket = plain + trials(world, {(4, 0, 2.0): 1.5})
    errors = [estimate_depths(runs).depths[0].standard_error for runs in (plain, bracket)]
    noise = [estimate_depths(runs).noise for runs in (plain, bracket)]
    assert noise[0] == noise[1]
    assert errors[0] == pytest.approx(noise[0] / np.sqrt(3), rel=1e-3)
    assert errors[1] > errors[0]


def test_confirming_trials_replace_explored_shapes_that_came_out_low() -> None:
    world = World(curve=flat)
    lucky = trials(world, {(5, 0, 1.0): 1.50}, Stage.EXPLORE)
    fresh = trials(world, {(4, 1000, 1.0): 1.60, (4, 1001, 1.0): 1.61})
    (estimate,) = estimate_depths(lucky + fresh).depths
    assert estimate.loss == pytest.approx(1.605, abs=5e-3)
    assert estimate.trials == 2


def test_an_explored_shape_that_is_repeated_counts_as_one_of_its_seeds() -> None:
    world = World(curve=flat)
    first = trials(world, {(4, 0, 1.0): 1.60}, Stage.EXPLORE)
    repeat = trials(world, {(4, 1000, 1.0): 1.61})
    found = estimate_depths(first + repeat)
    assert found.depths[0].loss == pytest.approx(1.605, abs=2e-4)
    assert (found.depths[0].trials, found.repeats.degrees_of_freedom) == (2, 1)


def test_a_poor_ratio_does_not_worsen_the_estimate_of_a_depth() -> None:
    world = World(curve=flat)
    runs = trials(world, {(4, 0, 1.0): 1.60, (8, 1, 1.0): 1.63, (1.5, 2, 1.0): 1.64}, Stage.EXPLORE)
    (estimate,) = estimate_depths(runs).depths
    assert estimate.loss == pytest.approx(1.60, abs=1e-2), "the mean of the three is 1.623"
    assert estimate.shape == world.shape(3, 4)


def test_the_luckiest_of_many_equal_shapes_is_shrunk_to_the_mean() -> None:
    generator = np.random.default_rng(0)
    world = World(curve=flat, ratio_effect=0, params_slope=0, noise=0.004)
    believed, lowest = [], []
    for _ in range(60):
        losses = {(1.5 + i, i, 1.0): 1.6 + 0.004 * generator.normal() for i in range(8)}
        believed.append(estimate_depths(trials(world, losses, Stage.EXPLORE)).depths[0].loss)
        lowest.append(min(losses.values()))
    assert 1.6 - np.mean(lowest) > 0.005
    assert 1.6 - np.mean(believed) < 0.002


def test_noise_is_pooled_within_shapes() -> None:
    world = World(curve=symmetric(3), noise=0.01)
    repeats = seed_noise(
        confirm(world, (2, 3, 4), np.random.default_rng(0), seeds=20, rates=(1.0,))
    )
    assert repeats.degrees_of_freedom == 19 * 3
    assert repeats.noise == pytest.approx(0.01, rel=0.2)
    assert repeats.likely_noise == pytest.approx(repeats.noise, rel=0.02)


def test_repeats_that_agree_in_all_their_decimals_differ_by_what_rounding_hides() -> None:
    rounded = trials(World(curve=flat), {(4, seed, 1.0): 1.62 for seed in range(4)})
    assert seed_noise(rounded).noise == pytest.approx(0.01 / 12**0.5)


def test_the_noise_is_what_is_usual_until_repeats_say_otherwise() -> None:
    world = World(curve=flat)
    quiet = trials(world, {(4, seed, 1.0): 1.6 + 1e-4 * (-1) ** seed for seed in range(12)})
    likely = [seed_noise(quiet[:seeds]).likely_noise for seeds in (1, 2, 4, 12)]
    assert likely[0] == pytest.approx(USUAL_NOISE[0])
    assert likely == sorted(likely, reverse=True)
    assert likely[-1] < 2 * seed_noise(quiet).noise
    assert estimate_depths(quiet, noise=0.01).noise == 0.01


def test_a_training_that_stalled_moves_neither_the_loss_of_its_depth_nor_the_noise() -> None:
    """The three seeds of depth 2 of the quickstart and two of depth 3."""
    world = World(curve=flat)
    seeds = trials(world, {(4, 0, 1.0): 1.903, (4, 1, 1.0): 1.909, (4, 2, 1.0): 1.907})
    stalled = trials(world, {(4, 3, 1.0): 2.0319})
    found, without = estimate_depths([*seeds, *stalled]), estimate_depths(seeds)
    assert found.depths[0].loss == without.depths[0].loss
    assert found.noise == without.noise


def test_the_effect_of_the_ratio_far_from_the_best_depth_does_not_apply_there() -> None:
    world = World(curve=flat, params_slope=0, ratio_effect=0)
    runs = trials(world, {(4, 1000, 1.0): 1.60, (4, 1001, 1.0): 1.60, (2, 1000, 1.0): 1.60})
    specs = [world.spec(world.shape(1, ratio), seed=0) for ratio in (1.5, 6)]
    far = [finished(specs[0], 2.05), finished(specs[1], 1.88)]
    (shallow, best) = estimate_depths(runs + far).depths
    assert (shallow.depth, best.depth) == (1, 3)
    assert best.loss == pytest.approx(1.60, abs=0.002)


SEEDS, NOISE = 2, 0.01


def noisy_estimates(true: list[float], generator: np.random.Generator) -> DepthEstimates:
    """Means of two seeds of each depth, and the noise as measured from them all."""
    losses = np.array(true)[:, None] + NOISE * generator.standard_normal((len(true), SEEDS))
    noise = float(np.sqrt(np.mean(losses.var(axis=1, ddof=1))))
    error = noise / np.sqrt(SEEDS)
    depths = tuple(
        DepthEstimate(depth=depth, loss=loss, standard_error=error, trials=SEEDS, shape=SHAPE)
        for depth, loss in enumerate(losses.mean(axis=1).tolist(), 1)
    )
    return DepthEstimates(noise=noise, repeats=Repeats(noise, len(true)), depths=depths)


def best(true: list[float], generator: np.random.Generator) -> BestLoss:
    found = best_loss(noisy_estimates(true, generator))
    assert found is not None
    return found


@pytest.mark.parametrize("true", [[1.0] * 6, [1.0, 1.02, 1.04, 1.08], [1.2, 1.0, 1.2]])
def test_the_interval_of_a_difference_holds_the_true_one_in_95_of_100(true: list[float]) -> None:
    generator = np.random.default_rng(0)
    found = [loss_difference(best(true, generator), best(true, generator)) for _ in range(400)]
    held = sum(difference.low <= 0 <= difference.high for difference in found)
    assert held / 400 >= 0.95
    assert sum(difference.is_settled for difference in found) == 400 - held


def test_a_difference_of_many_standard_errors_is_settled() -> None:
    generator = np.random.default_rng(0)
    first, other = best([1.1, 1.0, 1.1, 1.2], generator), best([1.2, 1.1, 1.2, 1.3], generator)
    found = loss_difference(first, other)
    assert found.is_settled
    assert found.low < -0.1 < found.high < 0


def test_more_confidence_is_a_wider_interval_and_no_training_is_none() -> None:
    measured = noisy_estimates([1.1, 1.0, 1.1], np.random.default_rng(0))
    usual, sure = best_loss(measured), best_loss(measured, confidence=0.999)
    assert usual
    assert sure
    assert sure.low < usual.low < usual.loss < usual.high < sure.high
    assert best_loss(DepthEstimates(noise=0.01, repeats=Repeats(0.01, 0))) is None
