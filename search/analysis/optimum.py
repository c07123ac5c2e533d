"""The best depth of one budget, with its interval, plateau and verdict.

From records alone: `depth_estimates.py` estimates the loss of each depth, `curve_fit.py` fits
curves over depth, `verdict.py` turns the result into a verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from fathom.models.shape import Count, Shape
from fathom.search.analysis.curve_check import (
    better_measured,
    fits,
    telling_depths,
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
)
from fathom.search.records import Outcome, TrialRecord, by_budget

PLATEAU_PROBABILITY = 0.1
"""Smallest probability of lying within `PLATEAU_WIDTH` of the best at which a depth belongs to the
plateau."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best depth of one budget after `tokens` of training."""

    budget: int
    count: Count
    tokens: int
    """Training tokens of a trial that runs to the end."""
    horizon_unit: str = "tokens"
    """What `tokens` counts: a table may have steps, or nothing at all."""
    optimal_depth: int | None
    """The best depth; None when no trial finished, or no curve fits the measured losses."""
    lowest_depth: int | None
    """The tested depth with the lowest measured loss; None only when no trial finished."""
    telling_depths: tuple[int, ...]
    """Depths to train where no curve fits the measured losses; empty where one does."""
    interval: tuple[int, int] | None
    """95 % interval in whole depths; None with fewer than three depths."""
    curve_minimum: float | None
    """Depth where the curve is lowest, before rounding; None without an interval."""
    curve_minimum_interval: tuple[float, float] | None
    """95 % interval of it, before rounding."""
    plateau: tuple[int, ...]
    """Every whole depth of the tested range that can not be distinguished from the best."""
    verdict: Verdict
    loss: float | None
    """Fitted (or mean) loss at `optimal_depth`, or else at `lowest_depth`, nats per token."""
    shape: Shape | None
    """The best finished shape at `optimal_depth`, or at the tested depth lowest on the curve, or at
    `lowest_depth` where no curve fits."""
    power: PowerCurve | None
    """The likeliest curve `a L^-p + b L^q + c`; None with fewer than three depths."""
    parabola: Parabola | None
    """The parabola; None with fewer than three depths."""
    family_disagreement: float | None
    """Factor, at least 1, between the depths that the two families call best; None where no curve
    fits."""
    share_without_minimum: float | None
    """Share of the bootstrap draws without a lowest point inside the tested range; they are not
    thrown away but count for the end that is lower."""
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
    def shallowest_depth(self) -> int | None:
        """The shallowest depth of the plateau, which is the cheapest to serve."""
        return self.plateau[0] if self.plateau else None

    @property
    def least_depth(self) -> int:
        """The fewest layers that such a model can have."""
        return self.shape.least_depth if self.shape else 1


def find_optima(
    records: Sequence[TrialRecord], *, seed: int, noise: float | None = None
) -> tuple[Optimum, ...]:
    """The optimum of each budget, by budget; `noise` between seeds as for `find_optimum`."""
    own = by_budget(records).values()
    return tuple(find_optimum(trials, seed=seed, noise=noise) for trials in own)


def find_optimum(
    records: Sequence[TrialRecord], *, seed: int, draws: int = 2000, noise: float | None = None
) -> Optimum:
    """The optimum of the one budget that the records are of; the same for the same seed.

    `noise` between seeds, nats, is measured unless it is stated.

    Raises:
        ValueError: when the records are of no budget or of several.
    """
    spec = _only_budget(records).spec
    estimates = estimate_depths(records, noise)
    measured, joined = points_of(estimates), fit_joint_curve(records, estimates)
    points, curves, held, drawn = measured, None, None, None
    freedom = max(estimates.degrees_of_freedom, KNOWN_NOISE)
    if joined and len(measured.depths) >= 3:
        points, finished = with_ruled_out_ends(measured, joined)
        curves = fit(points, certain=finished)
        # What was measured must lie on a curve; forecasts of paused depths refute none.
        held = curves if fits(fit(measured), estimates.degrees_of_freedom) else None
    if held:
        generator = np.random.default_rng([seed, spec.budget])
        drawn = draw(held, generator, draws=draws, degrees_of_freedom=freedom)
    certain = float(stdtrit(freedom, CERTAIN))
    # The finished depths have the last word: the curve's lowest point is kept in their interval.
    minimum = float(np.clip(joined.optimum, *drawn.interval)) if joined and drawn else None
    lowest = int(points.depths[points.best]) if len(points.depths) else None
    telling = telling_depths(measured) if curves and not held else None
    depth = decide(points, minimum, certain) if telling is None else None
    plateau: tuple[int, ...] = (depth,) if depth else ()
    location = None
    if minimum and held and drawn and depth:
        interval, exact = _interval(held, depth, drawn, certain)
        depth = better_measured(held, depth, interval)
        plateau = _plateau(points, drawn, depth)
        location = _locate(points, depth, interval, minimum, exact, drawn, plateau)
    decided = minimum is not None and whole_depth(minimum) == depth
    best = _tested(estimates, depth or lowest, joined if decided else None, location)
    if telling is None or lowest is None:
        verdict = judge(records, estimates, location, plateau)
    else:
        verdict = no_curve(estimates, lowest, telling)
    branches = any(own.shape.d_ff for own in estimates.depths)
    return Optimum(
        budget=spec.budget,
        count=spec.count,
        tokens=spec.horizon_tokens,
        optimal_depth=depth,
        lowest_depth=lowest,
        telling_depths=telling or (),
        interval=location.interval if location else None,
        curve_minimum=location.minimum if location else None,
        curve_minimum_interval=location.minimum_interval if location else None,
        plateau=plateau,
        verdict=verdict,
        loss=curves.power(depth) if curves and depth and decided else best.loss if best else None,
        shape=best.shape if best else None,
        power=curves.power if curves else None,
        parabola=curves.parabola if curves else None,
        family_disagreement=_factor(held.optimum, held.parabola_optimum) if held else None,
        share_without_minimum=drawn.share_without_minimum if drawn else None,
        depths=estimates.depths,
        noise=estimates.noise,
        params_slope=estimates.params_slope,
        best_ff_ratio=estimates.best_ratio if branches else None,
        trials={own.value: sum(r.outcome is own for r in records) for own in Outcome},
    )


def decide(points: DepthPoints, minimum: float | None, certain: float) -> int | None:
    """The whole depth at the lowest point, unless the losses contradict it; None without any.

    It may not lie at or beyond a tested depth that is worse than the best tested one by so many
    standard errors; then, and where there is no curve, the best tested depth stands.
    """
    if not len(points.depths):
        return None
    best = int(points.depths[points.best])
    if minimum is None:
        return best
    turn = whole_depth(minimum)
    shallowest, deepest = _possible(points, certain)
    return turn if shallowest <= turn <= deepest else best


def _possible(points: DepthPoints, errors: float) -> tuple[int, int]:
    """Shallowest and deepest depth that can be the best, when the curve has one hump.

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


def _locate(
    points: DepthPoints,
    depth: int,
    interval: tuple[int, int],
    minimum: float,
    minimum_interval: tuple[float, float],
    drawn: Draws,
    plateau: Sequence[int],
) -> Location:
    """The best depth with its interval, how often it falls on an end of the range, and how much
    worse the depths of the plateau and of the interval may be."""
    low, high = minimum_interval
    shallow, deep = (np.isclose(drawn.optima, end).mean() for end in points.depths[[0, -1]])
    return Location(
        depth=depth,
        interval=interval,
        minimum=min(max(minimum, low), high),
        minimum_interval=minimum_interval,
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
    On a curve of one hump nothing lies close beyond a depth that does not.
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


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)


def _tested(
    estimates: DepthEstimates, depth: int | None, joined: Fit | None, location: Location | None
) -> DepthEstimate | None:
    """The estimate at the answered depth if it was tested, else of the best tested depth in the
    interval; None without a depth."""
    if depth is None:
        return None
    tested = {own.depth: own for own in estimates.depths}
    if depth in tested or joined is None or location is None:
        return tested[depth]
    low, high = location.interval
    return tested[joined.best_of([own for own in tested if low <= own <= high] or list(tested))]


def _only_budget(records: Sequence[TrialRecord]) -> TrialRecord:
    budgets = list(by_budget(records))
    if len(budgets) != 1:
        raise ValueError(
            f"an optimum is of the trials of one budget, got budgets {budgets}; "
            + ("use `find_optima`" if budgets else "run the study first")
        )
    return records[0]
