"""No measurement contradicts the interval of the best depth."""

import numpy as np

from benchmarks.worlds.planted import symmetric
from fathom.search.analysis.curve_check import (
    better_measured,
    fits,
    informative_depths,
    uncontradicted,
)
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.curve_fit import Fit, fit


def fitted(losses: dict[int, float], error: float) -> Fit:
    points = DepthPoints(
        depths=np.array(list(losses)),
        losses=np.array(list(losses.values())),
        covariance=error**2 * np.eye(len(losses)),
    )
    return fit(points)


def test_an_interval_that_the_losses_support_stays() -> None:
    found = fitted({d: 1.6 + symmetric(5.6)(d) for d in (1, 2, 4, 8, 16, 32)}, 0.0005)
    assert uncontradicted(found, (5.3, 5.9)) == (5.3, 5.9)


def test_a_depth_within_a_standard_error_of_the_lowest_loss_is_held() -> None:
    losses = {d: 1.6 + symmetric(5.6)(d) for d in (1, 2, 4, 8, 16, 32)}
    low, high = uncontradicted(fitted(losses, 0.02), (5.3, 5.9))
    assert (low, high) == (4, 8)


def test_a_depth_that_is_clearly_better_than_one_that_the_curve_prefers_is_held() -> None:
    losses = {1: 1.70, 2: 1.63, 4: 1.60, 8: 1.64, 16: 1.602, 32: 1.70}
    found = fitted(losses, 0.001)
    assert found.power(8) < found.power(16)
    low, high = uncontradicted(found, (3.5, 6.0))
    assert (low, high) == (3.5, 16)


def test_a_depth_that_the_best_one_beats_clearly_is_not_held() -> None:
    losses = {1: 1.70, 2: 1.63, 4: 1.60, 8: 1.64, 16: 1.62, 32: 1.70}
    low, high = uncontradicted(fitted(losses, 0.001), (3.5, 6.0))
    assert (low, high) == (3.5, 6.0)


TWO_HUMPS = {1: 1.70, 2: 1.63, 4: 1.60, 8: 1.64, 16: 1.602, 32: 1.70}


def test_a_curve_with_one_hump_fits_and_two_humps_do_not() -> None:
    smooth = {d: 1.6 + symmetric(5.6)(d) for d in TWO_HUMPS}
    assert fits(fitted(smooth, 0.002), 6)
    assert not fits(fitted(TWO_HUMPS, 0.002), 6)


def test_five_depths_or_an_unknown_noise_can_not_refuse_a_curve() -> None:
    five = {depth: loss for depth, loss in TWO_HUMPS.items() if depth > 1}
    assert fits(fitted(five, 0.002), 6)
    assert fits(fitted(TWO_HUMPS, 0.002), 0)


def test_depths_beside_each_hump_tell_more() -> None:
    assert informative_depths(fitted(TWO_HUMPS, 0.002).points) == (3, 6, 11, 23)


NOTCHED = {1: 1.70, 2: 1.64, 3: 1.60, 5: 1.615, 8: 1.63, 14: 1.66, 24: 1.70}
"""The curve passes over depth 3 and is lowest near 4."""


def test_a_depth_that_measured_better_than_the_lowest_point_is_named() -> None:
    found = fitted(NOTCHED, 0.004)
    assert better_measured(found, 4, (3, 5)) == 3
    assert better_measured(found, 5, (3, 5)) == 3


def test_a_difference_within_its_standard_error_names_no_other_depth() -> None:
    found = fitted(NOTCHED, 0.02)
    assert better_measured(found, 5, (3, 5)) == 5


def test_a_depth_outside_the_interval_is_not_named_however_low_its_loss() -> None:
    found = fitted(NOTCHED, 0.004)
    assert better_measured(found, 5, (4, 5)) == 5
    assert better_measured(found, 6, (6, 7)) == 6
