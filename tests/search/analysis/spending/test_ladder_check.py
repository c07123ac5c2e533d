"""Rungs of a ladder beside a law: `search/analysis/spending/ladder_check.py`."""

from collections.abc import Sequence
from math import log

import pytest

from fathom.search.analysis.laws.law import Prediction
from fathom.search.analysis.spending.ladder_check import (
    BEYOND,
    CheckedRung,
    LadderRung,
    bend,
    check_rung,
    ladder_by_law,
)

CURVATURE = 0.05


def rung(depth: int, *, params: int = 10**8, d_model: int | None = 768) -> LadderRung:
    return LadderRung(name="rung", params=params, depth=depth, d_model=d_model, tokens=None)


def said(depth: float, interval: tuple[float, float] | None = None) -> Prediction:
    return Prediction(
        params=1e8, law="law", depth=depth, d_model=None, interval=interval, extrapolated=False
    )


def checked(depth: int, best: float, interval: tuple[float, float] | None) -> CheckedRung:
    return check_rung(rung(depth), said(best, interval), CURVATURE)


def test_a_rung_costs_its_squared_distance_from_the_law_and_no_less_than_nothing_inside() -> None:
    outside = checked(6, 12, (9, 16))
    assert outside.factor == 0.5
    assert outside.cost == pytest.approx(CURVATURE * log(2) ** 2)
    assert outside.cost_interval == pytest.approx(
        (CURVATURE * log(9 / 6) ** 2, CURVATURE * log(16 / 6) ** 2)
    )
    inside = checked(10, 12, (9, 16))
    assert inside.cost_interval == pytest.approx((0.0, CURVATURE * log(16 / 10) ** 2))


def test_a_rung_is_off_outside_the_interval_if_that_costs_more_than_a_plateau_is_wide() -> None:
    assert checked(6, 12, (9, 16)).is_off
    assert not checked(10, 12, (9, 16)).is_off
    assert not checked(10, 12, (11, 13)).is_off, "0.0017 nats are nothing"
    assert check_rung(rung(10), said(12, (11, 13)), None).is_off, "nothing is known of its cost"


def test_by_a_law_without_intervals_a_rung_is_off_by_half_as_many_layers_again() -> None:
    assert check_rung(rung(18), said(12), None).is_off
    assert check_rung(rung(8), said(12), None).is_off
    assert not check_rung(rung(17), said(12), None).is_off


def test_where_the_law_has_no_depth_nothing_is_said() -> None:
    found = check_rung(rung(6), None, CURVATURE)
    assert (found.factor, found.cost, found.is_off) == (None, None, False)


def ladder(depths: Sequence[int]) -> list[CheckedRung]:
    """Rungs of 1M, 10M, ..., each of which should have 10 layers."""
    return [
        check_rung(rung(depth, params=10 ** (6 + i)), said(10.0), CURVATURE)
        for i, depth in enumerate(depths)
    ]


def test_a_line_through_shallow_small_rungs_is_too_low_beyond_the_ladder() -> None:
    assert bend(ladder([10, 10, 10])) == pytest.approx(0, abs=1e-9)
    costs = [CURVATURE * log(depth / 10) ** 2 for depth in (5, 7, 10)]
    slope = (costs[2] - costs[0]) / 2
    assert bend(ladder([5, 7, 10])) == pytest.approx(sum(costs) / 3 + slope * (1 + log(BEYOND, 10)))
    lower, higher = bend(ladder([5, 7, 10])), bend(ladder([10, 7, 5]))
    assert lower is not None
    assert higher is not None
    assert lower < 0 < higher


def test_a_line_takes_three_sizes_and_a_known_cost() -> None:
    assert bend(ladder([5, 10])) is None
    unknown = [check_rung(each.rung, each.prediction, None) for each in ladder([5, 7, 10])]
    assert bend(unknown) is None


def test_the_ladder_by_the_law_keeps_the_parameters_of_layers_and_the_steps_of_widths() -> None:
    wide = check_rung(rung(6, d_model=512), said(12.2), CURVATURE)
    sizeless = check_rung(rung(6, params=12 * 12 * 384**2, d_model=None), said(12.2), CURVATURE)
    none = check_rung(rung(6), None, CURVATURE)
    found = ladder_by_law([wide, sizeless, none])
    assert [(each.depth, each.d_model) if each else None for each in found] == [
        (12, 384),
        (12, 384),
        None,
    ]
