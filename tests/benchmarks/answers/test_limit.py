"""The fewest trainings, held against designs whose errors are worked out here."""

from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.answers.limit import fewest_trainings
from benchmarks.worlds.planted import symmetric

DEPTHS = (2, 4, 8)


def test_three_depths_about_a_parabola_take_what_least_squares_says() -> None:
    # At x = -h, 0, h the minimum is h/2 (y(-h) - y(h)) / (y(-h) + y(h) - 2 y(0)): its error is
    # noise / (2 k h) times the root of (1/2 + 1/2) / n when the two ends share the trainings.
    noise, curvature, step = 0.002, 0.05, log(2)
    reach = noise / (2 * curvature * step)
    found = fewest_trainings(symmetric(4, curvature), noise, 0.1, DEPTHS)
    assert 2 * t.ppf(0.975, found - 3) * reach / sqrt(found) == pytest.approx(0.1, rel=1e-3)


def test_no_spread_of_as_many_trainings_over_the_depths_is_better() -> None:
    noise, width = 0.01, 0.3
    curve = symmetric(5, 0.05)
    fewest = fewest_trainings(curve, noise, width, DEPTHS)
    step = 1e-4
    effects = np.array(
        [
            [(curve(d * np.exp(-step)) - curve(d * np.exp(step))) / (2 * step), curve(d), 1.0]
            for d in DEPTHS
        ]
    )
    for shares in np.random.default_rng(0).dirichlet(np.ones(3), 200):
        spread = effects * np.sqrt(fewest * shares)[:, None] / noise
        error = sqrt(np.linalg.inv(spread.T @ spread)[0, 0])
        assert 2 * t.ppf(0.975, fewest - 3) * error >= width * (1 - 1e-6)


def test_a_narrower_interval_or_a_louder_world_takes_more() -> None:
    curve = symmetric(4, 0.05)
    usual = fewest_trainings(curve, 0.004, 0.24, DEPTHS)
    assert fewest_trainings(curve, 0.004, 0.12, DEPTHS) > usual > 3
    assert fewest_trainings(curve, 0.008, 0.24, DEPTHS) > usual
