"""Loss against depth: two families of curves, and how far noise moves their lowest points.

`a L^-p + b L^q + c` (Alabdulmohsin et al. 2023) has a side for too few layers and one for too many,
each as steep as it is; for p and q near 0 it is a parabola in ln L. It decides. The parabola
itself is the second opinion. Given p and q the first is linear too (variable projection), so every
pair of a grid is fitted exactly and counts by its likelihood: which curve it is, is part of the
doubt.
"""

from dataclasses import dataclass
from itertools import product
from math import exp, isqrt, sqrt

import numpy as np
from numpy.random import Generator

from search.analysis.families import Array, Parabola, Points, PowerCurve, PowerFit

EXPONENTS = tuple(product((0.25, 0.5, 1.0, 2.0, 4.0, 8.0), repeat=2))
"""(p, q) tried, from a parabola's side to a wall: with 8, what one layer lacks against two is gone
with the second. Seen at 20k parameters: one layer 0.2 nats behind, two as good as four."""
CURVE_ERROR = 0.15
"""A loss may differ from the curve by this share of its height above the best, beyond one standard
error: no family holds far from the best. Chosen with `python -m benchmarks.coverage`: at 0 the
steep side drags the lowest point, at 0.5 intervals say little."""
CLEAR = 2
"""Standard errors of a difference from which on one depth is clearly worse than another."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Both families through three points or more."""

    points: Points
    misfit: Array
    """Per depth, standard deviation of what the curves leave unexplained beside the noise."""
    plausible: Array
    """Per pair of `EXPONENTS`, its share of the likelihood."""
    optimum: float
    """Depth where the curves are lowest inside the tested range: mean of its ln over the pairs."""
    power: PowerCurve
    """The likeliest pair."""
    parabola: Parabola

    @property
    def parabola_optimum(self) -> float:
        """Where the parabola is lowest inside the tested range."""
        return self.parabola.lowest(self.points.ends)


@dataclass(frozen=True, slots=True)
class Draws:
    """What other seeds and other shapes would have given."""

    optima: Array
    """(draws,): the best depth, kept inside the tested range."""
    heights: Array
    """(draws, whole depths of the range): loss above the lowest of the draw's curve."""
    dropped: float
    """Share of the draws whose curve has no lowest point inside; they count for the lower end."""


def fit(points: Points) -> Fit:
    """Both families; a depth counts the less the higher it lies above the best."""
    misfit = CURVE_ERROR * points.height(1)
    white = _whitening(points.covariance, misfit)
    fits = [PowerFit(points, white, p, q) for p, q in EXPONENTS]
    surprise = _surprise(points, min(fits, key=lambda own: own.squares[0]), misfit)
    misfit = np.hypot(misfit, surprise)
    white = _whitening(points.covariance, misfit)
    fits = [PowerFit(points, white, p, q) for p, q in EXPONENTS]
    squares = np.array([own.squares[0] for own in fits])
    plausible = np.exp((squares.min() - squares) / 2)
    plausible /= plausible.sum()
    lowest = np.array([own.lowest()[0][0] for own in fits])
    design = white @ np.vander(np.log(points.depths), 3, increasing=True)
    c0, c1, c2 = (np.linalg.pinv(design) @ white @ points.losses).tolist()
    return Fit(
        points=points,
        misfit=misfit,
        plausible=plausible,
        optimum=exp(float(plausible @ lowest)),
        power=fits[int(squares.argmin())].curve(),
        parabola=Parabola(c0=c0, c1=c1, c2=c2),
    )


def draw(found: Fit, generator: Generator, *, draws: int, degrees_of_freedom: int) -> Draws:
    """Nested bootstrap, parametric: each draw has its own noise, losses, shapes and exponents.

    Resampling two or three seeds would understate their spread. The noise is itself an estimate
    from few degrees of freedom, hence the chi square (the t distribution, by draws). `misfit` is
    what other shapes of a depth would change.
    """
    points = found.points
    root = np.linalg.cholesky(points.covariance)
    known = np.sqrt(generator.chisquare(degrees_of_freedom, draws) / degrees_of_freedom)
    noise = root @ generator.standard_normal((len(points.depths), draws)) / known
    shapes = found.misfit[:, None] * generator.standard_normal(noise.shape)
    losses = points.losses[:, None] + noise + shapes
    white = _whitening(points.covariance, found.misfit)
    whole = np.arange(points.depths[0], points.depths[-1] + 1)
    optima, heights = np.empty(draws), np.empty((draws, len(whole)))
    dropped = 0
    chosen = generator.choice(len(EXPONENTS), draws, p=found.plausible)
    for pair in np.unique(chosen):
        mine = chosen == pair
        p, q = EXPONENTS[pair]
        own = PowerFit(points, white, p, q, losses[:, mine])
        optima[mine], inside = own.lowest()
        heights[mine] = own.heights(whole, optima[mine])
        dropped += int((~inside).sum())
    return Draws(np.exp(optima), heights, dropped / draws)


def whole_depth(depth: float) -> int:
    """The neighbouring whole depth where a parabola in ln depth with this vertex is lower."""
    squared = depth * depth
    below = isqrt(int(squared))
    return max(1, below if squared < below * (below + 1) else below + 1)


def _whitening(covariance: Array, misfit: Array) -> Array:
    """Makes losses independent with variance 1: the inverse root of their whole covariance."""
    root = np.linalg.cholesky(covariance + np.diag(misfit**2))
    white: Array = np.linalg.inv(root)
    return white


def _surprise(points: Points, best: PowerFit, misfit: Array) -> float:
    """Standard deviation that near depths have about the best curve beyond what is expected.

    Near are the depths not clearly worse than the best; with three or fewer nothing can be said.
    """
    near = points.height(CLEAR) == 0
    spare = int(near.sum()) - 3
    if spare < 1:
        return 0.0
    curve = best.curve()
    fitted = np.array([curve(depth) for depth in points.depths.tolist()])
    expected = points.errors**2 + misfit**2
    squares = ((points.losses - fitted) ** 2 / expected)[near].sum() / spare
    return sqrt(max(0.0, squares - 1) * float(expected[near].mean()))
