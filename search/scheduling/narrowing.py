"""The next training of a budget: the depth at which it narrows the interval most."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np
from scipy.linalg import block_diag

from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.curve_fit import draw, fit, points_of
from fathom.search.analysis.depth_estimates import KNOWN_NOISE, DepthEstimates

WORTH = 0.05
"""Share of its width by which a training must be expected to narrow the interval."""
DRAWS = 400
"""Bootstrap draws of a width: enough to compare candidates, which share their random numbers."""


def most_telling(estimates: DepthEstimates, candidates: Sequence[int]) -> int | None:
    """The candidate depth whose training narrows the interval most; None where no curve can be
    fitted or no training is worth it.

    A depth that was trained gets another seed. The loss of a new one is taken to fall on the curve.
    """
    points = points_of(estimates)
    if len(points.depths) < 3 or not candidates:
        return None
    curve, variance, freedom = fit(points), estimates.noise**2, estimates.degrees_of_freedom
    trials = {estimate.depth: estimate.trials for estimate in estimates.depths}
    widths = {
        depth: _width(_repeated(points, depth, trials[depth], variance), freedom + 1)
        if depth in trials
        else _width(_added(points, depth, curve.loss_at(depth), variance), freedom)
        for depth in candidates
    }
    best = min(candidates, key=lambda depth: widths[depth])
    return best if widths[best] <= (1 - WORTH) * _width(points, freedom) else None


def _repeated(points: DepthPoints, depth: int, trials: int, variance: float) -> DepthPoints:
    """The points after another seed of a depth that has so many trials."""
    place = points.depths.tolist().index(depth)
    covariance = points.covariance.copy()
    covariance[place, place] -= variance * (1 / trials - 1 / (trials + 1))
    return replace(points, covariance=covariance)


def _added(points: DepthPoints, depth: int, loss: float, variance: float) -> DepthPoints:
    """The points with another depth."""
    both = DepthPoints(
        depths=np.append(points.depths, depth),
        losses=np.append(points.losses, loss),
        covariance=block_diag(points.covariance, np.array([[variance]])),
    )
    return both.at(np.argsort(both.depths))


def _width(points: DepthPoints, freedom: int) -> float:
    """Width of the interval of the best depth, in ln depth."""
    drawn = draw(
        fit(points),
        np.random.default_rng(0),
        draws=DRAWS,
        degrees_of_freedom=max(freedom, KNOWN_NOISE),
    )
    low, high = drawn.interval
    return log(high / low)
