"""Difference between the best depths of two studies, and the cost of each best depth in the other
study.

The studies are independent, so each draw of one posterior is paired with a draw of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fathom.search.analysis.answer.optimum import DepthCost, Located
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.curve_families import Array

LEAST_DEVIATION = 0.01
"""Least standard deviation of the ln of a ratio, so that no single size decides a mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRatio:
    """The best depth of the second study divided by that of the first, before rounding."""

    ratio: float
    """Median of the posterior."""
    low: float
    high: float
    """Ends of the interval."""

    @property
    def is_settled(self) -> bool:
        """True if the interval leaves out 1: the best depths differ."""
        return self.low > 1 or self.high < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthDifference:
    """The difference between the best depths of two studies at one size."""

    ratio: DepthRatio
    first_in_other: DepthCost | None
    """Cost of the first study's best depth in the other study; None if the other did not test it.
    """
    other_in_first: DepthCost | None

    @property
    def are_interchangeable(self) -> bool:
        """True if each best depth costs at most `PLATEAU_WIDTH` in the other study (97.5 %)."""
        costs = (self.first_in_other, self.other_in_first)
        return all(cost is not None and cost.interval[1] <= PLATEAU_WIDTH for cost in costs)


def ln_ratios(first: Posterior, other: Posterior, generator: Generator) -> Array:
    """Draws of ln(best depth of the other / best depth of the first), (draws,)."""
    # Draws of a posterior stand in the order of its settings, so pairs are drawn.
    paired: Array = np.log(generator.permutation(other.lowest)) - np.log(first.lowest)
    return paired


def depth_ratio(draws: Array, confidence: float) -> DepthRatio:
    """The depth ratio with its central interval, from draws of its ln."""
    tail = (1 - confidence) / 2
    low, middle, high = np.exp(np.quantile(draws, [tail, 0.5, 1 - tail])).tolist()
    return DepthRatio(ratio=middle, low=low, high=high)


def common_ratio(draws: Sequence[Array], confidence: float) -> DepthRatio:
    """The ratio of several sizes, assumed to be the same at each: the mean of its ln, with each
    size weighted by the inverse of its variance."""
    weights = [1 / max(float(of_size.var()), LEAST_DEVIATION**2) for of_size in draws]
    return depth_ratio(np.average(np.stack(draws), axis=0, weights=weights), confidence)


def cost_in(best: Located, other: Located) -> DepthCost | None:
    """Cost of the best depth of one study in another; None if the other did not test it."""
    depth = best.optimal_depth
    if depth == other.optimal_depth:
        return DepthCost(depth=depth, nats=0.0, interval=(0.0, 0.0))
    return next((cost for cost in other.costs if cost.depth == depth), None)
