"""The joint curve through all trials of a budget: finished ones, and paused ones by their
forecasts.

Few trials finish at depths far from the best, so they hardly show how steep the curve is on either
side. Paused trials show it at no further cost.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from fathom.search.analysis.curve.curve_fit import Fit, Flags, fit, points_of, whole_depth
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.depth_estimates import (
    DepthEstimates,
    combine_shapes,
    estimate_depths,
)
from fathom.search.analysis.losses.forecast import forecastable, forecasts
from fathom.search.analysis.losses.rates import brackets
from fathom.search.records import UNSCALED, Stage, TrialRecord

RULED_OUT = 3
"""Standard errors by which a forecast must be above the best to rule a paused depth out."""
FORECAST_MISFIT = 0.15
"""Error of forecasts beyond the finished depths, as a share of the height above the best: models
that learn slowly at first are forecast too high."""
LEVEL = 0.02
"""Standard deviation, nats, of an error that all forecasts of paused depths share."""


def incumbent_depth(records: Sequence[TrialRecord]) -> int | None:
    """The best depth of one budget so far, called the incumbent; None before any evaluation."""
    curve = fit_joint_curve(records, estimate_depths(records))
    return whole_depth(curve.optimum) if curve else _leading(records)


def best_of(records: Sequence[TrialRecord], depths: Sequence[int]) -> int | None:
    """The best of the given depths, which must include all depths tried; None before any
    evaluation."""
    curve = fit_joint_curve(records, estimate_depths(records))
    return curve.best_of(depths) if curve else _leading(records)


def fit_joint_curve(records: Sequence[TrialRecord], estimates: DepthEstimates) -> Fit | None:
    """The curve through all trials of one budget; `estimates` are of the finished depths.

    None with fewer than three depths. The forecasts use the finished trials as well.
    """
    paused = [r for r in records if r.spec.stage is Stage.EXPLORE and r.loss is None]
    finished = [r for r in records if r.loss is not None and r.spec.scale == UNSCALED]
    forecast_points = points_of(combine_shapes(forecasts(paused, finished)))
    points, certain = _join(points_of(estimates), forecast_points, _rate_variance(records))
    return fit(points, certain=certain) if len(set(points.depths.tolist())) >= 3 else None


def with_ruled_out_ends(finished: DepthPoints, joint: Fit) -> DepthPoints:
    """The points of finished depths, and of depths beyond them whose forecasts are clearly worse
    than the best.

    The latter were paused early, cost little, and show how steep the curve is beyond the best
    depth.
    """
    low, high = finished.depths[[0, -1]].tolist()
    depths = joint.points.depths
    inside = (low <= depths) & (depths <= high)
    taken = np.isin(depths, finished.depths) & joint.certain
    worse = ~inside & (joint.points.height(RULED_OUT) > 0)
    places = np.flatnonzero(taken | worse)
    points = joint.points.at(places)
    off = np.where(worse[places], FORECAST_MISFIT * points.height(1), 0.0)
    return replace(points, covariance=points.covariance + np.diag(off**2))


def _leading(records: Sequence[TrialRecord]) -> int | None:
    """The depth with the lowest forecast loss, for budgets with too few depths for a curve."""
    shapes = forecasts(forecastable(records))
    return min(shapes, key=lambda forecast: forecast.loss).shape.depth if shapes else None


def finished_depths(records: Sequence[TrialRecord]) -> set[int]:
    """The depths with a finished trial."""
    return {record.spec.shape.depth for record in records if record.loss is not None}


def _rate_variance(records: Sequence[TrialRecord]) -> float:
    """Variance, squared nats, of an explored depth's loss because only one rate and decay was
    tried, estimated from the gains at depths where several were tried."""
    gains = ([bracket.gain for bracket in found] for found in brackets(records).values())
    return sum(float(np.mean(np.square(tried))) for tried in gains if tried)


def _join(
    finished: DepthPoints, forecast_points: DepthPoints, rate_variance: float
) -> tuple[DepthPoints, Flags]:
    """Returns the points, ascending in depth (a depth may occur twice), and True for each finished
    point, or for all if none finished. `rate_variance` is added to the variance of each forecast.
    """
    error = forecast_points.covariance + LEVEL**2
    error += rate_variance * np.eye(len(forecast_points.depths))
    zeros = np.zeros_like(error)
    both = DepthPoints(
        depths=np.concatenate([finished.depths, forecast_points.depths]),
        losses=np.concatenate([finished.losses, forecast_points.losses]),
        covariance=block_diag(finished.covariance, error),
        noise=finished.noise,
        by_seeds=None if finished.by_seeds is None else block_diag(finished.by_seeds, zeros),
    )
    count = len(finished.depths) or len(both.depths)
    order = np.argsort(both.depths, kind="stable")
    return both.at(order), order < count
