"""Planted laws of loss: size, tokens and depth for some FLOPs are found, or refused."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from fathom.search.analysis.laws.loss_law import (
    LossLaw,
    LowestLoss,
    fit_loss_law,
    is_determined,
    why_no_loss_law,
)
from fathom.search.analysis.laws.token_law import TokenLaw, fit_token_law
from fathom.search.analysis.spending.at_compute import ComputeAnswer, answer_at
from tests.support.optima import token_ladder, token_law_depth

SIZES = (3_000_000, 10_000_000, 30_000_000)
RATIOS = (5, 20, 80)
ALPHA, BETA = 0.35, 0.30
LARGEST = 6 * SIZES[-1] * SIZES[-1] * RATIOS[-1]
"""FLOPs of the largest training of the ladder."""


def planted(params: float, tokens: float) -> float:
    of_size, of_data = 0.6 * (params / 1e7) ** -ALPHA, 0.5 * (tokens / 2e8) ** -BETA
    return float(1.7 + of_size + of_data)


def best_params(flops: float) -> float:
    """The size at which the planted loss is lowest for some FLOPs at six a parameter and token."""
    sizes = np.geomspace(1e6, 1e12, 20_000).tolist()
    return float(min(sizes, key=lambda size: planted(size, flops / 6 / size)))


def ladder(generator: Generator | None = None, error: float = 0.002) -> list[LowestLoss]:
    """The lowest losses of nine budgets and horizons, with or without noise."""
    noise = generator.standard_normal((3, 3)) * error if generator else np.zeros((3, 3))
    return [
        LowestLoss(
            params=size,
            tokens=size * ratio,
            loss=planted(size, size * ratio) + float(noise[i, j]),
            error=error,
            curvature=0.05,
        )
        for i, size in enumerate(SIZES)
        for j, ratio in enumerate(RATIOS)
    ]


def fitted(losses: list[LowestLoss]) -> LossLaw:
    law = fit_loss_law(losses)
    assert law is not None
    return law


def depth_law() -> TokenLaw:
    law = fit_token_law(token_ladder(SIZES, RATIOS))
    assert law is not None
    return law


def answered(losses: list[LowestLoss], flops: float) -> ComputeAnswer:
    return answer_at(fitted(losses), depth_law(), flops, lambda params, _: 6 * params)


@pytest.fixture(scope="module")
def exact() -> ComputeAnswer:
    return answered(ladder(), 30 * LARGEST)


def test_a_planted_law_is_found_and_its_best_size_tokens_and_depth(exact: ComputeAnswer) -> None:
    true = best_params(exact.flops)

    assert exact.params == pytest.approx(true, rel=0.05)
    assert exact.params * exact.tokens * 6 == pytest.approx(exact.flops)
    assert exact.depth == pytest.approx(token_law_depth(exact.params, exact.tokens), rel=1e-3)
    assert exact.loss == pytest.approx(planted(true, exact.flops / 6 / true), abs=0.003)
    assert exact.alpha_interval[0] < ALPHA < exact.alpha_interval[1]
    assert exact.beta_interval[0] < BETA < exact.beta_interval[1]
    assert exact.times_beyond == pytest.approx(30)
    assert exact.why_not == ""


def test_what_a_wrong_size_costs_is_a_multiple_of_compute(exact: ComputeAnswer) -> None:
    """A rule's size at these FLOPs has the loss that the best size has at fewer."""
    [rule, published] = exact.rules
    assert (rule.name, published.name) == ("20 tokens a parameter", "Hoffmann et al. 2022")
    assert rule.tokens / rule.params == pytest.approx(20, rel=0.05)
    fewer = exact.flops / rule.multiple
    best = best_params(fewer)
    assert planted(best, fewer / 6 / best) == pytest.approx(
        planted(rule.params, rule.tokens), abs=1e-3
    )
    assert 1 <= exact.multiple < 1.2
    assert exact.depth_multiple is not None
    assert exact.depth_multiple > 1


@pytest.mark.parametrize("part", [0.9, 1e-6, 1e-15])
def test_below_the_smallest_training_of_the_ladder_nothing_is_answered(part: float) -> None:
    losses = ladder()
    smallest = min(6 * known.params * known.tokens for known in losses)
    below = answered(losses, part * smallest)
    assert "less than the" in below.why_not
    assert "search a model this small directly" in below.why_not
    assert below.depth_interval
    assert below.depth_interval[0] <= below.depth_interval[1]
    assert not answered(losses, 1.01 * smallest).why_not.startswith("it is less")


def test_the_costs_of_shapes_move_the_best_size() -> None:
    """Where a parameter costs twice as much in large models, smaller ones are best."""
    losses, depths = fitted(ladder()), depth_law()
    flat = answer_at(losses, depths, LARGEST, lambda params, _: 6 * params)
    steep = answer_at(losses, depths, LARGEST, lambda params, _: 6 * params * (params / 1e7) ** 0.3)

    assert steep.params < 0.9 * flat.params
    assert steep.tokens * 6 * steep.params * (steep.params / 1e7) ** 0.3 == pytest.approx(LARGEST)


def test_an_extrapolation_by_more_than_a_thousand_in_compute_is_no_answer() -> None:
    assert answered(ladder(), 990 * LARGEST).why_not == ""
    assert "times the compute of the ladder's largest training" in (
        answered(ladder(), 1010 * LARGEST).why_not
    )


def test_losses_too_noisy_for_an_exponent_are_no_answer() -> None:
    noisy = [replace(known, error=0.1) for known in ladder()]

    assert "the losses leave open how fast the loss falls with" in answered(noisy, LARGEST).why_not


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([known for known in ladder() if known.params < SIZES[-1]], "3 sizes and 3 horizons"),
        (ladder()[:6], "got 6 of 2 sizes"),
        (
            [replace(known, tokens=20 * known.params) for known in ladder()],
            "about equally many tokens per parameter",
        ),
    ],
    ids=["two sizes", "six losses", "one ratio"],
)
def test_a_ladder_too_small_for_a_law_of_loss_has_none(
    losses: list[LowestLoss], reason: str
) -> None:
    assert fit_loss_law(losses) is None
    assert reason in why_no_loss_law(losses)


def test_an_exponent_is_determined_within_a_factor_of_four_and_off_the_ends() -> None:
    assert is_determined((0.2, 0.5))
    assert not is_determined((0.1, 0.5))
    assert not is_determined((0.03, 0.1))
    assert not is_determined((0.5, 1.5))


@pytest.mark.drill
def test_intervals_hold_the_best_size_of_a_planted_law() -> None:
    """Twenty ladders: 19 of 20 is what 95 % means, and one more may miss by chance."""
    flops = 30 * LARGEST
    true, held = best_params(flops), 0
    for study in range(20):
        found = answered(ladder(np.random.default_rng(study)), flops)
        low, high = found.params_interval
        held += low <= true <= high

    assert held >= 18
