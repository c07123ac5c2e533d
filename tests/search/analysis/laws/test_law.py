"""Planted laws are found to their noise, and intervals cover as often as they say."""

from collections.abc import Iterable
from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from scipy.special import ndtri

from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.laws.law import FEWEST_BUDGETS, Law, fit_laws, usable
from fathom.search.analysis.laws.law_fit import sized_depths
from fathom.search.analysis.laws.published import Levine2020
from tests.support.optima import BUDGETS, edge, noisy_optimum, optimum
from tests.support.simulated import planted_depth, simulated_study


def test_a_planted_power_law_is_found_and_preferred() -> None:
    laws = fit_laws(on_law(5))
    assert [law.name for law in laws] == ["power", "logarithmic"]
    assert laws[0].b == pytest.approx(0.33, abs=1e-6)
    assert laws[0].a == pytest.approx(log(0.05), abs=1e-5)
    assert laws[0].leave_one_out_error == pytest.approx(0, abs=1e-6)


def test_a_planted_logarithmic_law_is_found_and_preferred() -> None:
    published = Levine2020()
    laws = fit_laws([optimum(n, published.predict(n).depth) for n in (10**6, 10**7, 10**8, 10**9)])
    best = laws[0]
    assert best.name == "logarithmic"
    assert best.a == pytest.approx(5.039, abs=1e-6)
    assert best.b == pytest.approx(0.0555, abs=1e-7)
    assert best.predict(175e9).depth == pytest.approx(published.predict(175e9).depth)
    assert best.predict(175e9).extrapolated
    assert not best.predict(1e8).extrapolated


def test_a_study_leads_to_a_law_that_covers_its_truth() -> None:
    budgets = BUDGETS[:4]
    for law in fit_laws(find_optima(simulated_study(budgets=budgets), seed=0)):
        low, high = law.predict(2_000_000).interval or (0, 0)
        assert low <= planted_depth(2_000_000) <= high
        assert law.params_range == (300_000, 10_000_000)


def on_law(budgets: int) -> list[Located]:
    """The optima of the smallest budgets, exactly on a power law."""
    return [optimum(n, 0.05 * n**0.33) for n in BUDGETS[:budgets]]


def power_law(optima: Iterable[Located]) -> Law:
    [power] = (law for law in fit_laws(tuple(optima)) if law.name == "power")
    return power


def seen(optimum: Located, error: float, tested: tuple[int, int]) -> Located:
    """An optimum as a bootstrap within the tested depths shows it: an edge where a quarter of the
    draws lie beyond."""
    draws = log(optimum.curve_minimum) + error * ndtri((np.arange(200) + 0.5) / 200)
    ends = log(tested[0]), log(tested[1])
    kept = np.clip(draws, *ends)
    beyond = float(np.mean(draws >= ends[1]))
    low, high = np.exp(np.quantile(kept, [0.025, 0.975])).tolist()
    if beyond < 0.25:
        return replace(optimum, curve_minimum_interval=(low, high))
    found = edge(optimum.budget, exp(kept.mean()), tested, beyond=beyond)
    return replace(found, curve_minimum_interval=(low, high))


def coverage(*, budgets: int, scatter: float, at: float, deepest: int = 1000) -> float:
    """Share of studies in which the power law's interval holds the best depth of a new budget."""
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(60):
        optima = []
        errors = generator.uniform(0.05, 0.15, budgets)
        for n, error in zip(BUDGETS[:budgets], errors, strict=True):
            depth = 0.05 * n**0.33 * exp(scatter * generator.standard_normal())
            optima.append(seen(noisy_optimum(n, depth, error, generator), error, (1, deepest)))
        power = power_law(optima)
        low, high = power.predict(at).interval or (0, 0)
        new = 0.05 * at**0.33 * exp(scatter * generator.standard_normal())
        covered.append(low <= new <= high)
    return float(np.mean(covered))


@pytest.mark.parametrize(("budgets", "at"), [(3, 2e6), (3, 3e8), (5, 3e8)])
def test_intervals_cover_a_new_budget_when_the_law_holds(budgets: int, at: float) -> None:
    """0.95 or a little more, within three standard errors of so many studies."""
    assert coverage(budgets=budgets, scatter=0.0, at=at) >= 0.90


@pytest.mark.parametrize("deepest", [8, 10])
def test_intervals_cover_where_the_largest_budgets_are_cut_at_the_deepest(deepest: int) -> None:
    """Of the five best depths, 3 to 15, two or three lie near or beyond 8 or 10."""
    assert coverage(budgets=5, scatter=0.0, at=3e8, deepest=deepest) >= 0.90


def test_intervals_cover_where_budgets_scatter_as_widely_as_they_err() -> None:
    """Five budgets can't always tell scatter from errors, so it has a prior."""
    assert coverage(budgets=5, scatter=0.1, at=3e8) >= 0.88


def test_scatter_beyond_the_errors_is_found_and_counts_once_more_for_a_new_budget() -> None:
    bumps = (0.3, -0.3, 0.3, -0.3, 0.3)
    law = power_law(
        replace(optimum(n, 0.05 * n**0.33 * exp(bump)), curve_minimum_interval=(9.8, 10.2))
        for n, bump in zip(BUDGETS, bumps, strict=True)
    )
    # Misses of 0.3 with three of five free: 0.3 * sqrt(5 / 3), and the prior has rather less.
    assert law.scatter == pytest.approx(0.37, abs=0.1)
    low, high = law.predict(3e6).interval or (1, 1)
    assert log(high / low) > 2 * 1.96 * law.scatter


def test_budgets_that_a_law_meets_leave_room_for_scatter() -> None:
    error = log(1 / 0.9**2) / 3.92
    three, five = power_law(on_law(3)), power_law(on_law(5))
    assert error / 3 < five.scatter < three.scatter < 1.5 * error


def test_intervals_widen_away_from_the_fitted_sizes() -> None:
    power = power_law(on_law(4))
    widths = []
    for params in (2e6, 1e8, 1e10):
        low, high = power.predict(params).interval or (1, 1)
        widths.append(log(high / low))
    assert widths == sorted(widths)


def test_an_edge_bounds_its_best_depth_from_one_side() -> None:
    good = on_law(3)
    deep = edge(BUDGETS[3], 8.0, (1, 8))  # the law says 10: nothing contradicts it
    power = power_law([*good, deep])
    assert (power.budgets, power.bounds, power.degrees_of_freedom) == (4, 1, 1)
    assert power.b == pytest.approx(0.33, abs=0.01)
    assert power.leave_one_out_error == pytest.approx(0, abs=0.02), "on its right side, no miss"
    deeper = edge(BUDGETS[3], 32.0, (1, 32))
    steeper = power_law([*good, deeper])
    assert steeper.predict(BUDGETS[3]).depth > 1.5 * power.predict(BUDGETS[3]).depth
    shallow = edge(BUDGETS[3], 4.0, (4, 32))
    flatter = power_law([*good, shallow])
    assert flatter.predict(BUDGETS[3]).depth < 0.7 * power.predict(BUDGETS[3]).depth


def test_an_edge_whose_curve_mostly_turns_inside_is_measured_with_its_whole_side() -> None:
    points = sized_depths([edge(10**6, 7.5, (1, 8), beyond=0.4, error=0.2)])
    assert points.side.tolist() == [0.0]
    assert points.log_depth[0] == pytest.approx(log(7.5))
    assert points.error[0] == pytest.approx(0.2), "not the side that the tested depths cut"
    assert sized_depths([edge(10**6, 7.5, (1, 8), beyond=0.6)]).side.tolist() == [1.0]
    assert sized_depths([edge(10**6, 4.5, (4, 8), beyond=0.6)]).side.tolist() == [-1.0]
    assert sized_depths([edge(10**6, 1.0, (1, 8))]).side.tolist() == [-1.0], "none is shallower"


def test_an_edge_over_the_whole_range_says_nothing_and_bounds_alone_make_no_law() -> None:
    good = on_law(3)
    open_edge = edge(BUDGETS[3], 6.0, (4, 8), error=0.5)
    assert usable([*good, open_edge]) == tuple(good)
    assert fit_laws([*good[:2], open_edge]) == ()
    bounds = [edge(n, 8.0, (1, 8)) for n in BUDGETS[2:4]]
    assert fit_laws([good[0], *bounds]) == (), "a line may rise as steeply as it likes"
    assert len(fit_laws([*good[:2], bounds[1]])) == 2


def test_one_measured_depth_is_enough_where_bounds_limit_the_slope_on_both_sides() -> None:
    """As in the Gemstones classes up to 544M, of which the first and last are deep edges."""
    low, high = edge(BUDGETS[0], 5.0, (1, 5)), edge(BUDGETS[3], 8.0, (1, 8))
    power = power_law([low, optimum(BUDGETS[2], 7.0), high])
    assert power.bounds == 2
    assert 0.0 < power.b < log(7 / 5) / log(10)
    assert power.leave_one_out_error is None
    ends = power.predict(BUDGETS[3]).interval
    assert ends
    assert ends[0] < 8 < ends[1]


def test_a_law_is_judged_by_predicting_each_budget_from_the_others() -> None:
    """This holds for three budgets too: the other two are enough for a line."""
    depths = (2.0, 4.0, 8.0)
    sizes = (10**6, 10**7, 10**8)
    power, *_ = fit_laws([optimum(n, d) for n, d in zip(sizes, depths, strict=True)])
    assert len(sizes) == FEWEST_BUDGETS
    assert power.name == "power"
    assert power.leave_one_out_error == pytest.approx(0, abs=1e-9)
    bent = [optimum(n, d) for n, d in zip(sizes, (2.0, 4.4, 8.0), strict=True)]
    again = power_law(bent)
    # The middle is missed by ln 1.1, each end by twice that.
    assert again.leave_one_out_error == pytest.approx(log(1.1) * 5 / 3, rel=1e-6)


def test_a_law_that_needs_every_budget_comes_last() -> None:
    """Depth that falls between the last two budgets has no logarithmic law without the first."""
    laws = fit_laws([optimum(n, d) for n, d in ((10**6, 2.0), (10**7, 6.1), (10**8, 6.0))])
    assert [law.name for law in laws] == ["power", "logarithmic"]
    assert laws[1].leave_one_out_error is None


@pytest.mark.parametrize("exponent", [0.0, -0.2, 1.3])
def test_an_impossible_logarithmic_law_is_left_out(exponent: float) -> None:
    depths = {n: 6 * (n / 3e6) ** exponent for n in BUDGETS[1:4]}
    laws = fit_laws([optimum(n, depth) for n, depth in depths.items()])
    assert [law.name for law in laws] == ["power"]
    assert laws[0].b == pytest.approx(exponent, abs=0.1)


def test_a_fitted_law_without_a_depth_is_an_error() -> None:
    law = Law(
        name="power", a=-4.0, b=0.33, covariance=((0.0, 0.0), (0.0, 0.0)), budgets=3, bounds=0,
        params_range=(300_000, 3_000_000), leave_one_out_error=None,
    )  # fmt: skip
    with pytest.raises(ValueError, match="at least one layer, but the fitted power law"):
        law.predict(1000)
    assert law.predict(1e6).interval == pytest.approx((law.predict(1e6).depth,) * 2)
    scattered = replace(law, scatter=0.1).predict(1e6)
    ends = (scattered.depth * exp(-0.196), scattered.depth * exp(0.196))
    assert scattered.interval == pytest.approx(ends)
