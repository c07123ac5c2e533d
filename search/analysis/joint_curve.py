"""The joint curve through all trials of a budget: confirmed depths, and explored depths by their
forecasts.

Confirmed depths lie far apart, so how steep the curve is on either side of its lowest point shows
but faintly in them. The explored ones lie between: they bend the curve, and cost nothing more.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import block_diag

from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.curve_fit import Fit, Flags, fit, points_of, whole_depth
from fathom.search.analysis.depth_estimates import (
    DepthEstimates,
    combine_shapes,
    estimate_depths,
    rate_gains,
)
from fathom.search.analysis.forecast import forecastable, forecasts
from fathom.search.records import Stage, TrialRecord

LEVEL = 0.02
"""Standard deviation, nats, of a common offset of the explored depths beside the confirmed ones:
their forecasts share an error."""


def incumbent_depth(records: Sequence[TrialRecord]) -> int | None:
    """The incumbent: the best depth of one budget so far; None before any evaluation."""
    curve = fit_joint_curve(records, estimate_depths(records))
    return whole_depth(curve.optimum) if curve else _leading(records)


def best_of(records: Sequence[TrialRecord], depths: Sequence[int]) -> int | None:
    """The best of the given depths; they must include those tried; None before any evaluation."""
    curve = fit_joint_curve(records, estimate_depths(records))
    return curve.best_of(depths) if curve else _leading(records)


def fit_joint_curve(records: Sequence[TrialRecord], estimates: DepthEstimates) -> Fit | None:
    """The curve through all trials of one budget; `estimates` are of those that finished.

    None with fewer than three depths. The forecasts use the confirmation trials as well.
    """
    measured = points_of(estimates)
    confirmed = np.isin(measured.depths, list(confirmed_depths(records)))
    exploring = [record for record in records if record.spec.stage is Stage.EXPLORE]
    others = [r for r in records if r.spec.stage is Stage.CONFIRM and r.spec.rate_scale == 1.0]
    forecast_points = points_of(combine_shapes(forecasts(exploring, others)))
    points, certain = _join(
        measured.at(np.flatnonzero(confirmed)), forecast_points, _rate_variance(records)
    )
    return fit(points, certain=certain) if len(set(points.depths.tolist())) >= 3 else None


def _leading(records: Sequence[TrialRecord]) -> int | None:
    """The depth with the lowest forecast loss, for budgets with too few depths for a curve."""
    shapes = forecasts(forecastable(records))
    return min(shapes, key=lambda own: own.loss).shape.depth if shapes else None


def confirmed_depths(records: Sequence[TrialRecord]) -> set[int]:
    """The depths with a finished confirmation trial."""
    done = [r for r in records if r.spec.stage is Stage.CONFIRM and r.loss is not None]
    return {record.spec.shape.depth for record in done}


def _rate_variance(records: Sequence[TrialRecord]) -> float:
    """Variance of the loss of an explored depth, squared nats, as a single rate was tried for it:
    from the gains of other rates where they were tried."""
    gains = rate_gains(records)
    return float(np.mean(np.square(gains))) if gains else 0.0


def _join(
    confirmed: DepthPoints, forecast_points: DepthPoints, rate_variance: float
) -> tuple[DepthPoints, Flags]:
    """Returns the points by depth, which may come twice, and flags of the confirmed ones, or of all
    where none was confirmed. `rate_variance` is added to the variance of each forecast."""
    error = forecast_points.covariance + LEVEL**2
    error += rate_variance * np.eye(len(forecast_points.depths))
    both = DepthPoints(
        depths=np.concatenate([confirmed.depths, forecast_points.depths]),
        losses=np.concatenate([confirmed.losses, forecast_points.losses]),
        covariance=block_diag(confirmed.covariance, error),
    )
    count = len(confirmed.depths) or len(both.depths)
    order = np.argsort(both.depths, kind="stable")
    return both.at(order), order < count
