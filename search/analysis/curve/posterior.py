"""The posterior of the loss at every whole depth of a budget, from which its answer is read.

The loss over depth is a curve `a L^-p + b L^q + c` plus a deviation, such as a notch, a step or a
second minimum. The deviation is as large as the measurements require, and 0 where curves explain
them. The noise between seeds is estimated from repeats, from how far depths lie off the curve, and
from its usual size. Each draw has a loss for every whole depth, in agreement with the measurements,
so the share of draws in which a depth is lowest is the probability that it is the best.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import logsumexp

from fathom.search.analysis.curve_families import EXPONENTS, Array, DepthPoints, PowerFit
from fathom.search.analysis.losses.noise import SMALLEST_NOISE, USUAL_NOISE, Repeats

ROUGHNESS = {
    (0.0, 0.05): 0.55,
    (0.002, 0.05): 0.15,
    (0.006, 0.05): 0.06,
    (0.0, 0.3): 0.14,
    (0.004, 0.3): 0.06,
    (0.012, 0.3): 0.04,
}
"""Prior of the deviation from the curve: (standard deviation of its rough part, nats; that of its
smooth part, as a share of the height above the best) -> probability. Real text shows a rough part
of at most 0.002 and a share of 0.05 to 0.4; the rest was chosen on simulated searches."""
REACH = 0.4
"""Distance in ln depth over which the correlation of two rough deviations falls to 1/e."""
FAR_REACH = 1.0
"""Distance in ln depth over which the correlation of two smooth deviations falls to 1/e."""
LOW = 0.005
"""Height above the best, nats, from which on heights between tested depths are interpolated
geometrically, as a curve far above its minimum is a power of depth."""
OWN = 0.5
"""Share of the variance of a rough deviation that is independent between depths."""
NOISES = np.linspace(-2.5, 2.5, 9)
"""Sizes of the noise that are tried, in standard deviations of ln noise given the prior and
repeats."""
RIVALS = 3
"""Largest number of depths that are named as possibly better than the answer."""
FEWEST = 3
"""Fewest points for a posterior: as many as a curve has coefficients."""
DRAWS = 4000
"""Number of draws of the losses; a probability of 0.05 then has a standard error of about 0.003."""
TOGETHER = 16
"""Number of draws with one setting and one pair of exponents that are computed together."""


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Equally likely draws of the loss at every whole depth of the tested range."""

    depths: NDArray[np.int64]
    """Whole depths that can be built, from the shallowest tested one to the deepest, (depths,)."""
    losses: Array
    """Loss of each depth in each draw, nats; (draws, depths)."""
    lowest: Array
    """Depth where the curve of each draw is lowest, before rounding, (draws,). If the deviation
    makes another whole depth the best, it is the nearest point that rounds to that depth."""
    noise: float
    """Standard deviation of the loss between seeds, nats: the mean over the draws."""
    points: DepthPoints
    """The measured losses with which the draws agree."""
    repeats: Repeats
    """The noise between seeds as repeats show it."""

    def at(self, depths: "int | NDArray[np.int64]") -> Any:
        """Index of each of these depths in the range."""
        return np.searchsorted(self.depths, depths)

    def in_steps(self, step: int) -> "Posterior":
        """The posterior of depths that are multiples of `step`, as other depths can't be built."""
        built = self.depths % step == 0
        return replace(self, depths=self.depths[built], losses=self.losses[:, built])

    @cached_property
    def regrets(self) -> Array:
        """Loss of each depth above the lowest loss in the same draw, nats; (draws, depths)."""
        regrets: Array = self.losses - self.losses.min(axis=1, keepdims=True)
        return regrets

    @cached_property
    def best(self) -> NDArray[np.int64]:
        """The best whole depth of each draw, (draws,)."""
        best: NDArray[np.int64] = self.depths[self.losses.argmin(axis=1)]
        return best

    @cached_property
    def probabilities(self) -> Array:
        """Probability of each whole depth to be the best, (depths,)."""
        counts = np.bincount(self.at(self.best), minlength=len(self.depths))
        return counts / len(self.best)

    def mean_loss(self, depth: int) -> float:
        """Expected loss of a depth of the range, nats."""
        return float(self.losses[:, self.at(depth)].mean())

    def cheapest(self, depths: NDArray[np.int64]) -> int:
        """The one of `depths` with the lowest expected regret; all must be in the range."""
        return int(depths[self.expected_cost(depths).argmin()])

    def expected_cost(self, depths: "int | NDArray[np.int64]") -> Any:
        """Expected loss of depths of the range above the best, nats."""
        return self.regrets[:, self.at(depths)].mean(axis=0)

    def chance_of_cost(self, depth: int, nats: float) -> float:
        """Probability that a depth of the range has a loss over `nats` above the best."""
        return float((self.regrets[:, self.at(depth)] > nats).mean())

    def closeness(self, nats: float) -> Array:
        """Probability that the loss of each whole depth is within `nats` of the best, (depths,)."""
        close: Array = (self.regrets <= nats).mean(axis=0)
        return close

    def rivals(self, depth: int, nats: float) -> tuple[int, ...]:
        """The depths that are most often the best in draws in which `depth` costs over `nats`, the
        likeliest first, at most `RIVALS`."""
        best = self.best[self.regrets[:, self.at(depth)] > nats]
        depths, counts = np.unique(best, return_counts=True)
        return tuple(depths[np.argsort(-counts, kind="stable")][:RIVALS].tolist())

    def worst(self, first: int, last: int) -> float:
        """Upper 95 % bound, nats, on the loss above the best of the worst depth from `first` to
        `last`."""
        inside = self.regrets[:, self.at(first) : self.at(last) + 1]
        return float(np.quantile(inside.max(axis=1), 0.95))


def together(posteriors: Sequence[Posterior]) -> Posterior:
    """One posterior with the draws of several equally likely posteriors of the same depths."""
    return replace(
        posteriors[0],
        losses=np.concatenate([posterior.losses for posterior in posteriors]),
        lowest=np.concatenate([posterior.lowest for posterior in posteriors]),
        noise=float(np.mean([posterior.noise for posterior in posteriors])),
    )


_Draws = tuple[Array, Array]
"""Losses, (draws, depths), and the depth where each curve is lowest, (draws,)."""


@dataclass(frozen=True)
class _Setting:
    """One roughness and one noise of the prior, with the matrices that follow from them."""

    points: DepthPoints
    noise: float
    whole: NDArray[np.int64]
    """Whole depths from the shallowest point to the deepest, (depths,)."""
    deviations: Array
    """A root of the covariance of the deviations of the whole depths, (depths, depths), nats."""

    @cached_property
    def at(self) -> NDArray[np.int64]:
        """Index of each point among the whole depths, (points,)."""
        at: NDArray[np.int64] = self.points.depths - self.points.depths[0]
        return at

    @cached_property
    def errors(self) -> Array:
        """A root of the covariance of the errors of the losses, (points, points), nats."""
        return _root(self.points.covariance_for(self.noise))

    @cached_property
    def white(self) -> Array:
        """The inverse root of the covariance of measured losses about the curve, (points,
        points)."""
        deviations = self.deviations[self.at]
        measured = self.errors @ self.errors.T + deviations @ deviations.T
        white: Array = np.linalg.inv(np.linalg.cholesky(measured))
        return white

    @cached_property
    def correction(self) -> Array:
        """Gain matrix, (depths, points): the expected deviation from the curve at a whole depth for
        each nat by which a point lies above the curve."""
        gain: Array = self.deviations @ self.deviations[self.at].T @ self.white.T @ self.white
        return gain

    def log_likelihoods(self) -> Array:
        """Log likelihood of each pair of exponents, (pairs,), with the coefficients integrated out
        under a flat prior."""
        fits = PowerFit(self.points, self.white, EXPONENTS)
        design = fits.design(self.points.depths)
        # Measured in nats between the tested depths, so that no exponent is preferred.
        design[..., :2] /= np.ptp(design[..., :2], axis=1, keepdims=True)
        columns = self.white @ design
        determinant = np.linalg.slogdet(np.swapaxes(columns, 1, 2) @ columns)[1]
        found: Array = np.log(np.diag(self.white)).sum() - determinant / 2 - fits.squares[:, 0] / 2
        return found

    def before(self, generator: Generator, draws: int) -> tuple[Array, Array]:
        """Draws from the prior: deviations of the whole depths, (depths, draws), and errors of the
        measured losses, (points, draws), nats."""
        deviations = self.deviations @ generator.standard_normal((len(self.whole), draws))
        return deviations, self.errors @ generator.standard_normal((len(self.at), draws))


def find_posterior(
    points: DepthPoints, repeats: Repeats, generator: Generator, *, draws: int = DRAWS
) -> Posterior:
    """The posterior of three points or more; reproducible for a given generator."""
    settings, weights = _settings(points, repeats)
    cells, counts = allotted(weights, draws)
    chosen = [settings[cell // len(EXPONENTS)] for cell in cells]
    pairs = [EXPONENTS[cell % len(EXPONENTS)] for cell in cells]
    losses, lowest = _draw(chosen, pairs, counts, generator)
    depths = chosen[0].whole
    return Posterior(
        depths=depths,
        losses=losses,
        lowest=_beside(depths[losses.argmin(axis=1)], lowest),
        noise=float(np.average([setting.noise for setting in chosen], weights=counts)),
        points=points,
        repeats=repeats,
    )


def _settings(points: DepthPoints, repeats: Repeats) -> tuple[list[_Setting], Array]:
    """Settings of every roughness with every noise, and the probability of each setting with each
    pair of exponents, (settings * pairs,)."""
    whole = np.arange(points.depths[0], points.depths[-1] + 1)
    roughnesses = [(_deviations(points, *sizes), log(p)) for sizes, p in ROUGHNESS.items()]
    settings, logs = [], []
    for noise, log_noise in noises(repeats):
        for deviations, log_prior in roughnesses:
            setting = _Setting(points, noise, whole, deviations)
            settings.append(setting)
            logs.append(setting.log_likelihoods() + log_noise + log_prior)
    weights = np.concatenate(logs)
    return settings, np.exp(weights - logsumexp(weights))


def _deviations(points: DepthPoints, rough: float, share: float) -> Array:
    """A root of the covariance of the whole depths' deviations, (depths, depths), nats: the sum of
    a rough part, and a smooth part with a `share` of the height above the best."""
    x = np.log(np.arange(points.depths[0], points.depths[-1] + 1))
    apart = np.abs(x - x[:, None])
    logs = np.interp(x, np.log(points.depths), np.log(points.height(1) + LOW))
    height = np.exp(logs) - LOW
    alike = (1 - OWN) * np.exp(-apart / REACH) + OWN * np.eye(len(x))
    smooth = np.outer(height, height) * np.exp(-apart / FAR_REACH)
    return _root(rough**2 * alike + share**2 * smooth)


def noises(repeats: Repeats) -> Iterator[tuple[float, float]]:
    """Yields each size of the noise to try, nats, with its log probability by the prior and
    repeats."""
    freedom, measured = repeats.degrees_of_freedom, log(max(repeats.noise, SMALLEST_NOISE))
    mean, deviation = repeats.ln_noise
    for x in (mean + deviation * NOISES).tolist():
        by_repeats = freedom * (measured - x - exp(2 * (measured - x)) / 2)
        off = (x - log(USUAL_NOISE[0])) / USUAL_NOISE[1]
        yield exp(x), by_repeats - off**2 / 2


def allotted(weights: Array, draws: int) -> tuple[list[int], list[int]]:
    """Returns the cells that get draws, in proportion to their weights, and the number of draws of
    each (systematic resampling)."""
    chosen = np.searchsorted(np.cumsum(weights), (np.arange(draws) + 0.5) / draws)
    cells, counts = np.unique(np.minimum(chosen, len(weights) - 1), return_counts=True)
    return cells.tolist(), counts.tolist()


def _draw(
    settings: Sequence[_Setting],
    pairs: Sequence[tuple[float, float]],
    counts: Sequence[int],
    generator: Generator,
) -> _Draws:
    """Draws of the losses of all whole depths, and of the lowest point of the curve; `counts` are
    the numbers of draws for each setting and pair of exponents.

    By Matheron's rule: a draw from the prior is corrected by its difference from the measurements.
    """
    points, at, whole = settings[0].points, settings[0].at, settings[0].whole
    before = [s.before(generator, count) for s, count in zip(settings, counts, strict=True)]
    deviations, errors = (np.concatenate(part, axis=1) for part in zip(*before, strict=True))
    left = points.losses[:, None] - deviations[at] - errors
    cells, places, own = _rows(counts)
    curves = PowerFit(
        points,
        np.stack([setting.white for setting in settings])[cells],
        np.array(pairs)[cells].tolist(),
        np.moveaxis(left[:, places], 0, 1),
    )
    losses = curves.losses(whole)
    corrections = np.stack([setting.correction for setting in settings])[cells]
    missed = np.moveaxis(left[:, places], 0, -1) - losses[..., at]
    losses += deviations.T[places] + missed @ np.swapaxes(corrections, 1, 2)
    return losses[own], np.exp(curves.lowest()[0][own])


def _rows(counts: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Draws arranged in rows of `TOGETHER` draws of one cell: the cell of each row, (rows,), the
    index of each draw, (rows, TOGETHER), and False where a draw only fills up a cell's last row."""
    rows = -(-np.array(counts) // TOGETHER)
    cells = np.repeat(np.arange(len(counts)), rows)
    first = np.repeat(np.cumsum(rows) - rows, rows)
    inside = (np.arange(len(cells)) - first)[:, None] * TOGETHER + np.arange(TOGETHER)
    ends = np.array(counts)[cells][:, None]
    starts = (np.cumsum(counts) - counts)[cells][:, None]
    return cells, starts + np.minimum(inside, ends - 1), inside < ends


def _beside(depths: NDArray[np.int64], lowest: Array) -> Array:
    """The lowest points, each moved as little as needed to round to its element of `depths`."""
    moved: Array = np.clip(lowest, np.sqrt(depths * (depths - 1)), np.sqrt(depths * (depths + 1)))
    return moved


def _root(covariance: Array) -> Array:
    """A matrix whose product with its transpose is the covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
