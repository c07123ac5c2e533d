"""The losses at the horizon of an Optuna study's trials, for estimates of their depths."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from optuna.trial import FrozenTrial

from fathom.models.shape import Count, Shape
from fathom.search.analysis.losses.depth_estimates import ShapeLoss
from fathom.search.analysis.losses.forecast import forecasts
from fathom.search.analysis.losses.noise import UNKNOWN
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord, TrialSpec

RATIO = "ff_ratio"
"""Parameter that is the ratio of the feed-forward width to `d_model`."""
VARIANCE, LN_SIZE = "variance", "ln_size"
"""Attributes of Fathom's own trials: the variance of a loss that is a forecast, in squared nats,
and ln of the ratio of the parameters to the budget."""
FINEST = 2**17
"""Largest width used to express a ratio as two whole widths."""


def losses_of(trials: Sequence[FrozenTrial], depth: str, sign: float) -> list[ShapeLoss]:
    """The loss of each trial of known depth, measured or forecast, sorted by depth.

    `depth` names the parameter; losses are values times `sign`.
    """
    known = [trial for trial in trials if depth in trial.params]
    curves = {trial.number: _curve(trial, sign) for trial in known}
    horizon = max((max(curve, default=0) for curve in curves.values()), default=0)
    records = [
        _record(trial, curves[trial.number], horizon, _shape(trial, depth))
        for trial in known
        if curves[trial.number]
    ]
    measured = [
        _measured(trial, sign * trial.value, _shape(trial, depth))
        for trial in known
        if not curves[trial.number] and trial.value is not None and math.isfinite(trial.value)
    ]
    return sorted([*measured, *forecasts(records)], key=lambda found: found.shape.depth)


def _curve(trial: FrozenTrial, sign: float) -> dict[int, float]:
    """Step -> the loss reported at it, ascending; empty if any value is not a number."""
    curve = {step: sign * trial.intermediate_values[step] for step in trial.intermediate_values}
    if not all(map(math.isfinite, curve.values())):
        return {}
    return {step: curve[step] for step in sorted(curve) if step > 0}


def _measured(trial: FrozenTrial, loss: float, shape: Shape) -> ShapeLoss:
    variance = trial.user_attrs.get(VARIANCE, UNKNOWN.likely_noise**2)
    return ShapeLoss(
        Stage.EXPLORE, shape, trial.user_attrs.get(LN_SIZE, 0.0), loss, float(variance), 1
    )


def _record(
    trial: FrozenTrial, curve: Mapping[int, float], horizon: int, shape: Shape
) -> TrialRecord:
    """A trial as a record, to be forecast; it counts as finished if no trial has reported at a
    later step."""
    spec = TrialSpec(
        trial=str(trial.number),
        study="",
        stage=Stage.EXPLORE,
        budget=1,
        count=Count.TOTAL,
        horizon_tokens=horizon,
        shape=shape,
        seed=0,
        learning_rate=0.0,
        rate_scale=1.0,
        prunable=True,
    )
    points = tuple(
        CurvePoint(step=step, tokens=step, loss=loss, train_loss=loss, train_seconds=0.0, time=0.0)
        for step, loss in curve.items()
    )
    return TrialRecord(
        spec=spec,
        outcome=Outcome.FINISHED if points[-1].step == horizon else Outcome.STOPPED,
        reason="",
        curve=points,
        rungs={},
        started=0.0,
        ended=None,
        setup_seconds=0.0,
        peak_memory_bytes=None,
        parameters=spec.budget,
    )


def _shape(trial: FrozenTrial, depth: str) -> Shape:
    """A shape with a trial's depth and ratio; its other sizes have no meaning."""
    ratio = trial.params.get(RATIO)
    widths = Fraction(ratio if isinstance(ratio, float) and ratio > 0 else 1.0)
    widths = widths.limit_denominator(FINEST)
    return Shape(
        depth=trial.params[depth],
        d_model=widths.denominator,
        d_ff=widths.numerator,
        n_heads=1,
        head_dim=2,
        vocab_size=1,
        context=1,
    )
