"""The best depth at a size: a mixture of both laws."""

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from fathom.search.analysis.laws.law import Prediction, depth_and_slopes, fit_laws
from fathom.search.analysis.laws.weighed_laws import WeighedLaws, weigh_laws
from tests.support.optima import BUDGETS, noisy_optimum, optimum

TARGET = 300_000_000


def by_power(error: float = 0.1, slope: float = 0.25) -> WeighedLaws:
    optima = [
        replace(
            optimum(size, depth := 4 * (size / BUDGETS[0]) ** slope),
            curve_minimum_interval=(depth * exp(-1.96 * error), depth * exp(1.96 * error)),
        )
        for size in BUDGETS
    ]
    laws = weigh_laws(optima)
    assert laws
    return laws


@pytest.fixture
def found() -> WeighedLaws:
    return by_power()


def test_the_laws_have_probabilities(found: WeighedLaws) -> None:
    assert sum(each.weight for each in found.at(TARGET)) == pytest.approx(1)
    assert {each.law.name for each in found.at(TARGET)} == {"power", "logarithmic"}


def test_a_law_that_fits_far_better_has_nearly_all_the_weight() -> None:
    assert by_power(error=0.01, slope=0.4).weights["power"] > 0.99


def test_the_interval_holds_95_percent_of_draws_from_the_mixture(
    found: WeighedLaws,
) -> None:
    generator, laws = np.random.default_rng(0), found.at(TARGET)
    counts = generator.multinomial(200_000, [each.weight for each in laws])
    draws = np.concatenate(
        [
            generator.normal(each.mean, sqrt(each.variance), count)
            for each, count in zip(laws, counts, strict=True)
        ]
    )
    said = found.predict(TARGET)
    assert said.interval
    low, high = said.interval
    assert np.quantile(draws, [0.025, 0.5, 0.975]) == pytest.approx(
        [log(low), log(said.depth), log(high)], abs=0.02
    )


def test_the_only_law_that_fits_has_its_own_interval() -> None:
    optima = [optimum(size, 8 * (size / BUDGETS[0]) ** -0.1) for size in BUDGETS]
    (law,) = fit_laws(optima)
    laws = weigh_laws(optima)
    assert laws
    assert laws.predict(TARGET).interval == pytest.approx(law.predict(TARGET).interval, rel=1e-3)


def true_depth(law: str, params: float) -> float:
    """The best depth by a planted law; from 300k to 3M both grow alike, 3 to 7 and 4 to 12."""
    constants = {"power": np.array([log(0.05), 0.33]), "logarithmic": np.array([4.0, 0.08])}
    return float(depth_and_slopes(law, constants[law], np.array([params]))[0][0])


@pytest.mark.parametrize("law", ["power", "logarithmic"])
def test_the_interval_far_out_holds_the_best_depth_whichever_law_is_true(law: str) -> None:
    """At a hundred times the largest of three budgets; that of the best-fitting law does not."""
    generator, studies, held, alone = np.random.default_rng(0), 60, 0, 0
    far = 100 * BUDGETS[2]
    for _ in range(studies):
        optima = [
            noisy_optimum(params, true_depth(law, params), error, generator)
            for params, error in zip(BUDGETS, generator.uniform(0.05, 0.15, 3), strict=False)
        ]
        laws = weigh_laws(optima)
        assert laws
        for_size = laws.predict(far)
        held += holds(for_size, true_depth(law, far))
        alone += holds(laws.laws[0].predict(far), true_depth(law, far))
    assert held >= binom.ppf(1e-3, studies, 0.95)
    assert alone < held - 5


def holds(prediction: Prediction, depth: float) -> bool:
    assert prediction.interval
    low, high = prediction.interval
    return low <= depth <= high


def test_a_prediction_is_the_mixtures_and_names_the_likelier_law_first() -> None:
    optima = [optimum(size, 0.05 * size**0.33) for size in BUDGETS]
    laws = weigh_laws(optima)
    assert laws
    said = laws.predict(TARGET)
    assert laws.predict(TARGET, 1e9) == said, "a law over sizes reads no tokens"
    assert (said.law, said.extrapolated) == ("power and logarithmic", True)
    assert laws.weights["power"] > laws.weights["logarithmic"]
    with pytest.raises(ValueError, match="a model has at least one layer, but the power and"):
        laws.predict(10)


def test_two_budgets_say_nothing_of_a_third() -> None:
    assert weigh_laws([optimum(size, 4) for size in BUDGETS[:2]]) is None
