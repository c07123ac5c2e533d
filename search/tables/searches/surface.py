"""A model, with uncertainty, of the loss over depth and all other settings of a table.

Every setting has a smooth effect, every two settings may interact, and each depth may deviate from
the smooth effect of depth. The variance of each effect is learned from the rows, so that useless
effects vanish (automatic relevance determination). High losses say little about the lowest: the
noise may grow with the height above the lowest loss, and the scale of losses is in nats near the
lowest and logarithmic far above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from fathom.search.analysis.curve.posterior import REACH

Array = NDArray[np.float64]
Depths = NDArray[np.float64] | NDArray[np.int64]

DEGREES = 4
"""Highest power of a setting's effect."""
JOINT = 3
"""Highest power of the interaction of depth with another setting; others interact linearly."""
DECAY = 0.5
"""Factor between the prior standard deviations of the effects of one power and the next."""
USUAL = {"effect": 1e-3, "interaction": 2e-5, "deviation": 1e-4}
"""Usual variance of the contribution of a group of terms, as a share of the variance of the
losses."""
WORTH = 1.0
"""Weight of the prior of a group's variance, as a number of terms of the usual variance."""
TAILS = 4.0
"""Degrees of freedom of the noise (Student's t), which allows outliers."""
SMALLEST = 1e-8
"""Smallest variance of the noise, as a share of the variance of the losses."""
STEPS = 60
"""Number of iterations of the fit."""
BEND = 20.0
"""Height above the lowest loss, as a multiple of the median height, from which on the scale is
logarithmic."""


class Warp(NamedTuple):
    """The scale of losses in the model: `bend * log1p((loss - lowest) / bend)`, standardised."""

    lowest: float
    bend: float
    mean: float = 0.0
    deviation: float = 1.0

    def of(self, losses: Array) -> Array:
        """Losses in nats, converted to the model's scale."""
        bent: Array = self.bend * np.log1p((losses - self.lowest) / self.bend)
        return (bent - self.mean) / self.deviation

    def back(self, values: Array) -> Array:
        """Values on the model's scale, converted to losses in nats."""
        bent = values * self.deviation + self.mean
        losses: Array = self.lowest + self.bend * np.expm1(bent / self.bend)
        return losses


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of the model, computed from settings as columns of a design matrix."""

    categories: Sequence[int]
    """Number of categories of each setting; 0 for a setting of numbers. The first setting is
    depth."""
    depths: NDArray[np.int64]
    """Whole depths from the shallowest to the deepest, (depths,)."""

    @cached_property
    def _deviations(self) -> Array:
        """A root of the correlation matrix of the deviations of whole depths, (depths, depths)."""
        x = np.log(self.depths)
        root: Array = np.linalg.cholesky(np.exp(-np.abs(x - x[:, None]) / REACH))
        return root

    def effects(self, points: Array) -> list[Array]:
        """The columns of each setting, (points, columns): one for each category, or for numbers
        powers and a mark of rows without a number."""
        found = []
        for column, values in zip(points.T, self.categories, strict=True):
            lacking = np.isnan(column)
            if values:
                there = np.eye(values)[np.nan_to_num(column).astype(np.int64)] - 1 / values
                found.append(there)
                continue
            powers = legvander(np.where(lacking, 0.0, column), DEGREES)[:, 1:]
            powers = powers * DECAY ** np.arange(DEGREES) * ~lacking[:, None]
            found.append(np.column_stack([powers, lacking]))
        return found

    def groups(self, points: Array, depths: Depths) -> Iterator[tuple[str, Array]]:
        """Yields the kind and the columns of each group of terms at points; `depths` is in
        layers."""
        yield "mean", np.ones((len(points), 1))
        effects = self.effects(points)
        for effect in effects:
            yield "effect", effect
        yield "deviation", self._deviations[np.searchsorted(self.depths, depths)]
        first = [
            effect if values else effect[:, :JOINT]
            for effect, values in zip(effects, self.categories, strict=True)
        ]
        for place, (one, other) in enumerate(combinations(first, 2)):
            if place >= len(first) - 1:  # depth, whose interactions have a bend, is in none
                one, other = (
                    part if part.shape[1] != JOINT else part[:, :1] for part in (one, other)
                )
            product = one[:, :, None] * other[:, None, :]
            yield "interaction", product.reshape(len(points), -1)


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The fitted model of the loss."""

    terms: Terms
    warp: Warp
    mean: Array
    """Expected coefficient of each term, (terms,)."""
    root: Array
    """A root of the covariance of the coefficients, (terms, terms)."""
    noise: float
    """Standard deviation of the noise that settings do not explain, nats near the lowest loss."""
    freedom: float
    """Degrees of freedom of `noise`."""

    def design(self, points: Array, depths: Depths) -> Array:
        """The terms at points, (points, terms)."""
        return np.concatenate([columns for _, columns in self.terms.groups(points, depths)], axis=1)

    def expected(self, points: Array, depths: Depths) -> Array:
        """Expected loss at points, on the scale of `warp`, (points,)."""
        found: Array = self.design(points, depths) @ self.mean
        return found

    def draws(
        self, points: Array, depths: Depths, number: int, generator: np.random.Generator
    ) -> Array:
        """Draws of the loss at points, (number, points), nats."""
        design = self.design(points, depths)
        normal = generator.standard_normal((number, len(self.mean)))
        normal *= np.sqrt(self.freedom / generator.chisquare(self.freedom, (number, 1)))
        return self.warp.back(design @ self.mean + normal @ (design @ self.root).T)


def fit_surface(terms: Terms, points: Array, depths: Depths, losses: Array) -> Surface:
    """The model fitted to finite losses, nats, at points; `depths` is in layers."""
    lowest = float(losses.min())
    warp = Warp(lowest, BEND * max(float(np.median(losses)) - lowest, 1e-3))
    bent = warp.of(losses)
    warp = warp._replace(mean=float(bent.mean()), deviation=max(float(bent.std()), 1e-9))
    values = warp.of(losses)
    kinds, columns = zip(*terms.groups(points, depths), strict=True)
    design = np.concatenate(columns, axis=1)
    sizes = np.array([group.shape[1] for group in columns])
    usual = np.array(
        [
            USUAL.get(kind, 1e6) / max(float((group**2).sum(axis=1).mean()), 1e-9)
            for kind, group in zip(kinds, columns, strict=True)
        ]
    )
    mean, root, noise, freedom = _fit(design, values, sizes, usual)
    return Surface(
        terms=terms, warp=warp, mean=mean, root=root, noise=noise * warp.deviation,
        freedom=freedom,
    )  # fmt: skip


def _fit(
    design: Array, values: Array, sizes: NDArray[np.int64], usual: Array
) -> tuple[Array, Array, float, float]:
    """Mean of the coefficients, a root of their covariance, the noise and its degrees of freedom,
    by expectation maximisation. `sizes` are the numbers of terms of the groups, `usual` the prior
    variances of their coefficients."""
    variances, noise = usual, np.array([0.1, 0.01])
    height, weights = np.zeros(len(values)), np.ones(len(values))
    starts = np.cumsum(sizes) - sizes
    for _ in range(STEPS):
        each = np.repeat(variances, sizes)
        parts = np.stack([np.ones(len(values)), height**2])  # of the variance of each row
        expected = noise @ parts
        mean, covariance = _coefficients(design, values, weights / expected, each)
        fitted = design @ mean
        squares = (values - fitted) ** 2 + np.einsum("ij,ij->i", design @ covariance, design)
        weights = (TAILS + 1) / (TAILS + squares / expected)
        gain = (
            parts @ (weights * squares / expected**2) / np.maximum(parts @ (1 / expected), SMALLEST)
        )
        noise = np.maximum(noise * np.sqrt(gain), SMALLEST)
        height = fitted - fitted.min()
        second = np.add.reduceat(mean**2 + np.diag(covariance), starts)
        variances = (second + WORTH * usual) / (sizes + WORTH)
    used = len(mean) - float((np.diag(covariance) / each).sum())
    root: Array = np.asarray(np.linalg.cholesky(covariance))
    return mean, root, sqrt(noise[0]), max(len(values) - used, 1.0)


def _coefficients(
    design: Array, values: Array, precisions: Array, variances: Array
) -> tuple[Array, Array]:
    """Mean and covariance of the coefficients, given the precision of each value and the prior
    variances."""
    weighed = design * precisions[:, None]
    covariance: Array = np.asarray(np.linalg.inv(design.T @ weighed + np.diag(1 / variances)))
    return covariance @ (weighed.T @ values), covariance
