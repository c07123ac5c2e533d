"""The best rate of a shape: known answers of the sweep, its edges and its error."""

from collections.abc import Callable

import pytest

from fathom.models.shape import Shape
from fathom.search.laboratory.check.rate_sweep import REACH, RatePoint, Sweep, sweep

SHAPE = Shape(depth=2, d_model=16, d_ff=64, n_heads=2, head_dim=8, vocab_size=8, context=6)


def trained(
    loss: Callable[[int], float], *, tried: list[int] | None = None, centre: int = 0
) -> Sweep:
    def train_at(log2_factor: int) -> RatePoint:
        if tried is not None:
            tried.append(log2_factor)
        return RatePoint(log2_factor=log2_factor, losses=(loss(log2_factor),))

    return sweep(SHAPE, train_at, centre=centre)


@pytest.mark.parametrize("best", [-3.4, -1.0, -0.3, 0.0, 0.45, 2.2])
def test_the_lowest_point_of_a_parabola_in_log_rate_is_found_wherever_it_lies(best: float) -> None:
    found = trained(lambda log2_factor: 2 + 0.1 * (log2_factor - best) ** 2)
    assert found.enclosed
    assert found.best_log2_factor == pytest.approx(best)


def test_only_the_best_rate_and_its_neighbours_shape_the_parabola() -> None:
    # Far from the best a loss curve is no parabola: it flattens out at the loss of a guess.
    found = trained(lambda log2_factor: min(2 + 0.1 * (log2_factor + 3) ** 2, 2.5))
    assert found.best_log2_factor == pytest.approx(-3)


@pytest.mark.parametrize(
    ("best", "centre", "expected"),
    [(0, 0, [-1, 0, 1]), (2, 0, [-1, 0, 1, 2, 3]), (0, -2, [-3, -2, -1, 0, 1])],
)
def test_from_the_centre_more_rates_are_tried_downhill_only(
    best: int, centre: int, expected: list[int]
) -> None:
    tried: list[int] = []
    found = trained(lambda log2_factor: (log2_factor - best) ** 2, tried=tried, centre=centre)
    assert tried == [point.log2_factor for point in found.points] == expected
    assert found.error == 0.0, "one seed shows none"


@pytest.mark.parametrize("side", [-1, 1])
def test_a_best_rate_beyond_the_reach_is_not_enclosed(side: int) -> None:
    found = trained(lambda log2_factor: float(-side * log2_factor))
    assert not found.enclosed
    assert found.best_log2_factor == side * REACH
    assert found.error == 0.0


def seeded(
    left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]
) -> Sweep:
    losses = zip((-1, 0, 1), (left, middle, right), strict=True)
    points = tuple(
        RatePoint(log2_factor=log2_factor, losses=several) for log2_factor, several in losses
    )
    return Sweep(shape=SHAPE, points=points)


def test_seeds_that_differ_by_a_constant_leave_no_error_and_others_do() -> None:
    same = seeded((2.1, 2.2), (2.0, 2.1), (2.1, 2.2))
    assert same.error == pytest.approx(0, abs=1e-9)
    # Residuals of -0.005, 0.01 and -0.005, twice: variance 0.0003 / 2 of a loss. The sides differ
    # by two means of two seeds, and the curve bends by 0.22.
    noisy = seeded((2.10, 2.10), (1.985, 2.015), (2.10, 2.10))
    assert noisy.error == pytest.approx((2 * 0.00015 / 2) ** 0.5 / (2 * 0.2))
    assert noisy.best_log2_factor == pytest.approx(0)
