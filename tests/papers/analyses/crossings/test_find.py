"""Planted crossings and laws are found as often as their intervals say; others are not made up."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
import pytest

from fathom.models.shape import Count
from fathom.papers.analyses.crossings.find import (
    Crossing,
    CrossingKind,
    CrossingLaw,
    Crossings,
    find,
    fit_crossing_law,
)
from fathom.search.records import TrialRecord
from tests.support.papers import BUDGETS, DEPTHS, A, B, crossing_records


def found_in(records: Sequence[TrialRecord]) -> Crossings:
    found = find(records, seed=0)
    assert found
    return found


def pair(found: Crossings, shallow: int, deep: int) -> Crossing:
    [crossing] = [pair for pair in found.pairs if (pair.shallow, pair.deep) == (shallow, deep)]
    return crossing


def true_crossing(shallow: int, deep: int) -> float:
    """Parabolas in ln depth tie where the best depth is their geometric mean."""
    middle = sqrt(shallow * deep)
    return 12 * middle * exp(2 * A + 2 * B * middle)


def test_depths_cross_where_they_were_planted_to() -> None:
    found = found_in(crossing_records(noise=1e-5))
    for shallow, deep in pairwise(DEPTHS):
        crossing = pair(found, shallow, deep)
        assert crossing.kind is CrossingKind.CROSSED
        assert crossing.params == pytest.approx(true_crossing(shallow, deep), rel=0.03)
    assert found.law.a == pytest.approx(A, abs=0.05)
    assert found.law.b == pytest.approx(B, abs=0.01)


def test_intervals_of_crossings_and_of_the_law_cover_the_planted_values() -> None:
    """Nominal 95 %; measured over 200 studies 0.98 of crossings, 0.96 of a, 0.97 of b."""
    crossings, a, b = [], [], []
    for seed in range(40):
        found = found_in(crossing_records(seed=seed, noise=0.004))
        for pair in found.pairs:
            if pair.interval and pair.neighbours:
                low, high = pair.interval
                crossings.append(low <= true_crossing(pair.shallow, pair.deep) <= high)
        law = found.law
        if law.a_interval and law.b_interval:
            a.append(law.a_interval[0] <= A <= law.a_interval[1])
            b.append(law.b_interval[0] <= B <= law.b_interval[1])
    assert len(a) >= 38
    assert np.mean(crossings) >= 0.92
    assert np.mean(a) >= 0.85
    assert np.mean(b) >= 0.85


@pytest.mark.parametrize(
    ("slope", "kind"),
    [(0.05, CrossingKind.SHALLOWER), (-0.05, CrossingKind.DEEPER), (0.0, CrossingKind.UNCLEAR)],
)
def test_depths_that_do_not_cross_have_no_crossing(slope: float, kind: CrossingKind) -> None:
    found = found_in(crossing_records(lambda _: lambda depth: slope * log(depth), noise=0.005))

    kinds = [pair.kind for pair in found.pairs]
    assert kinds.count(kind) >= len(kinds) - 1, "one in twenty may look clear by luck"
    assert all((pair.params, pair.interval) == (None, None) for pair in found.pairs)
    assert (found.law.crossings, found.law.supported) == (0, False)


def test_equal_depths_hardly_ever_cross() -> None:
    """Measured over 150 studies of ten pairs: 0.8 % with two seeds, 0.2 % with three; and 20 % and
    14 % where one is called ahead, as five sizes are five chances."""
    kinds = [
        crossing.kind
        for seed in range(30)
        for crossing in found_in(
            crossing_records(lambda _: lambda _: 0.0, seed=seed, noise=0.004)
        ).pairs
    ]
    assert kinds.count(CrossingKind.CROSSED) <= 0.01 * len(kinds)
    assert kinds.count(CrossingKind.UNCLEAR) >= 0.8 * len(kinds)


def test_a_deeper_one_that_loses_its_lead_is_no_crossing() -> None:
    def falls_back(budget: int) -> Callable[[float], float]:
        sign = -1 if budget < 4_000_000 else 1
        return lambda depth: sign * 0.05 * log(depth)

    crossing = pair(found_in(crossing_records(falls_back)), 2, 8)
    assert (crossing.kind, crossing.params) == (CrossingKind.REVERSED, None)


def test_pairs_are_of_depths_that_two_budgets_share_and_neighbours_go_by_these() -> None:
    records = crossing_records(depths=(2, 4)) + crossing_records(budgets=BUDGETS[:1], depths=(3,))

    [crossing] = found_in(records).pairs
    assert (crossing.shallow, crossing.deep, crossing.neighbours) == (2, 4, True)
    assert crossing.budgets == BUDGETS


def test_one_budget_or_budgets_of_other_things_have_no_crossings() -> None:
    assert find([], seed=0) is None
    assert find(crossing_records(budgets=BUDGETS[:1]), seed=0) is None
    assert find(crossing_records(count=Count.FLOPS), seed=0) is None


def law_of(widths: Sequence[float], *, error: float = 0.05) -> CrossingLaw:
    """Through crossings at depths 2, 3, 4 ... with these ln d_model."""
    depths = np.arange(2, 2 + len(widths), dtype=np.float64)
    log_params = 2 * np.array(widths) + np.log(12 * depths)
    noise = np.random.default_rng(0).standard_normal((len(widths), 500))
    return fit_crossing_law(depths, log_params, log_params[:, None] + 2 * error * noise)


def test_a_law_through_crossings_has_its_coefficients() -> None:
    law = law_of([5.039 + 0.0555 * depth for depth in range(2, 8)], error=0.01)
    assert law.a == pytest.approx(5.039)
    assert law.b == pytest.approx(0.0555)
    assert law.supported
    assert law.b_interval
    assert law.b_interval[1] - law.b_interval[0] == pytest.approx(
        2 * 1.96 * 0.01 / np.sqrt(17.5), rel=0.15
    ), "the error of a slope through six points"


@pytest.mark.parametrize(
    ("widths", "words"),
    [
        ([5.0, 5.01, 4.99, 5.0], "may as well not grow"),
        ([6.0, 5.5, 5.0, 4.5], "falls with depth"),
        ([5.0, 6.0, 5.2, 6.4], "lie on no line"),
        ([5.0, 5.5], "there are 2"),
        ([5.0], "there is 1"),
    ],
)
def test_unsupported_laws_are_reported_as_such(widths: list[float], words: str) -> None:
    law = law_of(widths)
    assert not law.supported
    assert words in law.reason
