"""The best depth of one budget, located with its interval and plateau or not, and the verdict.

From records alone: `depth_estimates.py` estimates the loss of each depth, `curve_fit.py` fits
curves over depth, `verdict.py` turns the result into a verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from fathom.models.shape import Count, Shape
from fathom.search.analysis.curve_check import (
    better_measured,
    fits,
    informative_depths,
    uncontradicted,
)
from fathom.search.analysis.curve_families import DepthPoints, Parabola, PowerCurve
from fathom.search.analysis.curve_fit import CLEAR, Draws, Fit, draw, fit, points_of, whole_depth
from fathom.search.analysis.depth_estimates import (
    KNOWN_NOISE,
    DepthEstimate,
    DepthEstimates,
    estimate_depths,
)
from fathom.search.analysis.joint_curve import fit_joint_curve, with_ruled_out_ends
from fathom.search.analysis.verdict import (
    CERTAIN,
    PLATEAU_WIDTH,
    Kind,
    Location,
    Verdict,
    judge,
    no_curve,
    too_few_depths,
)
from fathom.search.records import Outcome, TrialRecord, by_budget, in_order_of_names

PLATEAU_PROBABILITY = 0.1
"""Smallest probability of lying within `PLATEAU_WIDTH` of the best at which a depth belongs to the
plateau."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The likeliest curve of each family through the losses of the depths."""

    power: PowerCurve
    """`a L^-p + b L^q + c`, which decides."""
    parabola: Parabola


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAnswer:
    """What the trials of one budget show after `tokens` of training, located or not."""

    budget: int
    count: Count
    tokens: int
    """Training tokens of a trial that runs to the end."""
    horizon_unit: str = "tokens"
    """What `tokens` counts: a table may have steps, or nothing at all."""
    verdict: Verdict
    shape: Shape | None
    """The best finished shape at the best depth, or at the tested depth lowest on the curve, or at
    the depth with the lowest measured loss where no curve fits."""
    depths: tuple[DepthEstimate, ...]
    """Estimates of the depths, ascending."""
    noise: float
    """Standard deviation of the loss between seeds, nats per token."""
    params_slope: float
    """Slope by which losses were corrected for size, nats for each unit of ln(parameters)."""
    best_ff_ratio: float | None
    """Feed-forward ratio with the lowest loss, among those that finished; None without branches."""
    trials: dict[str, int]
    """Outcome -> number of trials, every outcome present."""

    @property
    def kind(self) -> Kind:
        """The kind of the verdict."""
        return self.verdict.kind

    @property
    def least_depth(self) -> int:
        """The fewest layers that such a model can have."""
        return self.shape.least_depth if self.shape else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Located(BudgetAnswer):
    """The best depth of a budget, from a curve that fits its losses."""

    optimal_depth: int
    lowest_depth: int
    """The tested depth with the lowest measured loss."""
    loss: float
    """Fitted (or mean) loss at `optimal_depth`, nats per token."""
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    curve_minimum: float
    """Depth where the curve is lowest, before rounding."""
    curve_minimum_interval: tuple[float, float]
    """95 % interval of it, before rounding."""
    plateau: tuple[int, ...]
    """Every whole depth of the tested range that can not be distinguished from the best."""
    curves: Curves
    family_disagreement: float
    """Factor, at least 1, between the depths that the two families call best."""
    share_without_minimum: float
    """Share of the bootstrap draws without a lowest point inside the tested range; they are not
    thrown away but count for the end that is lower."""

    @property
    def shallowest_depth(self) -> int:
        """The shallowest depth of the plateau, which is the cheapest to serve."""
        return self.plateau[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLocated(BudgetAnswer):
    """A budget with fewer than three finished depths, or with losses that no curve fits."""

    lowest_depth: int | None
    """The tested depth with the lowest measured loss; None when no trial finished."""
    curves: Curves | None
    """The likeliest curves, which do not fit the losses; None with fewer than three depths."""

    @property
    def optimal_depth(self) -> int | None:
        """The best of fewer than three depths; None where none finished, or no curve fits."""
        return None if self.curves else self.lowest_depth

    @property
    def loss(self) -> float | None:
        """Mean loss at `lowest_depth`, nats per token."""
        lowest = (known.loss for known in self.depths if known.depth == self.lowest_depth)
        return next(lowest, None)

    @property
    def plateau(self) -> tuple[int, ...]:
        """The best depth, if there is one."""
        return (self.optimal_depth,) if self.optimal_depth else ()

    @property
    def shallowest_depth(self) -> int | None:
        """The shallowest depth of the plateau."""
        return self.optimal_depth


Optimum = Located | NotLocated
"""The optimum of one budget."""


def find_optima(
    records: Sequence[TrialRecord], *, seed: int, noise: float | None = None
) -> tuple[Optimum, ...]:
    """Returns the optimum of each budget, by budget; `noise` is that of `find_optimum`."""
    budgets = by_budget(records).values()
    return tuple(find_optimum(trials, seed=seed, noise=noise) for trials in budgets)


def find_optimum(
    records: Sequence[TrialRecord], *, seed: int, draws: int = 2000, noise: float | None = None
) -> Optimum:
    """Returns the optimum of the one budget that the records are of; the same for the same seed,
    whatever the order of the records.

    `noise` between seeds, nats, is measured unless it is stated.

    Raises:
        ValueError: when the records are of no budget or of several.
    """
    spec = _only_budget(records).spec
    records = in_order_of_names(records)
    estimates = estimate_depths(records, noise)
    fitted = _fit_curves(records, estimates)
    if fitted is None or not fitted.holds:
        return _not_located(records, estimates, fitted)
    generator = np.random.default_rng([seed, spec.budget])
    freedom = max(estimates.degrees_of_freedom, KNOWN_NOISE)
    drawn = draw(fitted.curves, generator, draws=draws, degrees_of_freedom=freedom)
    location = _locate(fitted, drawn, float(stdtrit(freedom, CERTAIN)))
    return Located(
        **_measured(records, estimates),
        verdict=judge(records, estimates, location),
        **_best(fitted, location, estimates),
        lowest_depth=_lowest(fitted.curves.points),
        interval=location.interval,
        curve_minimum=location.minimum,
        curve_minimum_interval=location.minimum_interval,
        plateau=tuple(location.plateau),
        curves=Curves(power=fitted.curves.power, parabola=fitted.curves.parabola),
        family_disagreement=_factor(fitted.curves.optimum, fitted.curves.parabola_optimum),
        share_without_minimum=drawn.share_without_minimum,
    )


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The curves of a budget with three finished depths or more."""

    curves: Fit
    """Through the finished depths, and those beyond them that forecasts rule out."""
    joint: Fit
    """Through the finished depths and the forecasts of all paused ones."""
    holds: bool
    """Whether what was measured lies on a curve; forecasts of paused depths refute none."""


def _fit_curves(records: Sequence[TrialRecord], estimates: DepthEstimates) -> _Fitted | None:
    """Returns the curves; None with fewer than three finished depths."""
    measured, joint = points_of(estimates), fit_joint_curve(records, estimates)
    if joint is None or len(measured.depths) < 3:
        return None
    points, finished = with_ruled_out_ends(measured, joint)
    holds = fits(fit(measured), estimates.degrees_of_freedom)
    return _Fitted(fit(points, certain=finished), joint, holds)


def _measured(records: Sequence[TrialRecord], estimates: DepthEstimates) -> dict[str, Any]:
    """The fields of an answer that need no curve."""
    spec = records[0].spec
    branches = any(estimate.shape.d_ff for estimate in estimates.depths)
    return {
        "budget": spec.budget,
        "count": spec.count,
        "tokens": spec.horizon_tokens,
        "depths": estimates.depths,
        "noise": estimates.noise,
        "params_slope": estimates.params_slope,
        "best_ff_ratio": estimates.best_ratio if branches else None,
        "trials": {o.value: sum(record.outcome is o for record in records) for o in Outcome},
    }


def _not_located(
    records: Sequence[TrialRecord], estimates: DepthEstimates, fitted: _Fitted | None
) -> NotLocated:
    measured = points_of(estimates)
    curves = fitted and fitted.curves
    lowest = _lowest(curves.points if curves else measured) if len(measured.depths) else None
    return NotLocated(
        **_measured(records, estimates),
        verdict=too_few_depths(estimates)
        if curves is None or lowest is None
        else no_curve(estimates, lowest, informative_depths(measured)),
        shape=next((known.shape for known in estimates.depths if known.depth == lowest), None),
        lowest_depth=lowest,
        curves=Curves(power=curves.power, parabola=curves.parabola) if curves else None,
    )


def _best(fitted: _Fitted, location: Location, estimates: DepthEstimates) -> dict[str, Any]:
    """The best depth, its loss, and the best finished shape at or near it."""
    depth, tested = location.depth, {known.depth: known for known in estimates.depths}
    on_curve = whole_depth(location.lowest) == depth
    if depth in tested or not on_curve:
        nearest = depth
    else:
        low, high = location.interval
        inside = [known for known in tested if low <= known <= high]
        nearest = fitted.joint.best_of(inside or list(tested))
    loss = fitted.curves.power(depth) if on_curve else tested[nearest].loss
    return {"optimal_depth": depth, "loss": loss, "shape": tested[nearest].shape}


def _lowest(points: DepthPoints) -> int:
    return int(points.depths[points.best])


def decide(points: DepthPoints, minimum: float, certain: float) -> int:
    """Returns the whole depth at the lowest point, unless the losses contradict it.

    It may not lie at or beyond a tested depth that is worse than the best tested one by so many
    standard errors; then the best tested depth stands.
    """
    turn = whole_depth(minimum)
    shallowest, deepest = _possible(points, certain)
    return turn if shallowest <= turn <= deepest else _lowest(points)


def _possible(points: DepthPoints, errors: float) -> tuple[int, int]:
    """Shallowest and deepest depth that can be the best, when the curve has a single minimum.

    Both lie short of the tested depths that are worse than the best tested one by that many
    standard errors.
    """
    best = int(points.depths[points.best])
    worse = points.depths[points.height(errors) > 0].tolist()
    below = max((depth + 1 for depth in worse if depth < best), default=int(points.depths[0]))
    above = min((depth - 1 for depth in worse if depth > best), default=int(points.depths[-1]))
    return below, above


def _interval(
    curves: Fit, depth: int, drawn: Draws, certain: float
) -> tuple[tuple[int, int], tuple[float, float]]:
    """The 95 % interval of the best depth in whole depths, which holds `depth`, and the same before
    rounding."""
    points = curves.points
    shallowest, deepest = _possible(points, certain)
    # A depth that is out is out with all that rounds to it.
    inner = np.clip(drawn.interval, shallowest - 0.5, deepest + 0.5)
    low, high = uncontradicted(curves, tuple(np.clip(inner, *points.depths[[0, -1]]).tolist()))
    return (min(whole_depth(low), depth), max(whole_depth(high), depth)), (low, high)


def _locate(fitted: _Fitted, drawn: Draws, certain: float) -> Location:
    """The best depth with its interval, how often it falls on an end of the range, and how much
    worse the depths of the plateau and of the interval may be."""
    points = fitted.curves.points
    # The finished depths have the last word: the curve's lowest point is kept in their interval.
    lowest = float(np.clip(fitted.joint.optimum, *drawn.interval))
    depth = decide(points, lowest, certain)
    interval, exact = _interval(fitted.curves, depth, drawn, certain)
    depth = better_measured(fitted.curves, depth, interval)
    plateau = _plateau(points, drawn, depth)
    shallow, deep = (np.isclose(drawn.optima, end).mean() for end in points.depths[[0, -1]])
    return Location(
        depth=depth,
        lowest=lowest,
        interval=interval,
        minimum=min(max(lowest, exact[0]), exact[1]),
        minimum_interval=exact,
        plateau=plateau,
        shallow_share=float(shallow),
        deep_share=float(deep),
        difference=drawn.worst(plateau[0], plateau[-1]),
        interval_difference=drawn.worst(*interval),
        tested=points.depths.tolist(),
    )


def _plateau(points: DepthPoints, drawn: Draws, depth: int) -> tuple[int, ...]:
    """Depths within `PLATEAU_WIDTH` of the lowest point in enough of the draws.

    By the curves, of which each draw has its own, so that depths between the tested ones count too.
    A depth that was tested must also be close as measured, since far from the best no curve holds.
    On a curve with a single minimum, no depth beyond one that is not close is close.
    """
    close = (drawn.heights <= PLATEAU_WIDTH).mean(axis=0) >= PLATEAU_PROBABILITY
    lowered = points.losses - PLATEAU_WIDTH
    lowered[points.best] += PLATEAU_WIDTH
    shallowest, deepest = _possible(replace(points, losses=lowered), CLEAR)
    first, last, start = depth, depth, int(points.depths[0])
    while first > shallowest and close[first - 1 - start]:
        first -= 1
    while last < deepest and close[last + 1 - start]:
        last += 1
    return tuple(range(first, last + 1))


def _factor(first: float, second: float) -> float:
    return max(first / second, second / first)


def _only_budget(records: Sequence[TrialRecord]) -> TrialRecord:
    budgets = list(by_budget(records))
    if len(budgets) != 1:
        remedy = "use `find_optima`" if budgets else "run the study first"
        got = f"got budgets {budgets}; {remedy}"
        raise ValueError(f"an optimum is of the trials of one budget, {got}")
    return records[0]
