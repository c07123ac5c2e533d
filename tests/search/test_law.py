"""Published numbers to their rounding, planted laws to their noise."""

import subprocess
import sys
from math import exp, log

import numpy as np
import pytest

from models.shape import Count
from search.law import Law, fit_laws, levine2020, usable
from search.optimum import Optimum, find_optima
from search.verdict import Verdict
from tests.search.simulated import planted_depth, simulated_study

BUDGETS = (300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)


def optimum(budget: int, depth: float, *, verdict: Verdict = Verdict.IDENTIFIED) -> Optimum:
    whole = max(1, round(depth))
    return Optimum(
        budget=budget,
        count=Count.NON_EMBEDDING,
        tokens=20 * budget,
        optimal_depth=whole,
        interval=(max(1, whole - 1), whole + 1),
        plateau=(whole,),
        verdict=verdict,
        reason="planted",
        loss=1.6,
        shape=None,
        vertex=depth,
        vertex_interval=(depth * 0.9, depth / 0.9),
        power=None,
        parabola=None,
        disagreement=1.0,
        dropped=0.0,
        params_slope=-0.2,
        best_ratio=4.0,
        depths=(),
        noise=0.003,
        trials={},
    )


@pytest.mark.parametrize(
    ("depth", "d_model", "best_depth", "best_d_model"),
    [
        (12, 768, 23.0, 554),
        (24, 1024, 31.6, 892),
        (24, 1536, 37.4, 1230),
        (24, 2048, 41.6, 1556),
        (32, 2560, 47.1, 2111),
        (32, 4096, 54.3, 3144),
        (40, 5140, 59.6, 4214),
        (96, 12288, 80.5, 13421),
    ],
)
def test_the_published_law_reshapes_gpt3_as_published(
    depth: int, d_model: int, best_depth: float, best_d_model: int
) -> None:
    found = levine2020(12 * depth * d_model**2)
    assert found.depth == pytest.approx(best_depth, abs=0.05)
    # The table's widths carry the rounding of its sizes to three digits.
    assert found.d_model == pytest.approx(best_d_model, rel=1e-3)


def test_the_published_constants_give_depth_95_at_a_trillion() -> None:
    """The authors' blog says 92, which their constants do not."""
    found = levine2020(1e12)
    assert round(found.depth) == 95
    assert found.d_model == pytest.approx(29657, abs=1)
    assert found.extrapolated


@pytest.mark.parametrize(
    ("depth", "d_model", "params"),
    [
        (1, 163, 0.319e6),
        (2, 172, 0.714e6),
        (3, 182, 1.20e6),
        (4, 193, 1.78e6),
        (6, 215, 3.34e6),
        (8, 241, 5.56e6),
        (12, 300, 13.0e6),
        (18, 419, 37.9e6),
        (24, 585, 98.4e6),
        (30, 816, 240e6),
        (36, 1138, 559e6),
        (48, 2215, 2.83e9),
        (64, 5383, 22.3e9),
        (80, 13082, 164e9),
        (92, 25463, 716e9),
        (96, 31793, 1.16e12),
    ],
)
def test_the_transition_table_is_reproduced(depth: int, d_model: int, params: float) -> None:
    exact = 12 * depth * exp(2 * 5.039 + 2 * 0.0555 * depth)
    assert exact == pytest.approx(params, rel=5e-3)
    found = levine2020(exact * (1 + 1e-12))
    assert found.depth == pytest.approx(depth)
    assert found.d_model == pytest.approx(d_model, abs=0.5)
    assert found.extrapolated is not (6 <= found.depth <= 48)


def test_there_is_no_published_depth_below_a_third_of_a_million_parameters() -> None:
    assert levine2020(0.32e6).depth == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match=r"at least one layer.* gives depth 0\.9.*at 3e\+05"):
        levine2020(0.3e6)


@pytest.mark.parametrize("params", [0, -1.0, float("nan"), float("inf")])
def test_a_size_must_be_a_positive_number(params: float) -> None:
    with pytest.raises(ValueError, match="`params` must be a positive number"):
        levine2020(params)


def test_a_planted_power_law_is_found_and_preferred() -> None:
    laws = fit_laws([optimum(n, 0.05 * n**0.33) for n in BUDGETS])
    assert [law.name for law in laws] == ["power", "logarithmic"]
    assert laws[0].b == pytest.approx(0.33, abs=1e-6)
    assert laws[0].a == pytest.approx(log(0.05), abs=1e-5)
    assert laws[0].leave_one_out_error == pytest.approx(0, abs=1e-6)


def test_a_planted_logarithmic_law_is_found_and_preferred() -> None:
    laws = fit_laws([optimum(n, levine2020(n).depth) for n in (10**6, 10**7, 10**8, 10**9)])
    best = laws[0]
    assert best.name == "logarithmic"
    assert best.a == pytest.approx(5.039, abs=1e-6)
    assert best.b == pytest.approx(0.0555, abs=1e-7)
    assert best.predict(175e9).depth == pytest.approx(levine2020(175e9).depth)
    assert best.predict(175e9).extrapolated
    assert not best.predict(1e8).extrapolated


def test_a_study_leads_to_a_law_that_covers_its_truth() -> None:
    budgets = BUDGETS[:4]
    for law in fit_laws(find_optima(simulated_study(budgets=budgets), seed=0)):
        low, high = law.predict(2_000_000).interval or (0, 0)
        assert low <= planted_depth(2_000_000) <= high
        assert law.params_range == (300_000, 10_000_000)


def test_predictions_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(200):
        optima = [optimum(n, 6.0) for n in BUDGETS]
        noisy = [
            noisy_optimum(own.budget, 0.05 * own.budget**0.33, generator=generator)
            for own in optima
        ]
        (power,) = (law for law in fit_laws(noisy) if law.name == "power")
        low, high = power.predict(1e8).interval or (0, 0)
        covered.append(low <= 0.05 * 1e8**0.33 <= high)
    assert np.mean(covered) >= 0.92


def noisy_optimum(budget: int, depth: float, *, generator: np.random.Generator) -> Optimum:
    """An optimum whose interval says honestly how far it may be off: one depth either way."""
    error = log((round(depth) + 1.5) / (round(depth) - 1.5)) / 3.92
    return optimum(budget, depth * exp(error * generator.standard_normal()))


def test_intervals_widen_away_from_the_fitted_sizes() -> None:
    (power,) = (
        law
        for law in fit_laws([optimum(n, 0.05 * n**0.33) for n in BUDGETS[:4]])
        if law.name == "power"
    )
    widths = []
    for params in (2e6, 1e8, 1e10):
        low, high = power.predict(params).interval or (1, 1)
        widths.append(log(high / low))
    assert widths == sorted(widths)


def test_an_edge_is_not_fitted_and_two_budgets_make_no_law() -> None:
    good = [optimum(n, 0.05 * n**0.33) for n in BUDGETS[:3]]
    edge = optimum(BUDGETS[3], 2.0, verdict=Verdict.EDGE)
    assert usable([*good, edge]) == tuple(good)
    assert fit_laws([*good, edge]) == fit_laws(good)
    assert fit_laws([*good[:2], edge]) == ()
    assert all(law.leave_one_out_error is None for law in fit_laws(good))


@pytest.mark.parametrize("exponent", [0.0, -0.2, 1.3])
def test_a_logarithmic_law_is_left_out_where_it_cannot_be(exponent: float) -> None:
    depths = {n: 6 * (n / 3e6) ** exponent for n in BUDGETS[1:4]}
    laws = fit_laws([optimum(n, depth) for n, depth in depths.items()])
    assert [law.name for law in laws] == ["power"]
    assert laws[0].b == pytest.approx(exponent, abs=0.1)


def test_a_fitted_law_says_when_it_has_no_depth() -> None:
    law = Law(
        name="power",
        a=-4.0,
        b=0.33,
        covariance=((0.0, 0.0), (0.0, 0.0)),
        degrees_of_freedom=1,
        params_range=(300_000, 3_000_000),
        leave_one_out_error=None,
    )
    with pytest.raises(ValueError, match="at least one layer, but the fitted power law"):
        law.predict(1000)
    assert law.predict(1e6).interval == pytest.approx((law.predict(1e6).depth,) * 2)


def test_predicting_imports_no_heavy_framework() -> None:
    code = (
        "import sys, search.law; "
        "print([m for m in ('torch', 'ray', 'mlflow', 'optuna', 'pandas', 'scipy.optimize', "
        "'scipy.stats') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
