"""The two families of curves of loss against depth, and the points that they are fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SIDES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
EXPONENTS = tuple((p, q) for p in SIDES for q in SIDES)
"""Pairs (p, q) that are tried. Either side of the lowest point may be as gentle as a parabola or
very steep: at 20k parameters, one layer was 0.2 nats worse than two, and two were as good as
four."""


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

    def lowest(self, ends: tuple[float, float]) -> float:
        """Depth of the parabola's lowest point between two ends, which are given as ln depth."""
        if self.c2 > 0:
            return exp(min(max(-self.c1 / (2 * self.c2), ends[0]), ends[1]))
        return min(exp(ends[0]), exp(ends[1]), key=self)


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
class DepthPoints:
    """Tested depths, ascending, with their losses and the covariance of the losses."""

    depths: NDArray[np.int64]
    losses: Array
    covariance: Array
    noise: float = 0.0
    """Noise between seeds, nats, with which `covariance` was computed."""
    by_seeds: Array | None = None
    """The part of the covariance due to seeds, for a noise of 1; None where it is not known."""

    def covariance_for(self, noise: float) -> Array:
        """Covariance of the losses for another noise between seeds, nats."""
        if self.by_seeds is None:
            return self.covariance
        return self.covariance + (noise**2 - self.noise**2) * self.by_seeds

    @cached_property
    def errors(self) -> Array:
        """Standard errors of the losses, (depths,), nats."""
        return np.asarray(np.sqrt(np.diag(self.covariance)), dtype=np.float64)

    @property
    def best(self) -> int:
        """Index of the lowest loss."""
        return int(self.losses.argmin())

    def at(self, places: NDArray[np.intp]) -> "DepthPoints":
        """The points with these indices, in this order."""
        depths, losses = self.depths[places], self.losses[places]
        square = np.ix_(places, places)
        by_seeds = None if self.by_seeds is None else self.by_seeds[square]
        covariance = self.covariance[square]
        return replace(self, depths=depths, losses=losses, covariance=covariance, by_seeds=by_seeds)

    def height(self, errors: float) -> Array:
        """Height of each loss above the lowest one, minus `errors` standard errors of their
        difference, in nats, (depths,); 0 where that is negative."""
        joint = self.joint_errors[self.best]
        height: Array = np.maximum(0.0, self.losses - self.losses[self.best] - errors * joint)
        return height

    @cached_property
    def joint_errors(self) -> Array:
        """Standard errors of the differences between losses, (depths, depths), nats."""
        variance = self.errors**2
        joint = variance + variance[:, None] - 2 * self.covariance
        return np.asarray(np.sqrt(np.maximum(0.0, joint)), dtype=np.float64)

    @property
    def ends(self) -> tuple[float, float]:
        """ln of the shallowest and of the deepest tested depth."""
        low, high = np.log(self.depths[[0, -1]]).tolist()
        return low, high


class PowerFit:
    """Generalised least squares of many pairs of exponents, for many draws of losses, at once.

    Arrays are (pairs, draws), with a further dimension of 3 coefficients in between or of depths at
    the end. `white` and `losses` may have a first dimension of pairs, if they differ between pairs.
    A side with a negative coefficient is left out: the curve then only falls or only rises.
    """

    def __init__(
        self,
        points: DepthPoints,
        white: Array,
        exponents: Sequence[tuple[float, float]],
        losses: Array | None = None,
    ) -> None:
        self._ends = points.ends
        self._p, self._q = np.array(exponents, dtype=np.float64).T[..., None]
        # The middle of the range: far from 1, powers of depth would swamp one another.
        self._scale = exp(sum(self._ends) / 2)
        design = white @ self.design(points.depths)
        weighted = white @ (points.losses[:, None] if losses is None else losses)
        weighted = np.broadcast_to(weighted, (len(design), *weighted.shape[-2:]))
        self.coefficients, self.squares = _solve(design, weighted, (0, 1, 2))
        self.inside = (self.coefficients[:, 0] > 0) & (self.coefficients[:, 1] > 0)
        some = np.flatnonzero(~self.inside.all(axis=1))
        if some.size:
            self._leave_a_side_out(some, design[some], weighted[some])

    def design(self, depths: NDArray[np.int64]) -> Array:
        """The terms of each curve at the depths, (pairs, depths, 3)."""
        z = depths / self._scale
        falling, rising = z**-self._p, z**self._q
        return np.stack([falling, rising, np.ones_like(falling)], axis=-1)

    def _leave_a_side_out(self, some: NDArray[np.intp], design: Array, weighted: Array) -> None:
        inside, best = self.inside[some], np.full(self.squares[some].shape, np.inf)
        coefficients = np.empty_like(self.coefficients[some])
        for columns in ((0, 2), (1, 2), (2,)):
            found, squares = _solve(design, weighted, columns)
            better = (found[:, :2] >= 0).all(axis=1) & (squares < best)
            coefficients = np.where(better[:, None], found, coefficients)
            best = np.where(better, squares, best)
        self.coefficients[some] = np.where(inside[:, None], self.coefficients[some], coefficients)
        self.squares[some] = np.where(inside, self.squares[some], best)

    def lowest(self) -> tuple[Array, NDArray[np.bool_]]:
        """ln of the depth where each curve is lowest in the tested range, and True if its minimum
        lies inside the range; (pairs, draws)."""
        low, high = self._ends
        falling, rising = self.coefficients[:, 0], self.coefficients[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.log(self._p * falling / (self._q * rising)) / (self._p + self._q)
        # A level curve has no lowest point; its middle favours neither end.
        turn = np.where((falling == 0) & (rising == 0), 0.0, turn) + log(self._scale)
        return np.clip(turn, low, high), (low < turn) & (turn < high)

    def heights(self, depths: NDArray[np.int64], lowest: Array) -> Array:
        """Losses minus the loss at `lowest`, which is in ln depth; (pairs, draws, depths)."""
        z = np.exp(lowest) / self._scale
        falling, rising, level = np.moveaxis(self.coefficients, 1, 0)
        least = falling * z**-self._p + rising * z**self._q + level
        found: Array = self.losses(depths) - least[..., None]
        return found

    def losses(self, depths: NDArray[np.int64]) -> Array:
        """Losses at the depths; (pairs, draws, depths)."""
        found: Array = np.swapaxes(self.design(depths) @ self.coefficients, 1, 2)
        return found

    @property
    def likeliest(self) -> int:
        """Index of the pair of exponents that fits the first draw best; the first one if several
        fit equally well, as many pairs fit three points exactly."""
        return int(self.squares[:, 0].round(9).argmin())

    def curve(self) -> PowerCurve:
        """The curve of the likeliest pair of exponents."""
        a, b, c = self.coefficients[self.likeliest, :, 0].tolist()
        p, q = (float(side[self.likeliest, 0]) for side in (self._p, self._q))
        return PowerCurve(a=a, b=b, c=c, p=p, q=q, scale=self._scale)


def _solve(design: Array, weighted: Array, columns: tuple[int, ...]) -> tuple[Array, Array]:
    """The coefficients (0 for a term that is left out) and the sums of squared residuals."""
    column_pair = design[..., columns]
    found = np.zeros((len(design), 3, weighted.shape[-1]))
    found[:, columns] = np.linalg.pinv(column_pair) @ weighted
    missed = column_pair @ found[:, columns] - weighted
    return found, (missed**2).sum(axis=1)
