"""Estimates of the loss at each depth from the finished trials of one budget, and of the best loss.

Losses of seeds are combined into losses of shapes, and these into losses of depths. A shape's loss
is the mean over its seeds at its best rate; a depth's loss is that of its shapes, corrected to the
budget's exact parameters and one common feed-forward ratio. Every estimate is a weighted sum of
losses: its error follows from the weights.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fathom.models.shape import Shape
from fathom.search.analysis.losses.noise import (
    STATED_NOISE,
    UNKNOWN,
    Repeats,
    pooled,
    rounding_error,
)
from fathom.search.analysis.losses.rates import (
    brackets,
    losses_by_seed,
    mean_at_best,
)
from fathom.search.analysis.losses.stalls import Stalls, without_stalled
from fathom.search.records import Scale, Stage, TrialRecord

Array = NDArray[np.float64]

PARAMS_SLOPE = (-0.2, 0.1)
"""Prior mean and standard deviation of the slope of loss, in nats per unit of ln(parameters). The
Gemstones models give -0.36 at 0.1B to -0.14 at 2B. For sizes within 0.5 % it hardly matters."""
RATIO_SLOPE = (0.0, 0.03)
"""Prior mean and standard deviation of the slope of loss, in nats for each unit of ln(ff_ratio): a
few hundredths up or down."""
RATIO_CURVATURE = (0.01, 0.02)
"""Prior mean and standard deviation of the curvature, in nats for each squared unit of
ln(ff_ratio): there is a best ratio, and it matters little (Kaplan et al. 2020: within a factor of 2
of the best the loss changes by well under 1 %)."""
FAR = 0.5
"""Misfit of a shape to the effects of size and ratio, as a share of its height above the best,
since these effects are estimated near the best. A wider model gained 0.16 nats at depth 1, but 0.03
at depth 3."""
KNOWN_NOISE = 3
"""Degrees of freedom that the noise has at least in tests and intervals."""
NO_ERRORS: Mapping[Shape, float] = {}
"""No errors of losses besides the noise between seeds."""
CLOSE = 1e-6
"""Excess of the sum of squared residuals at which the fit of a variance has converged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthEstimate:
    """The estimated loss of one depth at the horizon."""

    depth: int
    loss: float
    """Nats per token, corrected to the exact parameters of the budget and the common feed-forward
    ratio."""
    standard_error: float
    trials: int
    shape: Shape
    """The best shape of this depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthEstimates:
    """Estimates of all depths with a finished trial, ascending, and the noise between seeds."""

    noise: float
    """Standard deviation of the loss between seeds, nats, by repeats and the prior, or as
    stated."""
    repeats: Repeats
    depths: tuple[DepthEstimate, ...] = ()
    covariance: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Covariance of the errors of the losses; (depths, depths), squared nats."""
    by_seeds: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """The part of the covariance that is due to seeds, for a noise of 1; (depths, depths)."""
    params_slope: float = PARAMS_SLOPE[0]
    """Slope by which the losses were corrected for size, nats for each unit of ln(parameters)."""
    best_ratio: float = 1.0
    """Feed-forward ratio, in the range of the finished trials, with the lowest upper bound of loss
    (two standard errors); the typical ratio where no other is clearly better."""


@dataclass(frozen=True, slots=True)
class ShapeLoss:
    """The mean loss over the seeds of a shape in one stage."""

    stage: Stage
    shape: Shape
    log_params: float
    """ln(parameters / budget)."""
    loss: float
    variance: float
    """Variance of the loss due to the noise between seeds, squared nats."""
    trials: int
    error: float = 0.0
    """Standard error of the loss besides the noise, nats."""


def estimate_depths(
    records: Sequence[TrialRecord],
    noise: float | None = None,
    errors: Mapping[Shape, float] = NO_ERRORS,
) -> DepthEstimates:
    """The depth estimates of one budget's records; `noise` between seeds, nats, is measured if
    None, and `errors` are further standard errors of the losses of shapes, nats.

    A depth with confirmation trials is estimated from the shapes with such trials, since
    exploration trials were selected for low losses. Its other trials help to estimate the effects
    of ratio and size.
    """
    kept = without_stalled(records)
    repeats = trials_noise(kept, noise)
    losses = list(shape_losses(kept, repeats.likely_noise))
    return combine_shapes([replace(s, error=errors.get(s.shape, 0.0)) for s in losses], repeats)


def combine_shapes(shapes: Sequence[ShapeLoss], repeats: Repeats = UNKNOWN) -> DepthEstimates:
    """The depth estimates of shapes whose losses are known."""
    noise = repeats.likely_noise
    if not shapes:
        return DepthEstimates(noise=noise, repeats=repeats)
    model = _Regression(shapes)
    kept = [index for index, group in enumerate(model.groups) if group[1] is model.stage[group[0]]]
    return DepthEstimates(
        noise=noise,
        repeats=repeats,
        depths=tuple(model.depth(index) for index in kept),
        covariance=model.covariance[np.ix_(kept, kept)],
        by_seeds=model.by_seeds[np.ix_(kept, kept)] / noise**2,
        params_slope=float(model.slopes[0]),
        best_ratio=model.best_ratio(),
    )


def seed_noise(records: Sequence[TrialRecord], stalls: Stalls | None = None) -> Repeats:
    """Returns the noise between seeds, from finished trials that differ only in the seed; the noise
    is at least the rounding error of the losses."""
    return _noise_among(without_stalled(records, stalls))


def trials_noise(kept: Sequence[TrialRecord], noise: float | None) -> Repeats:
    """The noise between seeds: `noise`, nats, if stated, otherwise by repeats among `kept`, the
    trials that did not stall."""
    return _noise_among(kept) if noise is None else Repeats(noise, STATED_NOISE)


def _noise_among(kept: Sequence[TrialRecord]) -> Repeats:
    """The noise between seeds by repeats among trials that did not stall."""
    losses: dict[tuple[Shape, Scale], list[float]] = defaultdict(list)
    for record in kept:
        if record.loss is not None:
            losses[record.spec.shape, record.spec.scale].append(record.loss)
    repeats = pooled(losses.values())
    if not repeats.degrees_of_freedom:
        return repeats
    hidden = rounding_error(list(chain.from_iterable(losses.values())))
    return replace(repeats, noise=max(hidden, repeats.noise))


def shape_losses(records: Sequence[TrialRecord], noise: float) -> Iterator[ShapeLoss]:
    """Yields the mean loss of each shape with a finished trial, at its best learning rate and
    weight decay, in order of depth.

    A shape without trials at several rates or decays gets the gain of the nearest depths with such
    trials.
    """
    seeds = losses_by_seed(records)
    finished = [record for record in records if record.loss is not None]
    confirmed = {r.spec.shape for r in finished if r.spec.stage is Stage.CONFIRM}
    first = {record.spec.shape: record for record in reversed(records)}
    known = brackets(records)
    for shape in sorted(seeds, key=lambda shape: shape.depth):
        by_seed = list(seeds[shape].values())
        loss, weight = mean_at_best(by_seed, shape.depth, known)
        stage = Stage.CONFIRM if shape in confirmed else Stage.EXPLORE
        trials = sum(map(len, by_seed))
        yield ShapeLoss(stage, shape, first[shape].ln_size, loss, noise**2 * weight, trials)


class _Regression:
    """A generalised least-squares fit: loss of a shape = a level for each depth + effects of size
    and ratio. The three effects have priors, since a handful of shapes can't determine them.
    """

    def __init__(self, shapes: Sequence[ShapeLoss]) -> None:
        self.shapes = shapes
        confirmed = {s.shape.depth for s in shapes if s.stage is Stage.CONFIRM}
        depths = dict.fromkeys(s.shape.depth for s in shapes)
        self.stage = {d: Stage.CONFIRM if d in confirmed else Stage.EXPLORE for d in depths}
        self.groups = list(dict.fromkeys((s.shape.depth, s.stage) for s in shapes))
        # Depths are compared at the ratio at which the best of them were measured: little is moved.
        leading = [s for s in shapes if s.stage is Stage.CONFIRM] or shapes
        self._centre = float(np.mean([s.shape.ln_ff_ratio for s in leading]))
        self._losses = np.array([s.loss for s in shapes])
        self._design = np.array([self._row(s) for s in shapes])
        noise = np.array([s.variance for s in shapes])
        above = self._losses - self._losses.min() - 2 * np.sqrt(noise)
        local = noise + (FAR * np.maximum(0.0, above)) ** 2
        besides = np.array([s.error**2 for s in shapes])
        self.between = self._between(local + besides)
        self.slopes, self._slope_covariance = self._fit_slopes(local + besides + self.between)
        self.levels, self.covariance, self.by_seeds = self._fit_levels(noise, besides)

    def depth(self, group: int) -> DepthEstimate:
        """The estimate of a group, the shapes of one depth and stage; its best shape is the one
        with the lowest loss after shrinkage towards the fit."""
        depth, stage = self.groups[group]
        shapes = [s for s in self.shapes if (s.shape.depth, s.stage) == (depth, stage)]
        return DepthEstimate(
            depth=depth,
            loss=float(self.levels[group]),
            standard_error=sqrt(self.covariance[group, group]),
            trials=sum(s.trials for s in shapes),
            shape=min(shapes, key=self._shrunk_loss).shape,
        )

    def best_ratio(self) -> float:
        """The feed-forward ratio, in the range of the finished shapes, with the lowest upper bound
        of the parabola in ln ratio."""
        ratios = self._design[:, -2]
        tried = np.linspace(ratios.min(), ratios.max(), 101)
        powers = np.stack([tried, tried**2])
        error = np.sqrt(np.einsum("kn,kl,ln->n", powers, self._slope_covariance[1:, 1:], powers))
        bound = self.slopes[1:] @ powers + 2 * error
        return float(np.exp(self._centre + tried[bound.argmin()]))

    def _shrunk_loss(self, shape: ShapeLoss) -> float:
        """The loss of a shape, shrunk towards the fit by the share of the residual that is
        noise."""
        expected = float(self._row(shape) @ np.concatenate([self.levels, self.slopes]))
        return expected + self.between / (self.between + shape.variance) * (shape.loss - expected)

    def _row(self, shape: ShapeLoss) -> Array:
        level = [float(group == (shape.shape.depth, shape.stage)) for group in self.groups]
        ratio = shape.shape.ln_ff_ratio - self._centre
        return np.array([*level, shape.log_params, ratio, ratio**2])

    def _fit_slopes(self, variance: Array) -> tuple[Array, Array]:
        """Returns the effects of size and ratio, (3,), and their covariance, (3, 3); levels have no
        prior."""
        means, errors = np.array([PARAMS_SLOPE, RATIO_SLOPE, RATIO_CURVATURE]).T
        prior = np.hstack([np.zeros((3, len(self.groups))), np.eye(3)]) / errors[:, None]
        rows = np.vstack([self._design / np.sqrt(variance)[:, None], prior])
        values = np.concatenate([self._losses / np.sqrt(variance), means / errors])
        covariance = np.linalg.inv(rows.T @ rows)
        return (covariance @ rows.T @ values)[-3:], covariance[-3:, -3:]

    def _fit_levels(self, noise: Array, besides: Array) -> tuple[Array, Array, Array]:
        """Returns the mean loss of each group, corrected for size and ratio; the covariance of
        these means; and its part due to `noise`, (shapes,). `besides`, (shapes,), are further
        variances of the losses."""
        between = besides + self.between
        covariates, variance = self._design[:, -3:], noise + between
        # A shape far from the common ratio says less about its depth than one that is near.
        moves = np.einsum("sk,kl,sl->s", covariates, self._slope_covariance, covariates)
        weights = self._design[:, :-3] / (variance + moves)[:, None]
        weights /= weights.sum(axis=0)
        moved = weights.T @ covariates
        by_slopes = moved @ self._slope_covariance @ moved.T
        by_seeds = weights.T @ (weights * noise[:, None])
        by_shapes = weights.T @ (weights * between[:, None])
        levels = weights.T @ (self._losses - covariates @ self.slopes)
        return levels, by_seeds + by_shapes + by_slopes, by_seeds

    def _between(self, noise: Array) -> float:
        """Variance between shapes of a depth, beyond noise and the effects of size and ratio.

        It is fitted without the priors, whose effect would look like a difference between shapes.
        """

        def misses(between: float) -> tuple[Array, Array]:
            errors = np.sqrt(noise + between)
            rows, values = self._design / errors[:, None], self._losses / errors
            return values - rows @ np.linalg.lstsq(rows, values, rcond=None)[0], errors

        spare = len(self.shapes) - int(np.linalg.matrix_rank(self._design))
        return excess_variance(misses, spare)


def excess_variance(misses: Callable[[float], tuple[Array, Array] | None], spare: int) -> float:
    """The variance, at least 0, by which squared residuals of a fit exceed their squared errors
    (Paule & Mandel). With it added to the squared errors, the sum of squared residuals, in units of
    these errors, equals `spare`, the degrees of freedom.

    `misses` fits with a given added variance; it returns the residuals in standard errors, and the
    standard errors, or None where no fit is found. Newton's method from 0 never overshoots, since
    the sum is convex in the variance. At a least-squares fit, the sum does not change with the
    coefficients.
    """
    variance = 0.0
    while spare > 0 and (found := misses(variance)):
        residuals, errors = found
        excess = float(residuals @ residuals) - spare
        if not excess > CLOSE:  # NaN ends it too
            break
        variance += excess / float(np.sum((residuals / errors) ** 2))
    return variance


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLoss:
    """The lowest loss over the trained depths of a budget, nats, with an interval."""

    depth: int
    loss: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDifference:
    """One best loss minus another, nats, with an interval."""

    difference: float
    low: float
    high: float

    @property
    def is_settled(self) -> bool:
        """True if the interval excludes 0."""
        return self.low > 0 or self.high < 0


def best_loss(estimates: DepthEstimates, *, confidence: float = 0.95) -> BestLoss | None:
    """The best loss of a budget, with its interval; None without a finished trial.

    The best of several depths is also the luckiest. So the interval is for the lowest of the true
    losses: each depth gets an interval wide enough for all of them to hold at once (Bonferroni),
    and the result reaches from the lowest of their lower ends to the lowest of their upper ends.
    """
    depths = estimates.depths
    if not depths:
        return None
    freedom = max(estimates.repeats.degrees_of_freedom, KNOWN_NOISE)
    errors = float(stdtrit(freedom, 1 - (1 - confidence) / (2 * len(depths))))
    best = min(depths, key=lambda estimate: estimate.loss)
    return BestLoss(
        depth=best.depth,
        loss=best.loss,
        low=min(estimate.loss - errors * estimate.standard_error for estimate in depths),
        high=min(estimate.loss + errors * estimate.standard_error for estimate in depths),
    )


def loss_difference(first: BestLoss, other: BestLoss) -> LossDifference:
    """The difference of the best losses of two independent searches, from the interval of each
    (method of variance estimates recovery, Zou & Donner 2008)."""
    difference = first.loss - other.loss
    return LossDifference(
        difference=difference,
        low=difference - hypot(first.loss - first.low, other.high - other.loss),
        high=difference + hypot(first.high - first.loss, other.loss - other.low),
    )
