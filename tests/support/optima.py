"""Optima of budgets without trials, for what is fitted across budgets."""

from collections.abc import Sequence
from dataclasses import fields, replace
from math import exp, log

import numpy as np
from numpy.random import Generator

from fathom.models.shape import Count
from fathom.search.analysis.answer.optimum import (
    BudgetAnswer,
    Curves,
    DepthCost,
    Located,
    NotLocated,
    Optimum,
)
from fathom.search.analysis.answer.verdict import Kind, NarrowInterval, Verdict
from fathom.search.analysis.curve_families import Parabola, PowerCurve
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from tests.support.training import SHAPE

BUDGETS = (300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)


CURVES = Curves(
    power=PowerCurve(a=0.1, b=0.1, c=1.5, p=1.0, q=1.0, scale=4.0),
    parabola=Parabola(c0=1.7, c1=-0.1, c2=0.03),
)


UNTRAINED = DepthCost(depth=5, nats=-0.004, interval=(-0.009, 0.001))
"""What a depth that did not finish costs instead of an answer that is expected to be worse."""


def located(optimum: Optimum) -> Located:
    """The same optimum, which is located."""
    assert isinstance(optimum, Located)
    return optimum


def not_located(optimum: Optimum, lowest: int | None) -> NotLocated:
    """The optimum as if fewer than three of its depths had finished, or none."""
    measured = {field.name: getattr(optimum, field.name) for field in fields(BudgetAnswer)}
    return NotLocated(**measured, lowest_depth=lowest)


def verdict(kind: Kind) -> Verdict:
    """A verdict of this kind; its cause is no matter."""
    return Verdict(kind, NarrowInterval((3, 4), (1, 8)))


def optimum(budget: int, depth: float, *, kind: Kind = Kind.IDENTIFIED) -> Located:
    whole = max(1, round(depth))
    return Located(
        budget=budget, count=Count.NON_EMBEDDING, tokens=20 * budget, lowest_depth=whole,
        optimal_depth=whole, probabilities=((whole, 1.0),), chance_of_cost=0.0,
        interval=(max(1, whole - 1), whole + 1), plateau=(whole,),
        verdict=verdict(kind), loss=1.6, shape=None, curve_minimum=depth,
        curve_minimum_interval=(depth * 0.9, depth / 0.9), curves=CURVES, family_disagreement=1.0,
        costs=(), share_without_minimum=0.0, params_slope=-0.2, best_ff_ratio=4.0, depths=(),
        noise=0.003, trials={},
    )  # fmt: skip


def edge(
    budget: int, depth: float, tested: tuple[int, int], *, beyond: float = 1.0, error: float = 0.1
) -> Located:
    """An optimum at or near an end of the tested depths, where its interval is cut."""
    low, high = np.clip([depth * exp(-1.96 * error), depth * exp(1.96 * error)], *tested).tolist()
    return replace(
        optimum(budget, depth, kind=Kind.EDGE),
        curve_minimum_interval=(low, high),
        share_without_minimum=beyond,
        depths=tuple(
            DepthEstimate(depth=d, loss=2.0, standard_error=0.01, trials=2, shape=SHAPE)
            for d in tested
        ),
    )


def on_token_law(params: int, ratio: float, missed: float = 0.0, error: float = 0.1) -> Located:
    """The optimum of a size at some tokens a parameter, off a planted law by `missed` in ln
    depth."""
    depth = token_law_depth(params, params * ratio) * exp(missed)
    ends = (depth * exp(-1.96 * error), depth * exp(1.96 * error))
    found = replace(optimum(params, depth), tokens=round(params * ratio))
    return replace(found, curve_minimum_interval=ends)


TOKEN_LAW = (-3.0, 0.3, 0.15)
"""Constants a, b and c of the planted law over parameters and tokens."""


def token_law_depth(params: float, tokens: float) -> float:
    """The best depth by the planted law over parameters and tokens."""
    a, b, c = TOKEN_LAW
    return exp(a + b * log(params) + c * log(tokens))


def token_ladder(
    sizes: Sequence[int] = BUDGETS[:3], ratios: Sequence[float] = (5, 20, 80)
) -> list[Located]:
    """The optima of sizes at several tokens a parameter, exactly on the planted law."""
    return [on_token_law(size, ratio) for size in sizes for ratio in ratios]


def noisy_optimum(budget: int, depth: float, error: float, generator: Generator) -> Located:
    """An optimum whose interval says honestly how far ln depth may be off."""
    found = depth * exp(error * generator.standard_normal())
    ends = (found * exp(-1.96 * error), found * exp(1.96 * error))
    return replace(optimum(budget, found), curve_minimum_interval=ends)
