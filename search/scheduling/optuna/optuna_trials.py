"""Trials, parameters and the answer of a budget as its Optuna study shows them to other tools.

The study has every trial once, whatever its stage and however often it was resumed. `depth`,
`d_model` and `ff_ratio` are the trial's parameters; values at rungs are intermediate values. A
paused trial is WAITING until the search of its budget is done: it may be resumed, and Optuna
changes no trial that has ended.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from fathom.models.shape import Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.losses.forecast import forecastable, forecasts_by_trial
from fathom.search.records import Outcome, TrialRecord
from fathom.search.words import study_reason

NAME = "trial"
"""Attribute of an Optuna trial with the name of Fathom's trial."""
FORECAST = "forecast"
"""Attribute of a paused or stopped trial with the forecast of its loss at the horizon."""
End = tuple[object, object, object, TrialState]
"""Outcome, tokens, forecast and Optuna's state of a trial. A stored trial is out of date if any of
them differs."""
STATES: dict[Outcome | None, TrialState] = {
    Outcome.FINISHED: TrialState.COMPLETE,
    Outcome.STOPPED: TrialState.PRUNED,
    Outcome.DIVERGED: TrialState.PRUNED,
}
"""Optuna's state of a trial by its outcome; FAIL for any other outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyContents:
    """Contents of the Optuna study of a budget."""

    space: Mapping[str, BaseDistribution]
    records: tuple[TrialRecord, ...] = ()
    """Ended trials; each trial occurs once."""
    done: bool = False
    """True if none of the trials will be resumed any more."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    """Attributes of the study, with values that JSON can hold."""


def public_space(shapes: Sequence[Shape]) -> dict[str, BaseDistribution]:
    """Returns the parameters of a study of these shapes, each name with its range of values."""
    depths = [shape.depth for shape in shapes]
    widths = [shape.d_model for shape in shapes]
    ratios = [shape.ff_ratio for shape in shapes]
    return {
        "depth": IntDistribution(min(depths), max(depths), log=True),
        "d_model": IntDistribution(min(widths), max(widths)),
        "ff_ratio": FloatDistribution(min(ratios), max(ratios)),
    }


def stored_end(trial: FrozenTrial) -> End:
    """Returns the state in which Optuna stores a trial now."""
    known = trial.user_attrs
    return known.get("outcome"), known.get("tokens"), known.get(FORECAST), trial.state


def trial_ends(contents: StudyContents) -> dict[str, End]:
    """Returns the state in which Optuna should store each trial, by trial name."""
    found = forecasts_by_trial(forecastable(contents.records))
    ends: dict[str, End] = {}
    for record in contents.records:
        name, stopped = record.spec.trial, record.outcome is Outcome.STOPPED
        forecast = round(found[name].loss, 6) if stopped and name in found else None
        state = STATES.get(record.outcome, TrialState.FAIL)
        if stopped and not contents.done:
            state = TrialState.WAITING
        ends[name] = record.outcome, record.tokens, forecast, state
    return ends


def is_paused(end: End) -> bool:
    """True if a trial with this end may still change."""
    return not end[-1].is_finished()


def public_trial(
    record: TrialRecord, space: Mapping[str, BaseDistribution], end: End
) -> FrozenTrial | None:
    """Returns an ended trial as other tools see it, in the state that its `end` names; None if its
    shape is outside the space, as in a damaged record."""
    spec, shape = record.spec, record.spec.shape
    values = {"depth": shape.depth, "d_model": shape.d_model, "ff_ratio": shape.ff_ratio}
    if not all(holds(space[name], value) for name, value in values.items()):
        return None
    last = {spec.shared_horizon: record.loss} if record.loss is not None else {}
    trial = create_trial(
        state=end[-1],
        value=record.loss,
        params=values,
        distributions=dict(space),
        intermediate_values={} if record.outcome is Outcome.DIVERGED else record.rungs | last,
        user_attrs={
            NAME: spec.trial,
            "outcome": record.outcome,
            "tokens": record.tokens,
            "stage": spec.stage,
            "seed": spec.seed,
            "learning_rate": spec.learning_rate,
            "decay_scale": spec.decay_scale,
            "parameters": shape.size(spec.count),
            "n_heads": shape.n_heads,
            "head_dim": shape.head_dim,
            "d_ff": shape.d_ff,
            FORECAST: end[2],
        },
    )
    trial.datetime_start = datetime.fromtimestamp(record.started)
    if trial.state.is_finished():
        trial.datetime_complete = datetime.fromtimestamp(record.ended or record.started)
    return trial


def answer_attributes(optimum: Optimum, records: Iterable[TrialRecord]) -> dict[str, object]:
    """Returns attributes of a budget's Optuna study: the answer, and whether the trial with the
    lowest loss has the answer's shape."""
    shape = optimum.shape
    return {
        "optimal_depth": optimum.optimal_depth,
        "interval": list(optimum.interval) if optimum.interval else None,
        "verdict": optimum.kind,
        "reason": study_reason(optimum.verdict),
        "best_shape": {"depth": shape.depth, "d_model": shape.d_model, "ff_ratio": shape.ff_ratio}
        if shape
        else None,
        "best_trial": _best_trial(optimum, records),
    }


def _best_trial(optimum: Optimum, records: Iterable[TrialRecord]) -> str:
    finished = [record for record in records if record.loss is not None]
    if not finished or optimum.shape is None:
        return "no trial finished"
    lowest = min(finished, key=lambda record: record.loss or math.inf).spec.shape
    if lowest == optimum.shape:
        return "the trial with the lowest loss has the best shape"
    return (
        f"the lowest single loss is of depth {lowest.depth}, d_model {lowest.d_model}; by means "
        "over seeds and the curve over depths the answer is depth "
        f"{optimum.optimal_depth}, and the best trained shape has depth {optimum.shape.depth}, "
        f"d_model {optimum.shape.d_model}"
    )


def holds(distribution: BaseDistribution, value: float) -> bool:
    """True if a value lies in a parameter's range."""
    assert isinstance(distribution, (IntDistribution, FloatDistribution))
    return distribution.low <= value <= distribution.high
