"""The curves over depth, without a search around them."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from benchmarks.worlds.planted import Curve, asymmetric, symmetric
from fathom.search.analysis.curve.curve_fit import fit, whole_depth
from fathom.search.analysis.curve_families import DepthPoints, Parabola

DEPTHS = (1, 2, 3, 4, 6, 8, 12)


def losses_at(losses: dict[int, float], error: float = 0.003) -> DepthPoints:
    return DepthPoints(
        depths=np.array(list(losses)),
        losses=np.array(list(losses.values())),
        covariance=np.eye(len(losses)) * error**2,
    )


def on_curve(curve: Curve, *, error: float = 0.002) -> DepthPoints:
    return losses_at({depth: 1.6 + curve(depth) for depth in DEPTHS}, error)


@pytest.mark.parametrize(("p", "q"), [(2.0, 0.5), (0.5, 2.0), (1.0, 1.0), (8.0, 0.5)])
def test_a_curve_of_the_family_is_found_by_variable_projection(p: float, q: float) -> None:
    found = fit(on_curve(asymmetric(3.7, p, q), error=1e-5))
    assert (found.power.p, found.power.q) == (p, q)
    assert found.optimum == pytest.approx(3.7, rel=1e-2)
    for depth in DEPTHS:
        assert found.power(depth) == pytest.approx(1.6 + asymmetric(3.7, p, q)(depth), abs=1e-6)


def test_a_parabola_is_nearly_in_the_family() -> None:
    found = fit(on_curve(symmetric(3.7)))
    assert found.optimum == pytest.approx(3.7, rel=0.02)
    assert found.parabola_optimum == pytest.approx(3.7, rel=0.001)


def test_the_second_family_disagrees_where_one_side_is_steeper() -> None:
    found = fit(on_curve(asymmetric(3.0, 4.0, 1.0)))
    assert found.optimum == pytest.approx(3.0, rel=0.05)
    assert found.parabola_optimum > 1.1 * found.optimum


def test_the_choice_of_exponents_is_part_of_the_uncertainty() -> None:
    exact = losses_at({2: 1.62, 4: 1.60, 8: 1.61}, error=0.003)
    found = fit(exact)
    assert found.plausible.max() < 0.1, "through three points goes a curve of any exponents"


def test_an_error_that_all_depths_share_moves_no_optimum() -> None:
    alone = on_curve(symmetric(3.7))
    shared = replace(alone, covariance=alone.covariance + 0.05**2)
    assert fit(shared).optimum == pytest.approx(fit(alone).optimum, rel=1e-3)


def test_a_poor_depth_far_away_does_not_shift_the_optimum() -> None:
    measured = losses_at({1: 1.77, 2: 1.59, 3: 1.58, 4: 1.59, 6: 1.62, 8: 1.66})
    assert fit(measured).optimum == pytest.approx(2.9, abs=0.2)


@pytest.mark.parametrize(
    ("vertex", "depth"), [(0.3, 1), (1.41, 1), (1.42, 2), (2.44, 2), (2.46, 3)]
)
def test_a_minimum_rounds_to_where_the_parabola_is_lower(vertex: float, depth: int) -> None:
    curve = Parabola(c0=1 + log(vertex) ** 2, c1=-2 * log(vertex), c2=1)
    assert curve.lowest((log(0.1), log(9))) == pytest.approx(vertex)
    assert whole_depth(vertex) == depth == min(range(1, 9), key=curve)


@pytest.mark.parametrize("seed", range(8))
def test_rounding_does_not_choose_the_curve_through_three_points(seed: int) -> None:
    rounding = 1e-15 * np.random.default_rng(seed).standard_normal(3)
    exact = dict(zip((2, 4, 8), np.array([1.62, 1.60, 1.61]) + rounding, strict=True))
    plain = fit(losses_at({2: 1.62, 4: 1.60, 8: 1.61}))
    assert fit(losses_at(exact)).power(5) == pytest.approx(plain.power(5), abs=1e-9)
