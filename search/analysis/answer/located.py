"""Reads the best depth off a posterior, with its interval, its plateau and the costs of other
depths."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.search.analysis.answer.judging import Location, between_tested, judge, too_few_depths
from fathom.search.analysis.answer.optimum import Curves, DepthCost, Located, NotLocated, Optimum
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.curve.curve_fit import Fit, fit, points_of
from fathom.search.analysis.curve.joint_curve import fit_joint_curve, with_ruled_out_ends
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.depth_estimates import DepthEstimates
from fathom.search.records import Outcome, TrialRecord

PLATEAU_PROBABILITY = 0.1
"""A depth is of the plateau if its loss lies within `PLATEAU_WIDTH` of the best with at least this
probability."""
ENOUGH_DEPTHS = 3
"""Fewest depths to which a curve can be fitted."""
MENTIONED = 0.01
"""Least probability of being the best for a depth to be listed."""


def optimum_of(
    records: Sequence[TrialRecord], estimates: DepthEstimates, posterior: Posterior
) -> Optimum:
    """Returns the optimum of one budget by a given posterior, such as that of a model of many
    settings, and its estimates of the depths; `records` has a trial for each estimate."""
    points = posterior.points
    if len(points.depths) < ENOUGH_DEPTHS:
        return not_located(records, estimates)
    return located(records, estimates, points, posterior, posterior.depths)


def with_tokens_of_shape(optimum: Optimum, records: Sequence[TrialRecord]) -> Optimum:
    """The optimum with `tokens` set to the training tokens of its shape."""
    tokens = (r.spec.horizon_tokens for r in records if r.spec.shape == optimum.shape)
    return replace(optimum, tokens=next(tokens, optimum.tokens))


def located(
    records: Sequence[TrialRecord],
    estimates: DepthEstimates,
    points: DepthPoints,
    posterior: Posterior,
    possible: NDArray[np.int64],
) -> Located:
    """The optimum by a posterior; its answer is one of the `possible` depths."""
    shapes = {estimate.depth: estimate.shape for estimate in estimates.depths}
    finished = np.array(list(shapes))
    location = _locate(points, posterior, possible)
    curves, depth = fit(points), location.answer
    return Located(
        **_measured(records, estimates),
        verdict=judge(records, estimates, location),
        optimal_depth=depth,
        lowest_depth=int(points.depths[points.best]),
        loss=posterior.mean_loss(depth),
        shape=shapes.get(depth) or shapes[posterior.cheapest(finished)],
        interval=location.interval,
        probabilities=_likeliest_first(posterior),
        chance_of_cost=location.chance_for_answer,
        **_lowest_point(posterior),
        plateau=location.plateau,
        curves=Curves(power=curves.power, parabola=curves.parabola),
        family_disagreement=_disagreement(curves),
        costs=location.costs,
        share_without_minimum=location.shallow_share + location.deep_share,
    )


def curve_points(records: Sequence[TrialRecord], estimates: DepthEstimates) -> DepthPoints | None:
    """The finished depths, and depths beyond them that forecasts rule out, as points to fit a curve
    to; None with fewer than three finished depths."""
    measured, joint = points_of(estimates), fit_joint_curve(records, estimates)
    if joint is None or len(measured.depths) < ENOUGH_DEPTHS:
        return None
    return with_ruled_out_ends(measured, joint)


def _measured(records: Sequence[TrialRecord], estimates: DepthEstimates) -> dict[str, Any]:
    """The fields of an optimum that need no curve, by name."""
    spec = records[0].spec
    branches = any(estimate.shape.d_ff for estimate in estimates.depths)
    return {
        "budget": spec.budget,
        "count": spec.count,
        "tokens": spec.horizon_tokens,
        "shared_spend": spec.shared_spend,
        "depths": estimates.depths,
        "noise": estimates.noise,
        "params_slope": estimates.params_slope,
        "best_ff_ratio": estimates.best_ratio if branches else None,
        "trials": {o.value: sum(record.outcome is o for record in records) for o in Outcome},
    }


def not_located(records: Sequence[TrialRecord], estimates: DepthEstimates) -> NotLocated:
    best = min(estimates.depths, key=lambda estimate: estimate.loss, default=None)
    return NotLocated(
        **_measured(records, estimates),
        verdict=too_few_depths(estimates),
        shape=best.shape if best else None,
        lowest_depth=best.depth if best else None,
    )


def _locate(points: DepthPoints, posterior: Posterior, possible: NDArray[np.int64]) -> Location:
    """The best depth with interval and possible costs, and the answer, which is one of the
    `possible` depths."""
    depth = posterior.cheapest(posterior.depths)
    interval, plateau = _interval(posterior, depth), _plateau(posterior, depth)
    ends = points.depths[[0, -1]]
    shallow, deep = (float(np.isclose(posterior.lowest, end).mean()) for end in ends)
    near = possible[np.isin(possible, plateau)]
    answer = posterior.cheapest(near if near.size else possible)
    tested = points.depths.tolist()
    return Location(
        depth=depth,
        answer=answer,
        shallowest=min(near.tolist(), default=answer),
        interval=interval,
        plateau=plateau,
        shallow_share=shallow,
        deep_share=deep,
        difference=posterior.worst(*between_tested(plateau, tested)),
        interval_difference=posterior.worst(*between_tested(interval, tested)),
        chance_of_cost=posterior.chance_of_cost(depth, PLATEAU_WIDTH),
        answer_cost=posterior.mean_loss(answer) - posterior.mean_loss(depth),
        chance_for_answer=posterior.chance_of_cost(answer, PLATEAU_WIDTH),
        rivals=posterior.rivals(answer, PLATEAU_WIDTH),
        tested=tested,
        costs=_costs(posterior, answer),
    )


def _interval(posterior: Posterior, depth: int) -> tuple[int, int]:
    """The central 95 % interval of the best whole depth, widened to include `depth`."""
    low, high = np.quantile(posterior.best, [0.025, 0.975], method="inverted_cdf").tolist()
    return min(low, depth), max(high, depth)


def _plateau(posterior: Posterior, depth: int) -> tuple[int, ...]:
    """The unbroken range of depths around `depth` whose loss is within `PLATEAU_WIDTH` of the best
    with a probability of at least `PLATEAU_PROBABILITY`."""
    close = posterior.closeness(PLATEAU_WIDTH) >= PLATEAU_PROBABILITY
    first = last = int(posterior.at(depth))
    while first > 0 and close[first - 1]:
        first -= 1
    while last < len(close) - 1 and close[last + 1]:
        last += 1
    return tuple(posterior.depths[first : last + 1].tolist())


def _lowest_point(posterior: Posterior) -> dict[str, Any]:
    """The fields with the depth where the curve is lowest, and its interval, before rounding."""
    low, middle, high = np.quantile(posterior.lowest, [0.025, 0.5, 0.975]).tolist()
    return {"curve_minimum": middle, "curve_minimum_interval": (low, high)}


def _likeliest_first(posterior: Posterior) -> tuple[tuple[int, float], ...]:
    pairs = zip(posterior.depths.tolist(), posterior.probabilities.tolist(), strict=True)
    listed = [(depth, share) for depth, share in pairs if share >= MENTIONED]
    return tuple(sorted(listed, key=lambda pair: -pair[1]))


def _costs(posterior: Posterior, best: int) -> tuple[DepthCost, ...]:
    """Cost of each other depth of the range compared with `best`."""
    above = posterior.losses - posterior.losses[:, [posterior.at(best)]]
    lows, highs = np.quantile(above, [0.025, 0.975], axis=0).tolist()
    rows = zip(posterior.depths.tolist(), above.mean(axis=0).tolist(), lows, highs, strict=True)
    return tuple(
        DepthCost(depth=depth, nats=nats, interval=(low, high))
        for depth, nats, low, high in rows
        if depth != best
    )


def _disagreement(curves: Fit) -> float:
    """Factor, at least 1, between the depths that the two families call best."""
    ratio = curves.optimum / curves.parabola_optimum
    return max(ratio, 1 / ratio)
