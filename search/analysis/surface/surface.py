"""The posterior of the loss over size and depth, of models that all spend an equal amount.

The loss is the sum of a parabola in ln size and ln depth, an effect of the feed-forward ratio, and
a deviation with a rough and a smooth part. Sizes of the deviation and of the noise are weighted by
their likelihood, as for depths of one size (`curve/posterior.py`). Paused trials enter with their
forecasts. A cell is a whole depth at one of a grid of sizes; each draw has a loss for every cell,
and its lowest cell is a draw of the best size and depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp

from fathom.models.shape import Shape
from fathom.search.analysis.curve.joint_curve import FORECAST_MISFIT, LEVEL
from fathom.search.analysis.curve.posterior import (
    DRAWS,
    FAR_REACH,
    LOW,
    OWN,
    REACH,
    ROUGHNESS,
    Posterior,
    allotted,
    noises,
)
from fathom.search.analysis.curve_families import Array, DepthPoints
from fathom.search.analysis.losses.depth_estimates import (
    RATIO_CURVATURE,
    RATIO_SLOPE,
    DepthEstimate,
    DepthEstimates,
    ShapeLoss,
    shape_losses,
    trials_noise,
)
from fathom.search.analysis.losses.forecast import forecasts_by_trial
from fathom.search.analysis.losses.noise import Repeats
from fathom.search.analysis.losses.stalls import without_stalled
from fathom.search.records import Stage, TrialRecord

Places = NDArray[np.int64]

FEWEST = 6
"""Fewest shapes for a surface: as many as a parabola in two variables has coefficients."""
SMALLEST = 64
"""Place of the smallest size. The place is an index of a size, proportional to the size's square
root, and so about to the width."""
SIZES = 24
"""Number of places from the smallest to the largest size."""
FREE = (10.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""Prior standard deviations of the coefficients of the parabola, nats: so wide that they hardly
matter."""
MISFIT = 0.15
"""Misfit of a loss to the parabola, as a share of its height above the best."""
TUNED = 0.003
"""Largest loss, nats, of a shape above the best shape of the same depth (or size) to count as about
as good."""
SURE = 1e-10
"""Variance, squared nats, that keeps the covariance of equal losses regular."""
ALIKE = 0.7
"""Share of a forecast's variance that is common to neighbouring forecasts, as the same line
extrapolates them."""
ROUNDS = 4
"""Number of iterations in which the heights of the losses are fitted."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Estimates and posterior of depths, each at its best size, or of places (indices of sizes),
    each at its best depth."""

    estimates: DepthEstimates
    """Estimates of the depths that finished or, in the profile over sizes, of places."""
    posterior: Posterior
    possible: Places
    """Depths (or places) that can be the answer: with a finished shape that is about as good as the
    best at that depth, or better than all such shapes of other depths."""


@dataclass(frozen=True, kw_only=True)
class SizeSurface:
    """Equally likely draws of the loss at every cell, which is a whole depth at a place."""

    smallest: int
    """Parameters at the place `SMALLEST`."""
    places: Places
    """Place of the size of each cell, (cells,)."""
    depths: Places
    """Depth of each cell, (cells,)."""
    losses: Array
    """Loss of each cell in each draw, nats; (draws, cells)."""
    noise: float
    """Standard deviation of the loss between seeds, nats: the mean over the draws."""
    repeats: Repeats
    finished: tuple[ShapeLoss, ...]
    """Shapes with a finished trial, and their losses."""

    @cached_property
    def regrets(self) -> Array:
        """Loss of each cell above the lowest loss in the same draw, nats; (draws, cells)."""
        regrets: Array = self.losses - self.losses.min(axis=1, keepdims=True)
        return regrets

    @cached_property
    def best(self) -> Places:
        """Index of the cell with the lowest loss in each draw, (draws,)."""
        best: Places = self.losses.argmin(axis=1)
        return best

    @cached_property
    def means(self) -> Array:
        """Expected loss of each cell, nats, (cells,)."""
        means: Array = self.losses.mean(axis=0)
        return means

    @property
    def ratio(self) -> float:
        """The usual feed-forward ratio of the shapes that finished, 1 where none did."""
        ratios = [known.shape.ln_ff_ratio for known in self.finished] or [0.0]
        return float(np.exp(np.median(ratios)))

    @property
    def region(self) -> tuple[tuple[int, int], ...]:
        """Pairs (size, depth) of the cells that include the best with a probability of 95 %, the
        likeliest first."""
        cells, counts = np.unique(self.best, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        number = int(np.searchsorted(np.cumsum(counts[order]), 0.95 * counts.sum())) + 1
        kept = cells[order][:number]
        sizes = [self.size_at(place) for place in self.places[kept].tolist()]
        return tuple(zip(sizes, self.depths[kept].tolist(), strict=True))

    @cached_property
    def by_depth(self) -> Profile:
        """The loss of each depth at its best size."""
        return self._profile(self.depths, [shape.shape.depth for shape in self.finished])

    @cached_property
    def by_size(self) -> Profile:
        """The loss of each size, given by its place, at its best depth."""
        return self._profile(self.places, [self.place_of(shape.shape) for shape in self.finished])

    def size_at(self, place: float) -> int:
        """Parameters at a place, to three digits."""
        return int(float(f"{self.smallest * (place / SMALLEST) ** 2:.3g}"))

    @cached_property
    def _grid(self) -> Places:
        """The different places, ascending."""
        return np.unique(self.places)

    def ends_of(self, places: tuple[int, int]) -> tuple[int, int]:
        """The smallest and the largest size of a range of size indices, which reaches halfway to
        the neighbouring indices."""
        step = (self._grid[-1] / self._grid[0]) ** (0.5 / (len(self._grid) - 1))
        return self.size_at(places[0] / step), self.size_at(places[1] * step)

    def place_of(self, shape: Shape) -> int:
        """The place that is nearest to the size of a shape."""
        wanted = _place(shape.params_total, self.smallest)
        return int(self._grid[np.abs(self._grid - wanted).argmin()])

    def cell_of(self, shape: Shape) -> int:
        """The index of the cell nearest to a shape."""
        away = np.abs(np.log(self.depths / shape.depth))
        away += np.abs(np.log(self.places / _place(shape.params_total, self.smallest)))
        return int(away.argmin())

    def _profile(self, of_cells: Places, of_finished: Sequence[int]) -> Profile:
        values = np.unique(of_cells)
        losses = np.stack([self.losses[:, of_cells == v].min(axis=1) for v in values], axis=1)
        # Forecasts say enough of the ends, which are seldom trained to the end.
        shown = np.unique([*of_finished, values[0], values[-1]])
        at = np.searchsorted(values, shown)
        covariance = np.cov(losses[:, at], rowvar=False) + SURE * np.eye(len(at))
        points = DepthPoints(
            depths=shown, losses=losses[:, at].mean(axis=0), covariance=covariance,
            noise=self.noise, by_seeds=np.zeros_like(covariance),
        )  # fmt: skip
        ended = np.isin(shown, of_finished)
        known = [
            self._estimate(v, losses[:, values == v], of_finished) for v in shown[ended].tolist()
        ]
        estimates = DepthEstimates(
            noise=self.noise,
            repeats=self.repeats,
            depths=tuple(known),
            covariance=covariance[np.ix_(ended, ended)],
            by_seeds=np.zeros((len(known), len(known))),
            params_slope=0.0,
            best_ratio=self.ratio,
        )
        means = np.array([self.means[self.cell_of(estimate.shape)] for estimate in known])
        near = means - np.array([estimate.loss for estimate in known]) <= TUNED
        # A depth is no better than another for a trained shape that costs more.
        near |= means <= means[near].min(initial=np.inf)
        lowest = values[losses.argmin(axis=1)].astype(np.float64)
        posterior = Posterior(
            depths=values, losses=losses, lowest=lowest, noise=self.noise, points=points,
            repeats=self.repeats,
        )  # fmt: skip
        possible = np.array([estimate.depth for estimate in known])[near]
        return Profile(estimates=estimates, posterior=posterior, possible=possible)

    def _estimate(self, value: int, losses: Array, of_finished: Sequence[int]) -> DepthEstimate:
        """The estimate of one depth (or place of a size) from the draws of its loss; its shape is
        the finished one with the lowest mean loss."""
        here = [s for s, at in zip(self.finished, of_finished, strict=True) if at == value]
        return DepthEstimate(
            depth=value,
            loss=float(losses.mean()),
            standard_error=float(losses.std()),
            trials=sum(shape.trials for shape in here),
            shape=min(here, key=lambda known: self.means[self.cell_of(known.shape)]).shape,
        )


def find_surface(
    records: Sequence[TrialRecord], generator: Generator, *, noise: float | None = None,
    draws: int = DRAWS,
) -> SizeSurface | None:  # fmt: skip
    """The surface of the only budget of the records, whose size is free; `noise` between seeds,
    nats, is measured if None. The result is None with fewer than `FEWEST` shapes."""
    kept = without_stalled(records)
    repeats = trials_noise(kept, noise)
    finished = tuple(shape_losses(kept, repeats.likely_noise))
    losses = [*finished, *_forecast(kept)]
    if len({loss.shape for loss in losses}) < FEWEST:
        return None
    points = _Points(losses, len(finished), repeats.likely_noise)
    places, depths = points.cells
    drawn, level = _draw(points, places, depths, repeats, generator, draws)
    return SizeSurface(
        smallest=points.smallest, places=places, depths=depths, losses=drawn, noise=level,
        repeats=repeats, finished=finished,
    )  # fmt: skip


def _forecast(records: Sequence[TrialRecord]) -> list[ShapeLoss]:
    """Forecasts of the exploration trials that have not finished."""
    found = forecasts_by_trial(records)
    paused = [r for r in records if r.spec.stage is Stage.EXPLORE and r.loss is None]
    return [found[r.spec.trial] for r in paused if r.spec.trial in found]


def _place(size: float, smallest: int) -> float:
    return float(SMALLEST * (size / smallest) ** 0.5)


class _Points:
    """The measured and forecast losses as points of a surface; the measured ones come first."""

    def __init__(self, losses: Sequence[ShapeLoss], finished: int, noise: float) -> None:
        shapes = [loss.shape for loss in losses]
        sizes = np.array([shape.params_total for shape in shapes], dtype=np.float64)
        self.smallest = int(sizes.min())
        self.u, self.v = np.log(sizes), np.log([float(shape.depth) for shape in shapes])
        self.centre = float(self.u.mean()), float(self.v.mean())
        ratios = np.array([shape.ln_ff_ratio for shape in shapes])
        self.ratios = ratios - float(np.median(ratios[:finished] if finished else ratios))
        self.losses = np.array([loss.loss for loss in losses])
        self.lift = float(self.losses.mean())
        variances = np.array([loss.variance for loss in losses])
        forecast = np.arange(len(losses)) >= finished
        self.weights = np.where(forecast, 1.0, variances / noise**2)
        """Variance of each loss due to noise, in units of the variance of one seed's loss,
        (losses,)."""
        errors = np.where(forecast, np.maximum(0.0, variances - noise**2), 0.0)
        self.heights = np.zeros(len(losses))
        self.mean = np.zeros(len(FREE))
        for _ in range(ROUNDS):
            misfit = np.where(forecast, FORECAST_MISFIT + MISFIT, MISFIT) * self.heights
            self._fit(noise**2 * self.weights + errors + misfit**2)
        near = np.exp(-_apart(self.u, self.v) / FAR_REACH)
        alike = ALIKE * near + (1 - ALIKE) * np.eye(len(losses))
        self.besides = alike * np.sqrt(np.outer(errors, errors)) + np.diag(misfit**2)
        self.besides += LEVEL**2 * np.outer(forecast, forecast)

    def _fit(self, variances: Array) -> None:
        """Fits the parabola, and sets `heights`: the parabola at each point above its lowest value
        among the points."""
        design = np.vstack([self.terms(self.u, self.v) / np.sqrt(variances)[:, None],
                            np.diag(1 / np.array(FREE))])  # fmt: skip
        values = np.concatenate([(self.losses - self.lift) / np.sqrt(variances), np.zeros(6)])
        self.mean = np.linalg.lstsq(design, values, rcond=None)[0]
        self.heights = self.height(self.u, self.v)

    def terms(self, u: Array, v: Array) -> Array:
        """The terms of the parabola at ln sizes and ln depths, (points, 6)."""
        u, v = u - self.centre[0], v - self.centre[1]
        return np.stack([np.ones_like(u), u, v, u**2, u * v, v**2], axis=1)

    def height(self, u: Array, v: Array) -> Array:
        """Height of the parabola above its lowest point among the points, nats."""
        lowest = (self.terms(self.u, self.v) @ self.mean).min()
        height: Array = np.maximum(0.0, self.terms(u, v) @ self.mean - lowest)
        return height

    @cached_property
    def cells(self) -> tuple[Places, Places]:
        """Places and depths of the cells, which lie between the points: (cells,) each."""
        top = _place(float(np.exp(self.u.max())), self.smallest)
        grid = np.unique(np.round(np.geomspace(SMALLEST, top, SIZES))).astype(np.int64)
        deep = np.round(np.exp([self.v.min(), self.v.max()])).astype(int)
        places, depths = list[int](), list[int]()
        sizes = log(self.smallest) + 2 * np.log(grid / SMALLEST)
        for depth in range(deep[0], deep[1] + 1):
            low, high = self._slice(log(depth))
            inside = grid[(sizes >= low - 1e-6) & (sizes <= high + 1e-6)]
            if not len(inside):
                inside = grid[[np.abs(sizes - (low + high) / 2).argmin()]]
            places += inside.tolist()
            depths += [depth] * len(inside)
        for place in grid[~np.isin(grid, places)]:  # its hull lies between two whole depths
            places.append(int(place))
            depths.append(depths[int(np.abs(np.array(places[:-1]) - place).argmin())])
        return np.array(places), np.array(depths)

    def _slice(self, v: float) -> tuple[float, float]:
        """The smallest and the largest ln size at a ln depth inside the hull of the points."""
        below, above = np.flatnonzero(self.v <= v + 1e-9), np.flatnonzero(self.v >= v - 1e-9)
        u0, v0 = self.u[below, None], self.v[below, None]
        u1, v1 = self.u[None, above], self.v[None, above]
        share = np.clip((v - v0) / np.maximum(v1 - v0, 1e-9), 0.0, 1.0)
        across = u0 + share * (u1 - u0)
        return float(across.min()), float(across.max())


def _draw(
    points: _Points, places: Places, depths: Places, repeats: Repeats, generator: Generator,
    draws: int,
) -> tuple[Array, float]:  # fmt: skip
    """Draws of the loss of each cell, (draws, cells), and the mean noise between seeds."""
    u = np.concatenate([points.u, log(points.smallest) + 2 * np.log(places / SMALLEST)])
    v = np.concatenate([points.v, np.log(depths)])
    number = len(points.u)
    flat, values = _flat(points, u, v), points.losses - points.lift
    solved, logs = [], []
    for sizes, share in ROUGHNESS.items():
        prior = flat + _deviations(points, u, v, *sizes)
        for noise, log_noise in noises(repeats):
            errors = points.besides + np.diag(points.weights * noise**2)
            factor = cho_factor(prior[:number, :number] + errors, lower=True)
            squares = float(values @ cho_solve(factor, values))
            solved.append((prior, factor, errors, noise))
            logs.append(log(share) + log_noise - squares / 2 - np.log(np.diag(factor[0])).sum())
    weights = np.array(logs)
    cells, counts = allotted(np.exp(weights - logsumexp(weights)), draws)
    found = []
    for cell, count in zip(cells, counts, strict=True):
        prior, factor, errors, _ = solved[cell]
        root = np.linalg.cholesky(prior + 1e-9 * np.eye(len(prior)))
        before = root @ generator.standard_normal((len(prior), count))
        seen = np.linalg.cholesky(errors) @ generator.standard_normal((number, count))
        left = values[:, None] - before[:number] - seen
        found.append((before[number:] + prior[number:, :number] @ cho_solve(factor, left)).T)
    level = np.average([solved[cell][3] for cell in cells], weights=counts)
    return np.concatenate(found) + points.lift, float(level)


def _flat(points: _Points, u: Array, v: Array) -> Array:
    """Prior covariance of the parabola and of the ratio's effect, at points and then cells."""
    terms = points.terms(u, v) * np.array(FREE)
    ratios = np.zeros((len(u), 2))
    ratios[: len(points.u), 0] = points.ratios * RATIO_SLOPE[1]
    ratios[: len(points.u), 1] = points.ratios**2 * RATIO_CURVATURE[1]
    found: Array = terms @ terms.T + ratios @ ratios.T
    return found


def _apart(u: Array, v: Array) -> Array:
    """Distances between points in the plane of ln depth and half of ln size, which varies like ln
    width."""
    found: Array = np.hypot(v - v[:, None], (u - u[:, None]) / 2)
    return found


def _deviations(points: _Points, u: Array, v: Array, rough: float, share: float) -> Array:
    """Covariance of the deviations at points and then cells: a rough part, in part independent
    between depths, and a smooth part with a `share` of the height above the best."""
    apart, own = _apart(u, v), np.isclose(v, v[:, None])
    alike = (1 - OWN) * np.exp(-apart / REACH) + OWN * own
    height = points.height(u, v) + LOW
    smooth = np.outer(height, height) * np.exp(-apart / FAR_REACH)
    found: Array = rough**2 * alike + share**2 * smooth
    return found
