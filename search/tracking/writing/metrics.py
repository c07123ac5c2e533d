"""Parameters and metrics of a study by their names in MLflow.

MLflow's page shows the charts of a run in the order of their names, with names that have a slash
first. The names are chosen so that the loss is at the top, and metrics that explain it are below.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from fathom.search.analysis.answer.interim import InterimAnswer
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.conclusion.findings import flat_optimum_row, shape_row
from fathom.search.records import CurvePoint, TrialRecord, TrialSpec
from fathom.search.scheduling.audit import RungAudit

MODEL = (
    *("rank_ratio", "attention_entropy", "gradient_norm"),
    *("previous_token", "induction", "copying"),
)
"""Metrics of a curve that are measured inside the model; their names in MLflow begin with
`model_`."""
SPEED = ("flop_utilisation", "generation_seconds", "compile_seconds")
"""Metrics of a curve that measure speed; their names in MLflow begin with `speed_`."""
NOT_PARAMS = ("study", "budgets", "tracking")
"""Keys of a study file that are not logged as parameters of the study's run."""
LONGEST_PARAM = 500
"""Most characters of a parameter."""
ANSWER = (
    *("optimal_depth", "lowest_depth", "interval_low", "interval_high", "loss", "noise"),
    *("depth", "d_model", "ff_ratio"),  # of the best trained shape
    *("shallowest_depth", "curve_minimum", "family_disagreement", "share_without_minimum"),
    *("params_slope", "best_ff_ratio", "chance_of_cost"),
    *("best_size", "size_interval_low", "size_interval_high"),
)
"""Values in the row of an optimum that are metrics of the budget's run."""
ANSWER_DIGITS = 6
"""Significant digits of the values in `ANSWER`: MLflow's table prints as many as it is given."""


def metric_name(name: str) -> str:
    """Returns the name that a metric of a curve has in MLflow."""
    if name in MODEL:
        return f"model_{name}"
    return f"speed_{name}" if name in SPEED else name


def layer_metrics(record: TrialRecord) -> dict[str, Sequence[float]]:
    """The layer metrics of a trial by their names in MLflow: one number for each layer, from layer
    1 on."""
    return {f"per_layer_{name}": values for name, values in record.layers.items()}


def point_metrics(point: CurvePoint) -> dict[str, float]:
    """The metrics of one evaluation by their names in MLflow.

    Values that are not finite are left out: MLflow's page hides a metric with its whole curve if
    the last value is not a number, and MLflow stores infinity as the largest float.
    """
    measured = {"loss": point.loss, "train_loss": point.train_loss, **point.metrics}
    return {metric_name(key): value for key, value in measured.items() if math.isfinite(value)}


def study_params(config_text: str) -> dict[str, str]:
    """Returns the settings of a study by their place in its file, such as `train.batch_size`."""
    settings = yaml.safe_load(config_text)
    flat = _flat({key: value for key, value in settings.items() if key not in NOT_PARAMS})
    return {key: value[:LONGEST_PARAM] for key, value in flat}


def study_metrics(optima: Sequence[Optimum]) -> Iterator[tuple[str, float, int]]:
    """Yields the name, value and budget of each number in the answers; the budget is the step in
    MLflow's chart."""
    for optimum in optima:
        metrics = budget_metrics(optimum)
        for name in ("optimal_depth", "interval_low", "interval_high", "loss", "best_size"):
            if name in metrics:
                yield name, metrics[name], optimum.budget


def _flat(settings: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{place}{key}.")
        else:
            yield f"{place}{key}", str(value)


def trial_params(spec: TrialSpec) -> dict[str, str]:
    """Returns the settings of a trial; they never change, as MLflow requires of parameters."""
    params = shape_row(spec.shape) | {
        "ff_ratio": f"{spec.shape.ff_ratio:.4g}",
        "stage": spec.stage,
        "seed": spec.seed,
        "learning_rate": spec.learning_rate,
        "rate_scale": spec.rate_scale,
        "decay_scale": spec.decay_scale,
        "prunable": spec.prunable,
        "horizon_tokens": spec.horizon_tokens,
    }
    return budget_params(spec) | {key: str(value) for key, value in params.items()}


def summary_metrics(record: TrialRecord) -> dict[str, float]:
    """Returns the metrics of a trial that has ended; unknown ones are left out."""
    metrics = {
        "final_loss": record.loss,
        "step_seconds": record.step_seconds,
        "tokens_per_second": record.tokens_per_second,
        "setup_seconds": record.setup_seconds,
        "peak_memory_bytes": record.peak_memory_bytes,
        "train_flops_per_token": record.spec.shape.train_flops_per_token,
    }
    return _known(metrics)


def _known(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """The metrics without those whose value is None."""
    return {key: float(value) for key, value in metrics.items() if value is not None}


def budget_metrics(optimum: Optimum) -> dict[str, float]:
    """Returns the numbers in the answer of a budget, rounded for a table; unknown ones are left
    out."""
    row = flat_optimum_row(optimum)
    names = (*ANSWER, *(f"trials_{outcome}" for outcome in optimum.trials))
    known = _known({name: row.get(name) for name in names})
    return {name: float(f"{value:.{ANSWER_DIGITS}g}") for name, value in known.items()}


def answer_metrics(answer: InterimAnswer) -> dict[str, float]:
    """Returns the numbers in an interim answer of a budget; unknown ones are left out."""
    metrics = {
        "interim_optimal_depth": answer.depth,
        "interim_interval_low": answer.low,
        "interim_interval_high": answer.high,
        "lowest_loss": answer.lowest_loss,
        **{f"interim_trials_{outcome}": number for outcome, number in answer.trials.items()},
    }
    return {key: value for key, value in _known(metrics).items() if math.isfinite(value)}


def audit_metrics(audits: Sequence[RungAudit]) -> dict[str, float]:
    """Returns the known numbers in the audits of rungs; each name has the tokens of its rung."""
    metrics = {
        f"rung_{audit.rung}_{name}": getattr(audit, name)
        for audit in audits
        for name in ("rank_correlation", "depth_bias", "regret", "stopped", "audit_trials_pruned")
    }
    return _known(metrics)


def budget_params(spec: TrialSpec) -> dict[str, str]:
    """Returns the settings of a budget, which all its trials share."""
    horizon = {"horizon_tokens": str(spec.horizon_tokens)}
    if shared := spec.shared_spend:
        horizon = {shared.coin.key: f"{shared.amount:g}"}
    return {
        "budget": str(spec.budget),
        "count": spec.count.value,
        **horizon,
    }
