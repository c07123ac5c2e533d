"""The posterior of the losses: probabilities that hold on planted curves, whatever their form."""

from math import log

import numpy as np
import pytest

from benchmarks.worlds.planted import Curve, notched, symmetric, two_humps
from fathom.search.analysis.curve.posterior import Posterior, find_posterior
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.noise import Repeats

NOISE = 0.002
MEASURED = Repeats(NOISE, 6)


def points_of(losses: dict[int, float], noise: float = NOISE) -> DepthPoints:
    """Points of one training each."""
    seeds = np.eye(len(losses))
    return DepthPoints(
        depths=np.array(list(losses)),
        losses=np.array(list(losses.values())),
        covariance=noise**2 * seeds,
        noise=noise,
        by_seeds=seeds,
    )


def posterior_of(losses: dict[int, float], repeats: Repeats = MEASURED) -> Posterior:
    points = points_of(losses, repeats.likely_noise)
    return find_posterior(points, repeats, np.random.default_rng(0))


def planted(curve: Curve, *depths: int) -> dict[int, float]:
    return {depth: 1.6 + curve(depth) for depth in depths}


def test_the_probabilities_of_all_whole_depths_add_up_to_one() -> None:
    found = posterior_of(planted(symmetric(3.3), 1, 2, 4, 6, 9))
    assert found.depths.tolist() == list(range(1, 10))
    assert found.probabilities.sum() == pytest.approx(1)
    assert found.depths[found.probabilities.argmax()] == 3


def test_every_draw_passes_through_the_measurements_within_their_noise() -> None:
    losses = planted(symmetric(3.3), 2, 3, 4, 6)
    found = posterior_of(losses)
    off = found.losses[:, np.array(list(losses)) - 2] - list(losses.values())
    assert np.abs(off).mean() < 2 * NOISE


@pytest.mark.parametrize("draws", [1, 37, 400])
def test_draws_that_are_computed_together_are_those_computed_one_by_one(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = points_of(planted(symmetric(3.3), 1, 2, 4, 6, 9))
    together = find_posterior(points, MEASURED, np.random.default_rng(0), draws=draws)
    monkeypatch.setattr("fathom.search.analysis.curve.posterior.TOGETHER", 1)
    alone = find_posterior(points, MEASURED, np.random.default_rng(0), draws=draws)
    assert together.losses.shape == (draws, 9)
    np.testing.assert_allclose(together.losses, alone.losses, rtol=0, atol=1e-10)
    np.testing.assert_allclose(together.lowest, alone.lowest, rtol=0, atol=1e-10)


def test_best_depths_are_as_likely_as_they_are_frequent() -> None:
    """Over curves and noise drawn anew, the planted best depth has the probability that was said:
    the mean probability of it is the mean of the largest, within four standard errors."""
    generator, said, right = np.random.default_rng(5), [], []
    for _ in range(60):
        curve = symmetric(float(generator.uniform(2, 6)), float(generator.uniform(0.03, 0.12)))
        losses = planted(curve, 1, 2, 3, 4, 6, 9)
        noisy = {d: loss + NOISE * float(generator.normal()) for d, loss in losses.items()}
        found = posterior_of(noisy)
        said.append(found.probabilities.max())
        right.append(found.depths[found.probabilities.argmax()] == min(range(1, 10), key=curve))
    spread = np.sqrt(np.mean(np.array(said) * (1 - np.array(said))) / len(said))
    assert abs(np.mean(said) - np.mean(right)) < 4 * spread


@pytest.mark.parametrize(
    "curve",
    [two_humps(3.0, 14.0, gap=0.004), notched(symmetric(8.0, 0.03), 3.0, width=0.5, loss=0.02)],
)
def test_what_no_curve_with_one_minimum_explains_leaves_a_wider_doubt(curve: Curve) -> None:
    depths = (1, 2, 3, 4, 6, 9, 14, 20)
    rough, smooth = (
        posterior_of(planted(curve, *depths)),
        posterior_of(planted(symmetric(min(range(1, 21), key=curve)), *depths)),
    )
    doubt = [np.std(np.log(found.best)) for found in (rough, smooth)]
    assert doubt[0] > doubt[1]
    assert rough.closeness(0.005)[min(range(1, 21), key=curve) - 1] > 0.5


def test_a_depth_clearly_better_than_its_neighbours_decides() -> None:
    found = posterior_of({1: 1.60, 2: 1.60, 3: 1.57, 4: 1.60, 6: 1.601, 8: 1.602, 12: 1.603})
    assert found.cheapest(found.depths) == 3
    assert found.probabilities[2] > 0.9


def test_poor_depths_far_away_do_not_move_the_best_one() -> None:
    found = posterior_of({1: 3.5, 2: 1.59, 3: 1.58, 4: 1.59, 6: 1.62, 8: 1.66, 64: 4.0})
    assert found.cheapest(found.depths) == 3
    assert found.probabilities[2] > 0.9


def test_a_gap_between_tested_depths_may_cost_what_nothing_measured_there_rules_out() -> None:
    found = posterior_of({1: 1.70, 2: 1.60, 16: 1.61, 32: 1.70})
    assert found.chance_of_cost(2, 0.005) > 0.2
    assert set(found.rivals(2, 0.005)) <= set(range(3, 16))


def test_more_repeats_than_usual_noise_decide_how_large_the_noise_is() -> None:
    losses = planted(symmetric(3.3), 1, 2, 4, 6, 9)
    quiet, loud = posterior_of(losses, Repeats(0.001, 12)), posterior_of(losses, Repeats(0.02, 12))
    assert quiet.noise == pytest.approx(0.001, rel=0.5)
    assert loud.noise == pytest.approx(0.02, rel=0.5)
    assert loud.probabilities.max() < quiet.probabilities.max()


def test_the_expected_regret_decides_not_the_likeliest_depth() -> None:
    """Of a wall on one side, the depth away from the wall is expected to cost less."""
    regrets = np.array([[0.0, 0.0, 0.5], [0.3, 0.0, 0.001], [0.3, 0.002, 0.0], [0.3, 0.002, 0.0]])
    found = Posterior(
        depths=np.array([1, 2, 3]), losses=1.6 + regrets, lowest=np.array([1.0, 2, 3, 3]),
        noise=NOISE, points=points_of({1: 1.6, 2: 1.6, 3: 1.6}), repeats=MEASURED,
    )  # fmt: skip
    assert found.best.tolist() == [1, 2, 3, 3]
    assert found.cheapest(found.depths) == 2
    assert found.worst(2, 3) == pytest.approx(0.5, rel=0.2)


def test_the_lowest_points_round_to_the_best_depths() -> None:
    found = posterior_of(planted(symmetric(5.0), 1, 2, 4, 6, 9))
    inside = (found.best > 1) & (found.best < 9)
    assert np.all(np.abs(np.log(found.lowest / found.best))[inside] < log(2))
