"""Planted laws over parameters and tokens are found, and their intervals cover as they say."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.token_law import TokenLaw, fit_token_law
from tests.support.optima import (
    BUDGETS,
    TOKEN_LAW,
    edge,
    on_token_law,
    optimum,
    token_ladder,
    token_law_depth,
)

A, B, C = TOKEN_LAW
RATIOS = (5, 20, 80)


def fitted(optima: Sequence[Located]) -> TokenLaw:
    law = fit_token_law(optima)
    assert law is not None
    return law


def test_a_planted_law_is_found_with_what_it_was_fitted_to() -> None:
    law = fitted(token_ladder())

    assert (law.a, law.b, law.c) == pytest.approx((A, B, C), abs=1e-6)
    assert (law.points, law.bounds, law.budgets) == (9, 0, 3)
    assert law.params_range == (BUDGETS[0], BUDGETS[2])
    assert (law.tokens_range, law.ratio_range) == ((1_500_000, 240_000_000), (5, 80))
    assert law.leave_one_out_error == pytest.approx(0, abs=1e-6)
    assert law.scatter < 0.05, "half of an error"


def test_a_prediction_is_extrapolated_outside_sizes_tokens_or_tokens_a_parameter() -> None:
    law = fitted(token_ladder())
    found = law.predict(1e6, 2e7)

    assert found.depth == pytest.approx(token_law_depth(1e6, 2e7))
    assert not found.extrapolated
    assert law.predict(1e8, 2e9).extrapolated
    assert law.predict(1e6, 2e6).extrapolated, "the tokens are of 400k parameters, not of 1M"
    assert law.predict(1e6, 1e9).extrapolated


@pytest.mark.parametrize(
    "optima",
    [
        token_ladder(BUDGETS[:1], (5, 10, 20, 40, 80)),
        token_ladder(BUDGETS, (20,)),
        [on_token_law(size, 2e8 / size) for size in BUDGETS],
        token_ladder(BUDGETS[:3], (20, 22)),
        token_ladder(BUDGETS[:1]),
    ],
    ids=["one size", "one ratio", "one horizon", "ratios too close", "three points"],
)
def test_there_is_no_law_where_sizes_and_tokens_do_not_vary_apart(optima: list[Located]) -> None:
    assert fit_token_law(optima) is None


def test_there_is_no_law_over_steps_or_over_sizes_that_are_no_parameters() -> None:
    steps = Spend(1000, Coin.STEPS)
    assert fit_token_law([replace(known, shared_spend=steps) for known in token_ladder()]) is None
    assert fit_token_law([replace(known, count=Count.FLOPS) for known in token_ladder()]) is None


def test_an_unsettled_answer_does_not_count_and_an_edge_bounds() -> None:
    unsettled = optimum(BUDGETS[3], 100.0, kind=Kind.INSUFFICIENT)
    deep = replace(edge(BUDGETS[3], 5.0, (1, 5)), tokens=20 * BUDGETS[3])
    law = fitted([*token_ladder(), unsettled, deep])

    assert (law.points, law.bounds) == (10, 1)
    assert (law.b, law.c) == pytest.approx((B, C), abs=0.02)


def test_errors_that_a_budget_has_once_make_sizes_less_certain_but_not_the_drift() -> None:
    law = fitted(token_ladder())
    sizes = np.log(BUDGETS[:3])
    error = np.hypot(0.1, law.scatter)
    once = error / np.sqrt(np.sum((sizes - sizes.mean()) ** 2))

    assert law.covariance[1][1] ** 0.5 >= once
    ratios = np.log(RATIOS)
    independent = error / np.sqrt(3 * np.sum((ratios - ratios.mean()) ** 2))
    low, high = law.drift_interval
    assert high - low == pytest.approx(3.92 * independent, rel=0.01)


def missed(shared: float, generator: Generator) -> list[Located]:
    """A ladder whose errors share a part within each budget."""
    optima = []
    for size in BUDGETS[:3]:
        once = shared**0.5 * generator.standard_normal()
        for ratio in RATIOS:
            error = generator.uniform(0.05, 0.15)
            own = once + (1 - shared) ** 0.5 * generator.standard_normal()
            optima.append(on_token_law(size, ratio, error * own, error))
    return optima


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_intervals_cover_however_far_the_errors_of_a_budget_go_together(shared: float) -> None:
    generator, covered, drifts = np.random.default_rng(0), [], []
    for _ in range(150):
        law = fitted(missed(shared, generator))
        low, high = law.predict(3e8, 2.4e10).interval or (0, 0)
        covered.append(low <= token_law_depth(3e8, 2.4e10) <= high)
        drifts.append(law.drift_interval[0] <= C <= law.drift_interval[1])

    assert np.mean(covered) >= 0.93
    assert np.mean(drifts) >= 0.93
