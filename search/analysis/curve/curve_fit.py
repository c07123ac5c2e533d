"""Fits of loss against depth by two families of curves, and the spread of their lowest points.

`a L^-p + b L^q + c` (Alabdulmohsin et al. 2023) has a side for too few layers and one for too many,
each with its own steepness; for p and q near 0 it is a parabola in ln L. Answers are read from this
family; the parabola itself is a second opinion. Given p and q the curve is linear in a, b and c
(variable projection), so every pair of a grid is fitted exactly and weighted by its likelihood: the
uncertainty of p and q is part of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isqrt, sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fathom.search.analysis.curve_families import (
    EXPONENTS,
    Array,
    DepthPoints,
    Parabola,
    PowerCurve,
    PowerFit,
)
from fathom.search.analysis.losses.depth_estimates import DepthEstimates

Flags = NDArray[np.bool_]
CURVE_ERROR = 0.15
"""Misfit of a loss to the curve, as a share of its height above the best beyond one standard error,
since no family is exact far from the best. Chosen with `python -m
benchmarks.answers.planted.coverage`: at 0 the steep side shifts the lowest point, at 0.5 intervals
are too wide."""
CLEAR = 2
"""Standard errors of a difference above which one depth is clearly worse than another."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fit of both families of curves to three points or more."""

    points: DepthPoints
    certain: Flags
    """True for points that were measured, not forecast; (depths,)."""
    misfit: Array
    """Standard deviation of each depth's misfit, in addition to the noise; (depths,), nats."""
    plausible: Array
    """Likelihood of each pair of `EXPONENTS`, as a share of the sum; (pairs,)."""
    optimum: float
    """Depth where the curves are lowest inside the tested range, by the mean of its ln over
    pairs."""
    power: PowerCurve
    """The curve of the likeliest pair of exponents."""
    parabola: Parabola
    squares: float
    """Least sum of squared residuals of all depths, each in units of its expected error."""
    fits: PowerFit
    """Fits of the curve `a L^-p + b L^q + c`, one for each pair of exponents (p, q)."""

    def best_of(self, depths: Sequence[int]) -> int:
        """The one of `depths` with the lowest loss on the curves (mean over exponents).

        Not simply the depth nearest to the lowest point: one side may be steeper. At least one of
        the depths must lie in the tested range, beyond which curves are not read.
        """
        first, last = self.points.depths[[0, -1]].tolist()
        inside = np.array([depth for depth in depths if first <= depth <= last])
        heights = self.fits.heights(inside, self.fits.lowest()[0])[:, 0]
        return int(inside[(self.plausible @ heights).argmin()])

    def loss_at(self, depth: int) -> float:
        """The loss of the curves at a depth (mean over exponents), nats."""
        return float(self.plausible @ self.fits.losses(np.array([depth]))[:, 0, 0])

    @property
    def parabola_optimum(self) -> float:
        """Depth where the parabola is lowest inside the tested range."""
        return self.parabola.lowest(self.points.ends)


def points_of(estimates: DepthEstimates) -> DepthPoints:
    """Depth estimates as points (depth, loss, covariance) to fit curves to."""
    return DepthPoints(
        depths=np.array([estimate.depth for estimate in estimates.depths], dtype=np.int64),
        losses=np.array([estimate.loss for estimate in estimates.depths], dtype=np.float64),
        covariance=estimates.covariance,
        noise=estimates.noise,
        by_seeds=estimates.by_seeds,
    )


def fit(points: DepthPoints, *, certain: Flags | None = None) -> Fit:
    """The fit of both families to the points; the higher a depth's loss is above the best, the less
    it counts.

    The misfit is estimated from points that are `certain`, by default all.
    """
    misfit = CURVE_ERROR * points.height(1)
    white = _whitening(points.covariance, misfit)
    fits = PowerFit(points, white, EXPONENTS)
    certain = np.ones(len(points.depths), dtype=bool) if certain is None else certain
    least = float(fits.squares.min())
    excess = _excess_misfit(points, fits.curve(), misfit, certain)
    if excess:
        misfit = np.hypot(misfit, excess)
        white = _whitening(points.covariance, misfit)
        fits = PowerFit(points, white, EXPONENTS)
    squares = fits.squares[:, 0]
    plausible = np.exp((squares.min() - squares) / 2)
    plausible /= plausible.sum()
    lowest = fits.lowest()[0][:, 0]
    design = white @ np.vander(np.log(points.depths), 3, increasing=True)
    c0, c1, c2 = (np.linalg.pinv(design) @ white @ points.losses).tolist()
    return Fit(
        points=points,
        certain=certain,
        misfit=misfit,
        plausible=plausible,
        optimum=exp(float(plausible @ lowest)),
        power=fits.curve(),
        parabola=Parabola(c0=c0, c1=c1, c2=c2),
        squares=least,
        fits=fits,
    )


def draw_noise(
    points: DepthPoints, generator: Generator, *, draws: int, degrees_of_freedom: int
) -> Array:
    """Random draws of the noise between seeds in the losses of the points; (depths, draws), nats.

    They are parametric, since resampling two or three seeds would understate the spread. The noise
    itself is estimated from few degrees of freedom, so its size is drawn by a chi square and the
    losses follow a t distribution.
    """
    root = np.linalg.cholesky(points.covariance)
    known = np.sqrt(generator.chisquare(degrees_of_freedom, draws) / degrees_of_freedom)
    noise: Array = root @ generator.standard_normal((len(points.depths), draws)) / known
    return noise


def whole_depth(depth: float) -> int:
    """The neighbouring whole depth where a parabola in ln depth with this vertex is lower.

    >>> whole_depth(2.4), whole_depth(2.46)  # they part at the root of 2 * 3
    (2, 3)
    """
    squared = depth * depth
    below = isqrt(int(squared))
    return max(1, below if squared < below * (below + 1) else below + 1)


def _whitening(covariance: Array, misfit: Array) -> Array:
    """The inverse root of the covariance with misfit: it maps losses to independent ones of
    variance 1."""
    root = np.linalg.cholesky(covariance + np.diag(misfit**2))
    white: Array = np.linalg.inv(root)
    return white


def _excess_misfit(points: DepthPoints, curve: PowerCurve, misfit: Array, certain: Flags) -> float:
    """Standard deviation, nats, of losses near the best about the curve, beyond their errors.

    Depths that are not clearly worse than the best are near it; with three or fewer, the result is
    0.
    """
    near = certain & (points.height(CLEAR) == 0)
    spare = int(near.sum()) - 3
    if spare < 1:
        return 0.0
    fitted = np.array([curve(depth) for depth in points.depths.tolist()])
    expected = points.errors**2 + misfit**2
    squares = ((points.losses - fitted) ** 2 / expected)[near].sum() / spare
    return sqrt(max(0.0, squares - 1) * float(expected[near].mean()))
