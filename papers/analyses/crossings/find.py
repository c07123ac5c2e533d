"""Sizes above which a deeper model wins, and the law through them (Levine et al. 2020).

The losses of two depths at their common budgets are drawn as curves over ln(parameters): a line
through two budgets, a parabola through three or more. The difference of two curves of one order is
the curve through the differences of the losses, so only that one is drawn. A law, `ln d_model = a +
b * depth`, is fitted through the crossings of neighbouring depths. The width is that of layers with
`d_ff = 4 * d_model` which hold all parameters at the crossing: sqrt(parameters / (12 * depth)).
`law.py` fits the same law another way, through the best depth of each budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, pairwise
from math import exp, log, sqrt

import numpy as np
from numpy.random import Generator
from scipy.special import chdtrc

from fathom.search.analysis.curve.curve_fit import draw_noise, points_of
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.depth_estimates import (
    KNOWN_NOISE,
    Array,
    DepthEstimates,
    estimate_depths,
)
from fathom.search.records import TrialRecord, by_budget

CLEAR = 2.0
"""Standard errors of the difference above which one depth is clearly ahead of another."""
GRID = 201
"""Number of sizes, evenly spaced in ln, at which curves are searched for zeros."""
FEWEST_CROSSINGS = 3
"""Fewest crossings: two parameters pass through any two; the third is the first that can disagree.
"""
DOUBT = 0.01
"""Significance level: a law is not supported when its residuals would be so large with less than
this probability."""


class CrossingKind(StrEnum):
    """The order of two depths over the sizes at which both were trained."""

    CROSSED = "crossed"
    """The shallower depth is clearly ahead at small sizes, the deeper one at larger ones."""
    REVERSED = "reversed"
    """The deeper depth is clearly ahead at a small size, the shallower one at a larger one."""
    SHALLOWER = "shallower ahead"
    """The shallower depth is ahead at every size tried."""
    DEEPER = "deeper ahead"
    """The deeper depth is ahead at every size tried."""
    UNCLEAR = "not told apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Comparison of two depths over the sizes at which both were trained."""

    shallow: int
    deep: int
    kind: CrossingKind
    budgets: tuple[int, ...]
    """Budgets that both depths have, ascending."""
    neighbours: bool
    """True if no depth between them was trained at two budgets or more."""
    params: float | None
    """Size at which the deeper one begins to win, counted as the study counts; None unless crossed.
    """
    interval: tuple[float, float] | None
    """95 % interval of the size, clipped to the budgets; None unless crossed."""

    @property
    def depth(self) -> float:
        """The best depth at the crossing, sqrt(shallow * deep): if losses are a parabola in ln
        depth near their lowest, two depths tie when the best one is midway between them by
        ratio."""
        return sqrt(self.shallow * self.deep)

    @property
    def d_model(self) -> float | None:
        """Width at which layers with `d_ff = 4 * d_model` of that depth hold all parameters."""
        return sqrt(self.params / (12 * self.depth)) if self.params else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossingLaw:
    """The law through crossings, or the reason why there is none."""

    crossings: int
    """Number of crossings of neighbouring depths that the law is fitted to."""
    supported: bool
    reason: str
    """Judgement on the law in one sentence."""
    a: float | None = None
    b: float | None = None
    """Slope of ln d_model per layer. It and its interval are None with fewer than three
    crossings."""
    a_interval: tuple[float, float] | None = None
    b_interval: tuple[float, float] | None = None
    """95 % interval of `b`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """Every pair of depths that two budgets or more have in common, and the law through them."""

    pairs: tuple[Crossing, ...]
    law: CrossingLaw


FORM = Crossings | None
"""Return type of `find`."""


@dataclass(frozen=True, slots=True)
class _Sized:
    """The losses of the depths of one budget, with draws of their noise."""

    budget: int
    row: dict[int, int]
    """Index of each depth in the arrays."""
    points: DepthPoints
    drawn: Array
    """Losses drawn from their errors, (depths, draws), nats."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Loss of the deeper depth minus the loss of the shallower one, by size."""

    log_params: Array
    """ln(parameters) of the sizes that both depths have, (sizes,), ascending."""
    measured: Array
    """Loss differences as measured, (sizes,), nats."""
    drawn: Array
    """Loss differences drawn from their errors, (sizes, draws), nats."""
    error: Array
    """Standard errors of the differences, (sizes,), nats."""


def find(records: Sequence[TrialRecord], *, seed: int, draws: int = 1000) -> Crossings | None:
    """The crossings of a study; None when no two budgets share two neighbouring depths.

    Budgets must be numbers of parameters. The same seed gives the same intervals.
    """
    if not records or not records[0].spec.count.of_parameters:
        return None
    generator = np.random.default_rng([seed, len("crossings")])
    budgets = by_budget(records).items()
    sized = [_sized(estimate_depths(trials), size, generator, draws) for size, trials in budgets]
    repeated = _repeated(sized)
    beside = set(pairwise(repeated))
    found = []
    for pair in combinations(repeated, 2):
        shared = [size for size in sized if size.row.keys() >= set(pair)]
        if len(shared) > 1:
            found.append(_cross(shared, *pair, neighbours=pair in beside))
    if not any(pair.neighbours for pair, _ in found):
        return None
    of_law = [(pair, drawn) for pair, drawn in found if pair.neighbours and pair.params]
    law = fit_crossing_law(
        np.array([pair.depth for pair, _ in of_law]),
        np.array([log(pair.params or 0.0) for pair, _ in of_law]),
        np.array([drawn for _, drawn in of_law]),
    )
    return Crossings(pairs=tuple(pair for pair, _ in found), law=law)


def _repeated(sized: Sequence[_Sized]) -> list[int]:
    """The depths that two budgets or more have, ascending."""
    depths = sorted({depth for size in sized for depth in size.row})
    return [depth for depth in depths if sum(depth in size.row for size in sized) > 1]


def _sized(estimates: DepthEstimates, budget: int, generator: Generator, draws: int) -> _Sized:
    points, freedom = points_of(estimates), max(estimates.repeats.degrees_of_freedom, KNOWN_NOISE)
    noise = draw_noise(points, generator, draws=draws, degrees_of_freedom=freedom)
    row = {estimate.depth: place for place, estimate in enumerate(estimates.depths)}
    return _Sized(budget, row, points, points.losses[:, None] + noise)


def _cross(
    shared: Sequence[_Sized], shallow: int, deep: int, *, neighbours: bool
) -> tuple[Crossing, Array]:
    """Returns the crossing of the pair and its size in each draw, in ln(parameters); (draws,)."""
    gap = _gap(shared, shallow, deep)
    at_sizes = _hat(gap, gap.log_params)
    fitted = at_sizes @ gap.measured
    error_factor = _error_factor(gap, fitted)
    error = error_factor * np.sqrt((at_sizes**2) @ gap.error**2)
    kind = _kind(fitted / error)
    crossed = kind is CrossingKind.CROSSED
    grid = np.linspace(gap.log_params[0], gap.log_params[-1], GRID)
    curve = _hat(gap, grid)
    moved = gap.measured[:, None] + error_factor * (gap.drawn - gap.measured[:, None])
    drawn = _zeros(grid, curve @ moved)
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975])).tolist()
    pair = Crossing(
        shallow=shallow,
        deep=deep,
        kind=kind,
        budgets=tuple(size.budget for size in shared),
        neighbours=neighbours,
        params=exp(float(_zeros(grid, (curve @ gap.measured)[:, None])[0])) if crossed else None,
        interval=(low, high) if crossed else None,
    )
    return pair, drawn


def _gap(shared: Sequence[_Sized], shallow: int, deep: int) -> _Gap:
    measured, drawn, variance = [], [], []
    for size in shared:
        i, j = size.row[shallow], size.row[deep]
        losses, error = size.points.losses, size.points.covariance
        measured.append(losses[j] - losses[i])
        drawn.append(size.drawn[j] - size.drawn[i])
        variance.append(error[i, i] + error[j, j] - 2 * error[i, j])
    log_params = np.log([size.budget for size in shared])
    return _Gap(log_params, np.array(measured), np.array(drawn), np.sqrt(variance))


def _hat(gap: _Gap, at: Array) -> Array:
    """The matrix that maps measured differences to their fitted curve by weighted least squares;
    (at, sizes)."""
    order = min(2, len(gap.log_params) - 1)
    centre = gap.log_params.mean()
    design = np.vander(gap.log_params - centre, order + 1) / gap.error[:, None]
    solve: Array = np.linalg.pinv(design) / gap.error
    return np.asarray(np.vander(at - centre, order + 1) @ solve, dtype=np.float64)


def _error_factor(gap: _Gap, fitted: Array) -> float:
    """Factor, at least 1, by which residuals from the curve exceed the errors."""
    spare = len(fitted) - 3
    if spare < 1:
        return 1.0
    return max(1.0, sqrt(float(np.sum(((gap.measured - fitted) / gap.error) ** 2)) / spare))


def _kind(ahead: Array) -> CrossingKind:
    """The order of two depths, from the lead of the shallower one in standard errors; (sizes,)."""
    shallower, deeper = np.flatnonzero(ahead > CLEAR), np.flatnonzero(ahead < -CLEAR)
    if len(shallower) and len(deeper):
        return CrossingKind.CROSSED if shallower.max() < deeper.min() else CrossingKind.REVERSED
    if len(shallower):
        return CrossingKind.SHALLOWER
    return CrossingKind.DEEPER if len(deeper) else CrossingKind.UNCLEAR


def _zeros(grid: Array, curves: Array) -> Array:
    """The first zero of each falling curve (grid, draws), or the end of the range that its sign
    indicates; (draws,)."""
    falls = (curves[:-1] > 0) & (curves[1:] <= 0)
    at, draws = falls.argmax(axis=0), np.arange(curves.shape[1])
    before, after = curves[at, draws], curves[at + 1, draws]
    step = np.where(falls.any(axis=0), before - after, 1.0)
    zeros = grid[at] + (grid[1] - grid[0]) * before / step
    ends = np.where(curves.mean(axis=0) > 0, grid[-1], grid[0])
    return np.asarray(np.where(falls.any(axis=0), zeros, ends), dtype=np.float64)


def fit_crossing_law(depths: Array, log_params: Array, drawn: Array) -> CrossingLaw:
    """The law through n crossings (n,), whose errors are the spread of their draws (n, draws)."""
    count = len(depths)
    if count < FEWEST_CROSSINGS:
        reason = (
            f"a law needs {FEWEST_CROSSINGS} crossings of neighbouring depths, and there "
            f"{'is' if count == 1 else 'are'} {count}"
        )
        return CrossingLaw(crossings=count, supported=False, reason=reason)
    widths = (log_params - np.log(12 * depths)) / 2
    drawn_widths = (drawn - np.log(12 * depths)[:, None]) / 2
    weights = np.linalg.pinv(np.cov(drawn_widths))
    design = np.stack([np.ones(count), depths], axis=1)
    solve = np.linalg.pinv(design.T @ weights @ design) @ design.T @ weights
    line = solve @ widths
    misses = widths - design @ line
    squares = float(misses @ weights @ misses)
    error_factor = sqrt(max(1.0, squares / (count - 2)))
    lines = line[:, None] + error_factor * (solve @ (drawn_widths - widths[:, None]))
    (a_low, b_low), (a_high, b_high) = np.quantile(lines, [0.025, 0.975], axis=1).tolist()
    chance = float(chdtrc(count - 2, squares))
    return CrossingLaw(
        crossings=count,
        supported=chance >= DOUBT and b_low > 0,
        reason=_judgement(b_low, b_high, chance),
        a=float(line[0]),
        b=float(line[1]),
        a_interval=(a_low, a_high),
        b_interval=(b_low, b_high),
    )


def _judgement(b_low: float, b_high: float, chance: float) -> str:
    """The judgement on a fitted law in one sentence."""
    if chance < DOUBT:
        return "the crossings lie on no line: they miss it by far more than their errors"
    if b_low <= 0 <= b_high:
        return "the width at the crossing may as well not grow with depth: b may be 0"
    if b_high < 0:
        return "the width at the crossing falls with depth, against the law"
    return "the crossings miss the line by no more than their errors allow"
