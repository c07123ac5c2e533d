"""What a loss above the best is worth in compute: `search/analysis/laws/compute_law.py`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

import numpy as np
import pytest
from numpy.random import Generator

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer.optimum import DepthCost, Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.compute_law import ComputeLaw, fit_compute_law
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from tests.support.optima import not_located, optimum, verdict
from tests.support.training import SHAPE

BUDGETS = (10**6, 2 * 10**6, 4 * 10**6, 8 * 10**6, 16 * 10**6, 32 * 10**6)


@dataclass(frozen=True)
class Planted:
    """A law `floor + gain (C / C of 2M parameters)^-exponent`."""

    floor: float = 2.0
    gain: float = 1.5
    exponent: float = 0.12

    def above(self, budget: int) -> float:
        """Loss above the floor at 20 tokens a parameter."""
        return float(self.gain * (budget / BUDGETS[1]) ** (-2 * self.exponent))

    def multiple(self, budget: int, nats: float) -> float:
        return exp(log(1 + nats / self.above(budget)) / self.exponent)

    def ladder(
        self, budgets: Sequence[int], error: float, generator: Generator | None = None
    ) -> list[Located]:
        missed = generator.standard_normal(len(budgets)) * error if generator else [0.0] * 9
        return [
            at(budget, self.floor + self.above(budget) + miss, error)
            for budget, miss in zip(budgets, missed, strict=False)
        ]


def at(budget: int, loss: float, error: float) -> Located:
    estimate = DepthEstimate(depth=8, loss=loss, standard_error=error, trials=2, shape=SHAPE)
    return replace(optimum(budget, 8), loss=loss, depths=(estimate,))


def cost(nats: float, error: float = 0.0) -> DepthCost:
    return DepthCost(depth=4, nats=nats, interval=(nats - 1.96 * error, nats + 1.96 * error))


def fitted(ladder: Sequence[Located]) -> ComputeLaw:
    law = fit_compute_law(ladder)
    assert law is not None
    return law


def test_three_exact_budgets_say_what_a_loss_is_worth() -> None:
    world = Planted()
    ladder = world.ladder(BUDGETS[:3], error=1e-4)
    law = fitted(ladder)
    for known in ladder:
        found = law.multiple(known, cost(0.03))
        assert found is not None
        truth = world.multiple(known.budget, 0.03)
        assert found.middle == pytest.approx(truth, rel=0.03)
        assert found.interval[0] <= truth <= found.interval[1]


def test_the_interval_holds_the_multiple_of_planted_laws() -> None:
    generator, held, asked = np.random.default_rng(5), 0, 0
    for _ in range(300):
        world = Planted(
            floor=generator.uniform(1.0, 3.0),
            gain=generator.uniform(0.5, 2.0),
            exponent=exp(generator.uniform(log(0.05), log(0.3))),
        )
        error = generator.uniform(0.001, 0.005)
        ladder = world.ladder(BUDGETS[: generator.integers(2, 7)], error, generator)
        nats, budget = generator.uniform(0.005, 0.06), ladder[generator.integers(len(ladder))]
        told = nats + error * generator.standard_normal()
        found = fitted(ladder).multiple(budget, cost(told, error))
        if found is not None:
            asked += 1
            held += found.interval[0] <= world.multiple(budget.budget, nats) <= found.interval[1]
    assert asked > 270
    assert held / asked > 0.93


def test_a_cost_that_may_be_nothing_may_be_worth_no_compute() -> None:
    ladder = Planted().ladder(BUDGETS[:4], error=0.001)
    found = fitted(ladder).multiple(ladder[1], cost(0.001, error=0.002))
    assert found is not None
    assert found.interval[0] < 1 < found.interval[1]


def test_nothing_is_said_far_above_the_loss_of_the_smallest_budget() -> None:
    ladder = Planted().ladder(BUDGETS[:3], error=0.001)
    assert fitted(ladder).multiple(ladder[0], cost(0.1)) is not None
    assert fitted(ladder).multiple(ladder[0], cost(2.0)) is None


def test_nothing_is_said_where_the_loss_does_not_fall() -> None:
    flat = [at(budget, 3.0, error=0.01) for budget in BUDGETS[:3]]
    assert fitted(flat).multiple(flat[0], cost(0.03)) is None


def test_a_law_takes_two_budgets_with_a_best_depth_and_a_known_error_and_compute() -> None:
    ladder = Planted().ladder(BUDGETS[:2], error=0.001)
    assert fit_compute_law(ladder[:1]) is None
    assert fit_compute_law([ladder[0], not_located(ladder[1], None)]) is None
    unsettled = replace(ladder[1], verdict=verdict(Kind.INSUFFICIENT))
    assert fit_compute_law([ladder[0], unsettled]) is None
    assert fit_compute_law([ladder[0], at(BUDGETS[1], 2.5, inf)]) is None
    steps = Spend(1000, Coin.STEPS)
    heads = [replace(known, count=Count.HEADS) for known in ladder]
    assert fit_compute_law(heads) is None
    assert fit_compute_law([replace(o, shared_spend=steps) for o in ladder]) is None


def test_larger_budgets_may_train_on_more_tokens_or_on_the_same() -> None:
    ladder = Planted().ladder(BUDGETS[:3], error=0.001)
    assert fitted(ladder).tokens_grow
    assert not fitted([replace(known, tokens=10**8) for known in ladder]).tokens_grow


def test_compute_is_what_a_training_spends_where_that_is_fixed() -> None:
    ladder = Planted().ladder(BUDGETS[:3], error=0.001)
    spending = [
        replace(o, shared_spend=Spend(float(4**i), Coin.FLOPS)) for i, o in enumerate(ladder)
    ]
    assert fitted(spending).least == 1
