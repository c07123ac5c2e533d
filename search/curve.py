"""Loss against depth near its lowest point, and how far noise moves that point.

One family, a parabola in ln depth. Real curves are steeper on one side, so a depth counts the less
the higher it lies above the best: there the parabola is known to be wrong.
"""

from dataclasses import dataclass
from math import exp, isqrt, log

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]

CURVE_ERROR = 0.5
"""A loss may differ from the parabola by this share of its height above the best, beyond one
standard error. Chosen on planted asymmetric curves: without the allowance the steep side drags the
lowest point and the interval misses it, with all of the height the interval says little."""
CLEAR = 2
"""Standard errors of a difference from which on one depth is clearly worse than another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parabola:
    """`loss = c0 + c1*x + c2*x^2` with `x = ln depth`."""

    c0: float
    c1: float
    c2: float

    def __call__(self, depth: float) -> float:
        """Loss at a depth, nats per token."""
        x = log(depth)
        return self.c0 + self.c1 * x + self.c2 * x * x

    @property
    def vertex_depth(self) -> float:
        """Where the parabola turns; its lowest point when it opens upwards."""
        return exp(-self.c1 / (2 * self.c2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Tested depths, ascending, with their losses and standard errors."""

    depths: NDArray[np.int64]
    losses: Array
    errors: Array

    @property
    def best(self) -> int:
        """Index of the lowest loss."""
        return int(self.losses.argmin())

    def height(self, errors: float) -> Array:
        """Height above the best loss beyond so many standard errors of it, at least 0."""
        joint = np.hypot(self.errors, self.errors[self.best])
        height: Array = np.maximum(0.0, self.losses - self.losses[self.best] - errors * joint)
        return height


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFit:
    """A weighted parabola through three points or more."""

    points: Points
    parabola: Parabola
    solve: Array
    """(3, depths): losses -> coefficients."""
    misfit: Array
    """Per depth, standard deviation of what the parabola leaves unexplained beside the noise."""

    @property
    def opens_upwards(self) -> bool:
        """Whether the parabola has a lowest point."""
        return self.parabola.c2 > 0


def fit_local(points: Points) -> LocalFit:
    """The parabola near the lowest losses; its misfit there is added to the noise."""
    height = CURVE_ERROR * points.height(1)
    scatter = _scatter(points, height)
    misfit = np.hypot(height, scatter)
    solve = _solve(points, misfit)
    c0, c1, c2 = (solve @ points.losses).tolist()
    parabola = Parabola(c0=c0, c1=c1, c2=c2)
    return LocalFit(points=points, parabola=parabola, solve=solve, misfit=misfit)


def draw_losses(
    points: Points, generator: Generator, *, draws: int, degrees_of_freedom: int
) -> Array:
    """(depths, draws): losses as other seeds would have given them.

    Parametric, since resampling two or three seeds understates their spread. The noise is itself an
    estimate from few degrees of freedom, so each draw has its own (the t distribution, by draws).
    """
    known = generator.chisquare(degrees_of_freedom, draws) / degrees_of_freedom
    noise = generator.standard_normal((len(points.depths), draws)) / np.sqrt(known)
    return points.losses[:, None] + points.errors[:, None] * noise


def draw_optima(fit: LocalFit, losses: Array, generator: Generator) -> Array:
    """(draws,): the best depth of each draw, kept inside the tested range.

    Losses are redrawn for the shapes too: `misfit` is what other shapes of a depth would change. A
    draw that opens downwards, or turns outside the range, counts for the end where it is lower.
    """
    shapes = generator.standard_normal(losses.shape) * fit.misfit[:, None]
    _, c1, c2 = fit.solve @ (losses + shapes)
    low, high = np.log(fit.points.depths[[0, -1]])
    end = np.where(c1 * low + c2 * low**2 <= c1 * high + c2 * high**2, low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(c2 > 0, np.clip(-c1 / (2 * c2), low, high), end)
    optima: Array = np.exp(vertex)
    return optima


def whole_depth(depth: float) -> int:
    """The neighbouring whole depth where a parabola in ln depth with this vertex is lower."""
    squared = depth * depth
    below = isqrt(int(squared))
    return max(1, below if squared < below * (below + 1) else below + 1)


def _solve(points: Points, misfit: Array) -> Array:
    """Weighted least squares as a linear map; weights are one over the whole spread."""
    design = np.vander(np.log(points.depths), 3, increasing=True)
    weights = 1 / np.hypot(points.errors, misfit)
    solve: Array = np.linalg.pinv(design * weights[:, None]) * weights
    return solve


def _scatter(points: Points, height: Array) -> float:
    """Standard deviation that near depths have about the parabola beyond noise (Paule-Mandel).

    Near are the depths not clearly worse than the best; with three or fewer nothing can be said,
    and the answer is 0.
    """
    near = points.height(CLEAR) == 0
    spare = int(near.sum()) - 3
    if spare < 1:
        return 0.0

    def excess(scatter: float) -> float:
        misfit = np.hypot(height, scatter)
        fitted = np.vander(np.log(points.depths), 3, increasing=True) @ (
            _solve(points, misfit) @ points.losses
        )
        residuals = (points.losses - fitted) / np.hypot(points.errors, misfit)
        return float(residuals[near] @ residuals[near]) - spare

    low, high = 0.0, float(np.ptp(points.losses))
    if excess(low) <= 0:
        return 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
