"""No measurement contradicts the interval of the best depth."""

import numpy as np
import pytest

from benchmarks.worlds.planted import symmetric
from fathom.search.analysis.curve_check import (
    better_measured,
    fits,
    informative_depths,
    uncontradicted,
)
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.curve_fit import Fit, fit

Interval = tuple[float, float]


def fitted(losses: dict[int, float], error: float) -> Fit:
    points = DepthPoints(
        depths=np.array(list(losses)),
        losses=np.array(list(losses.values())),
        covariance=error**2 * np.eye(len(losses)),
    )
    return fit(points)


SMOOTH = {d: 1.6 + symmetric(5.6)(d) for d in (1, 2, 4, 8, 16, 32)}
TWO_HUMPS = {1: 1.70, 2: 1.63, 4: 1.60, 8: 1.64, 16: 1.602, 32: 1.70}


@pytest.mark.parametrize(
    ("losses", "error", "interval", "held"),
    [
        (SMOOTH, 0.0005, (5.3, 5.9), (5.3, 5.9)),
        (SMOOTH, 0.02, (5.3, 5.9), (4, 8)),  # within a standard error of the lowest loss
        (TWO_HUMPS, 0.001, (3.5, 6.0), (3.5, 16)),  # 16 is clearly better than 8
        (TWO_HUMPS | {16: 1.62}, 0.001, (3.5, 6.0), (3.5, 6.0)),  # 4 is clearly better than 16
    ],
)
def test_the_interval_holds_depths_that_contradict_the_curve(
    losses: dict[int, float], error: float, interval: Interval, held: Interval
) -> None:
    assert uncontradicted(fitted(losses, error), interval) == held


def test_the_curve_prefers_the_depth_that_is_clearly_worse() -> None:
    found = fitted(TWO_HUMPS, 0.001)
    assert found.power(8) < found.power(16)


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


@pytest.mark.parametrize(
    ("error", "depth", "interval", "better"),
    [
        (0.004, 4, (3, 5), 3),
        (0.004, 5, (3, 5), 3),
        (0.02, 5, (3, 5), 5),  # within a standard error of the difference
        (0.004, 5, (4, 5), 5),  # 3 lies outside
        (0.004, 6, (6, 7), 6),
    ],
)
def test_a_depth_of_the_interval_that_measured_better_is_named(
    error: float, depth: int, interval: tuple[int, int], better: int
) -> None:
    assert better_measured(fitted(NOTCHED, error), depth, interval) == better
