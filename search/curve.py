"""Loss against depth: two families of curves, and how far noise moves their lowest points.

`a L^-p + b L^q + c` (Alabdulmohsin et al. 2023) has a side for too few layers and one for too many,
each as steep as it is; for p and q near 0 it is a parabola in ln L. It decides. The parabola
itself is the second opinion. Given p and q the first is linear too (variable projection), so every
pair of a grid is fitted exactly and counts by its likelihood: which curve it is, is part of the
doubt.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, isqrt, log, sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]

EXPONENTS = tuple(product((0.25, 0.5, 1.0, 2.0, 4.0), repeat=2))
"""(p, q) tried; beyond, a side is either a parabola's or a wall."""
CURVE_ERROR = 0.2
"""A loss may differ from the curve by this share of its height above the best, beyond one standard
error: no family holds far from the best. Chosen with `python -m benchmarks.coverage`: at 0 the
steep side drags the lowest point, at 0.5 intervals say little."""
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
class PowerCurve:
    """`loss = a * z^-p + b * z^q + c` with `z = depth / scale`; `a` and `b` are not negative."""

    a: float
    b: float
    c: float
    p: float
    q: float
    scale: float

    def __call__(self, depth: float) -> float:
        """Loss at a depth, nats per token."""
        z = depth / self.scale
        return float(self.a * z**-self.p + self.b * z**self.q + self.c)


@dataclass(frozen=True, kw_only=True)
class Points:
    """Tested depths, ascending, with their losses and the covariance of these."""

    depths: NDArray[np.int64]
    losses: Array
    covariance: Array

    @cached_property
    def errors(self) -> Array:
        """Standard errors."""
        return np.asarray(np.sqrt(np.diag(self.covariance)), dtype=np.float64)

    @property
    def best(self) -> int:
        """Index of the lowest loss."""
        return int(self.losses.argmin())

    def height(self, errors: float) -> Array:
        """Height above the best loss beyond so many standard errors of the difference, or 0."""
        shared = self.covariance[self.best]
        joint = np.sqrt(np.maximum(0.0, self.errors**2 + shared[self.best] - 2 * shared))
        height: Array = np.maximum(0.0, self.losses - self.losses[self.best] - errors * joint)
        return height

    @property
    def ends(self) -> tuple[float, float]:
        """ln of the shallowest and of the deepest."""
        low, high = np.log(self.depths[[0, -1]]).tolist()
        return low, high


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
        c = self.parabola
        return exp(float(_parabola_lowest(np.array([[c.c0], [c.c1], [c.c2]]), self.points.ends)[0]))


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
    spread = np.hypot(points.errors, misfit)
    fits = [_PowerFit(points, spread, p, q) for p, q in EXPONENTS]
    spread = spread * _surprise(points, min(fits, key=lambda own: own.squares[0]), spread)
    fits = [_PowerFit(points, spread, p, q) for p, q in EXPONENTS]
    squares = np.array([own.squares[0] for own in fits])
    plausible = np.exp((squares.min() - squares) / 2)
    plausible /= plausible.sum()
    lowest = np.array([own.lowest()[0][0] for own in fits])
    c0, c1, c2 = (_parabola_solve(points, spread) @ points.losses).tolist()
    return Fit(
        points=points,
        misfit=np.sqrt(np.maximum(0.0, spread**2 - points.errors**2)),
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
    spread = np.hypot(points.errors, found.misfit)
    whole = np.arange(points.depths[0], points.depths[-1] + 1)
    optima, heights = np.empty(draws), np.empty((draws, len(whole)))
    dropped = 0
    chosen = generator.choice(len(EXPONENTS), draws, p=found.plausible)
    for pair in np.unique(chosen):
        mine = chosen == pair
        p, q = EXPONENTS[pair]
        own = _PowerFit(points, spread, p, q, losses[:, mine])
        optima[mine], inside = own.lowest()
        heights[mine] = own.heights(whole, optima[mine])
        dropped += int((~inside).sum())
    return Draws(np.exp(optima), heights, dropped / draws)


def whole_depth(depth: float) -> int:
    """The neighbouring whole depth where a parabola in ln depth with this vertex is lower."""
    squared = depth * depth
    below = isqrt(int(squared))
    return max(1, below if squared < below * (below + 1) else below + 1)


class _PowerFit:
    """Weighted least squares of one pair of exponents for many draws of losses at once.

    Where a side would be negative it is left out: the curve then falls or rises throughout.
    """

    def __init__(
        self, points: Points, spread: Array, p: float, q: float, losses: Array | None = None
    ) -> None:
        self._ends, self._p, self._q = points.ends, p, q
        # The middle of the range: far from 1, powers of depth would swamp one another.
        self._scale = exp(sum(self._ends) / 2)
        self._weights = 1 / spread
        draws = points.losses[:, None] if losses is None else losses
        self._weighted = draws * self._weights[:, None]
        design = self._design(points.depths)
        self.coefficients, self.squares = self._solve(design, (0, 1, 2))
        self.inside = (self.coefficients[0] > 0) & (self.coefficients[1] > 0)
        if not self.inside.all():
            self._leave_a_side_out(design)

    def _design(self, depths: NDArray[np.int64]) -> Array:
        z = depths / self._scale
        return np.stack([z**-self._p, z**self._q, np.ones_like(z)], axis=1)

    def _solve(self, design: Array, columns: tuple[int, ...]) -> tuple[Array, Array]:
        """Coefficients (3, draws), 0 where left out, and sums of squares (draws,)."""
        weighted = design[:, columns] * self._weights[:, None]
        found = np.zeros((3, self._weighted.shape[1]))
        found[list(columns)] = np.linalg.pinv(weighted) @ self._weighted
        missed = weighted @ found[list(columns)] - self._weighted
        return found, (missed**2).sum(axis=0)

    def _leave_a_side_out(self, design: Array) -> None:
        best = np.full(self.squares.shape, np.inf)
        coefficients = np.empty_like(self.coefficients)
        for columns in ((0, 2), (1, 2), (2,)):
            found, squares = self._solve(design, columns)
            better = (found[:2] >= 0).all(axis=0) & (squares < best)
            coefficients[:, better], best[better] = found[:, better], squares[better]
        self.coefficients = np.where(self.inside, self.coefficients, coefficients)
        self.squares = np.where(self.inside, self.squares, best)

    def lowest(self) -> tuple[Array, NDArray[np.bool_]]:
        """ln of the depth where each curve is lowest in the range, and whether it turns inside."""
        low, high = self._ends
        falling, rising, _ = self.coefficients
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.log(self._p * falling / (self._q * rising)) / (self._p + self._q)
        # A level curve has no lowest point; its middle favours neither end.
        turn = np.where((falling == 0) & (rising == 0), 0.0, turn) + log(self._scale)
        return np.clip(turn, low, high), (low < turn) & (turn < high)

    def heights(self, depths: NDArray[np.int64], lowest: Array) -> Array:
        """(draws, depths): losses above that at `lowest`, given as ln depth."""
        z = np.exp(lowest) / self._scale
        falling, rising, level = self.coefficients
        least = falling * z**-self._p + rising * z**self._q + level
        found: Array = (self._design(depths) @ self.coefficients - least).T
        return found

    def curve(self) -> PowerCurve:
        """The first draw's."""
        a, b, c = self.coefficients[:, 0].tolist()
        return PowerCurve(a=a, b=b, c=c, p=self._p, q=self._q, scale=self._scale)


def _surprise(points: Points, best: _PowerFit, spread: Array) -> float:
    """Factor, at least 1, by which near depths scatter about the best curve beyond their errors.

    Near are the depths not clearly worse than the best; with three or fewer nothing can be said.
    """
    near = points.height(CLEAR) == 0
    spare = int(near.sum()) - 3
    if spare < 1:
        return 1.0
    curve = best.curve()
    fitted = np.array([curve(depth) for depth in points.depths.tolist()])
    squares = ((points.losses - fitted) / spread)[near] ** 2
    return max(1.0, sqrt(squares.sum() / spare))


def _parabola_solve(points: Points, spread: Array) -> Array:
    """Weighted least squares as a linear map: losses -> coefficients."""
    design = np.vander(np.log(points.depths), 3, increasing=True)
    solve: Array = np.linalg.pinv(design / spread[:, None]) / spread
    return solve


def _parabola_lowest(coefficients: Array, ends: tuple[float, float]) -> Array:
    """ln of the depth where each parabola is lowest inside the range."""
    _, c1, c2 = coefficients
    low, high = ends
    end = np.where(c1 * low + c2 * low**2 <= c1 * high + c2 * high**2, low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        lowest: Array = np.where(c2 > 0, np.clip(-c1 / (2 * c2), low, high), end)
    return lowest
