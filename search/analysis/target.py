"""The best depth at a size beyond the budgets, by both laws of depth, each weighed by how well it
fits the budgets; and how far a better known budget would narrow it.

One law's interval says nothing of the chance that the other law is true: where the logarithmic law
fits a little better and the power law is true, it misses far out. A mixture of both covers
(`python -m benchmarks.answers.spending`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from fathom.search.analysis.depth_estimates import Array
from fathom.search.analysis.law import Law, depth_and_slopes, fit_laws, law_points
from fathom.search.analysis.law_fit import SizedDepths, weighted_slopes
from fathom.search.analysis.optimum import Optimum

TAILS = 0.025, 0.5, 0.975
"""Quantiles of an answer: the ends of its 95 % interval, and the middle."""
FURTHEST = 12.0
"""Standard deviations within which every quantile of `TAILS` lies."""


@dataclass(frozen=True, slots=True)
class WeighedLaw:
    """A law with its probability among the laws, and what it predicts."""

    law: Law
    weight: float
    mean: float
    """ln of the best depth at the size asked for."""
    variance: float
    """Its variance, the scatter of budgets about the law included."""


@dataclass(frozen=True, slots=True)
class AtTarget:
    """What the budgets of a study say of the best depth at a size."""

    params: int
    points: SizedDepths
    laws: tuple[WeighedLaw, ...]

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the best depth, in layers."""
        low, _, high = self._quantiles
        return low, high

    @property
    def depth(self) -> float:
        """Median of the best depth, in layers."""
        return self._quantiles[1]

    @property
    def width(self) -> float:
        """Factor between the ends of the interval, at least 1."""
        low, high = self.interval
        return high / low

    @property
    def variance(self) -> float:
        """Variance of ln of the best depth."""
        return _variance(self.laws)

    def gain(self, budget: int, left: float) -> float:
        """Share of the variance that goes where only the share `left` of the variance of one
        budget's ln depth is left; 0 for a budget that the laws are not fitted to."""
        error = np.where(
            self.points.params == budget, sqrt(left) * self.points.error, self.points.error
        )
        better = replace(self.points, error=error)
        after = [
            replace(each, variance=_predicted(each.law, better, self.params)[1])
            for each in self.laws
        ]
        return max(0.0, 1 - _variance(after) / self.variance)

    @property
    def _quantiles(self) -> tuple[float, float, float]:
        low, middle, high = (_quantile(self.laws, share) for share in TAILS)
        return max(1.0, low), max(1.0, middle), max(1.0, high)


def at_target(optima: Sequence[Optimum], params: int) -> AtTarget | None:
    """The best depth at a size by the optima of the budgets; None where no law fits them, for
    example with fewer than three usable budgets."""
    points, laws = law_points(optima), fit_laws(optima)
    if points is None or not laws:
        return None
    likely = np.array([_log_likelihood(law, points) for law in laws])
    weights = np.exp(likely - likely.max())
    weighed = tuple(
        WeighedLaw(law, float(weight), *_predicted(law, points, params))
        for law, weight in zip(laws, weights / weights.sum(), strict=True)
    )
    return AtTarget(params, points, weighed)


def _log_likelihood(law: Law, points: SizedDepths) -> float:
    """Log-likelihood of a fitted law. Each law has as many constants, so that none is penalised."""
    scattered = points.scattered(law.scatter**2)
    depths, _ = depth_and_slopes(law.name, _constants(law), points.params)
    measured = scattered.error[points.side == 0]
    return -scattered.unlikelihood(np.log(depths)) - float(np.log(measured).sum())


def _predicted(law: Law, points: SizedDepths, params: int) -> tuple[float, float]:
    """Mean and variance of ln depth at a size, by a law whose points have these errors."""
    form = partial(depth_and_slopes, law.name)
    design = weighted_slopes(form, _constants(law), points.scattered(law.scatter**2))
    depth, slopes = form(_constants(law), np.array([params], dtype=np.float64))
    of_line = float(slopes[0] @ np.linalg.pinv(design.T @ design) @ slopes[0])
    return float(np.log(depth[0])), of_line + law.scatter**2


def _constants(law: Law) -> Array:
    return np.array([law.a, law.b])


def _variance(laws: Sequence[WeighedLaw]) -> float:
    mean = sum(each.weight * each.mean for each in laws)
    return sum(each.weight * (each.variance + (each.mean - mean) ** 2) for each in laws)


def _quantile(laws: Sequence[WeighedLaw], share: float) -> float:
    """The depth below which the best one lies with probability `share`."""
    ends = [each.mean + side * FURTHEST * sqrt(each.variance) for each in laws for side in (-1, 1)]

    def excess(log_depth: float) -> float:
        below = (each.weight * ndtr((log_depth - each.mean) / sqrt(each.variance)) for each in laws)
        return float(sum(below)) - share

    return exp(float(brentq(excess, min(ends), max(ends))))
