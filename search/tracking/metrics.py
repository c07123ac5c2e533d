"""What MLflow gets of a study as parameters and metrics, and what they are called there.

Its page shows the charts of a run in the order of their names, those with a slash first. Names are
chosen so that the loss stands at the top and what explains it below.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from fathom.search.analysis.interim import InterimAnswer
from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion import flat_optimum_row
from fathom.search.records import CurvePoint, TrialRecord, TrialSpec
from fathom.search.scheduling.audit import RungAudit

MODEL = (
    *("rank_ratio", "attention_entropy", "gradient_norm"),
    *("previous_token", "induction", "copying"),
)
"""Of a curve, what was seen inside the model: in MLflow behind `model_`, layers `per_layer_`."""
SPEED = ("flop_utilisation", "generation_seconds", "compile_seconds")
"""Of a curve, how fast it was: in MLflow behind `speed_`."""
NOT_PARAMS = ("study", "budgets", "tracking")
"""Of a study file: its name, what has runs of its own, and where it is written."""
LONGEST_PARAM = 500
ANSWER = (
    *("optimal_depth", "interval_low", "interval_high", "d_model", "ff_ratio", "loss", "noise"),
    *("shallowest_depth", "curve_minimum", "family_disagreement", "share_without_minimum"),
    *("params_slope", "best_ff_ratio"),
)
"""Numbers of an optimum's row that are metrics of its budget's run."""


def metric_name(name: str) -> str:
    """What a metric of a curve is called in MLflow."""
    if name in MODEL:
        return f"model_{name}"
    return f"speed_{name}" if name in SPEED else name


def layer_metrics(record: TrialRecord) -> dict[str, Sequence[float]]:
    """The layer metrics of a trial by their names in MLflow: one number a layer, from layer 1."""
    return {f"per_layer_{name}": values for name, values in record.layers.items()}


def point_metrics(point: CurvePoint) -> dict[str, float]:
    """The metrics of one evaluation by their names in MLflow.

    What is not finite is left out: MLflow's page hides a metric, curve and all, whose last value is
    not a number, and stores an infinity as the largest float.
    """
    measured = {"loss": point.loss, "train_loss": point.train_loss, **point.metrics}
    return {metric_name(key): value for key, value in measured.items() if math.isfinite(value)}


def study_params(config_text: str) -> dict[str, str]:
    """The settings of a study by their place in its file, such as `train.batch_size`."""
    settings = yaml.safe_load(config_text)
    flat = _flat({key: value for key, value in settings.items() if key not in NOT_PARAMS})
    return {key: value[:LONGEST_PARAM] for key, value in flat}


def study_metrics(optima: Sequence[Optimum]) -> Iterator[tuple[str, float, int]]:
    """Name, value and budget: a chart of the study's run has budgets for its steps."""
    for optimum in optima:
        metrics = budget_metrics(optimum)
        for name in ("optimal_depth", "interval_low", "interval_high", "loss"):
            if name in metrics:
                yield name, metrics[name], optimum.budget


def _flat(settings: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{place}{key}.")
        else:
            yield f"{place}{key}", str(value)


def trial_params(spec: TrialSpec) -> dict[str, str]:
    """What fixes a trial; never changes, as MLflow's parameters may not."""
    shape = spec.shape
    params = {
        "budget": spec.budget,
        "count": spec.count,
        "horizon_tokens": spec.horizon_tokens,
        "stage": spec.stage,
        "depth": shape.depth,
        "d_model": shape.d_model,
        "d_ff": shape.d_ff,
        "ff_ratio": f"{shape.ff_ratio:.4g}",
        "n_heads": shape.n_heads,
        "head_dim": shape.head_dim,
        "params_total": shape.params_total,
        "params_non_embedding": shape.params_non_embedding,
        "seed": spec.seed,
        "learning_rate": spec.learning_rate,
        "rate_scale": spec.rate_scale,
        "prunable": spec.prunable,
    }
    return {key: str(value) for key, value in params.items()}


def summary_metrics(record: TrialRecord) -> dict[str, float]:
    """A trial as a whole; what is not known is left out."""
    metrics = {
        "final_loss": record.loss,
        "step_seconds": record.step_seconds,
        "tokens_per_second": record.tokens_per_second,
        "setup_seconds": record.setup_seconds,
        "peak_memory_bytes": record.peak_memory_bytes,
        "train_flops_per_token": record.spec.shape.train_flops_per_token,
    }
    return {key: float(value) for key, value in metrics.items() if value is not None}


def budget_metrics(optimum: Optimum) -> dict[str, float]:
    """The answer of a budget as numbers, to sort and plot by."""
    row = flat_optimum_row(optimum)
    names = (*ANSWER, *(f"trials_{outcome}" for outcome in optimum.trials))
    return {name: float(row[name]) for name in names if row[name] is not None}


def answer_metrics(answer: InterimAnswer) -> dict[str, float]:
    """A budget's answer as it looked while the search went on."""
    metrics = {
        "best_depth_so_far": answer.depth,
        "best_depth_low": answer.low,
        "best_depth_high": answer.high,
        "best_loss_so_far": answer.loss,
        **{f"trials_{outcome}_so_far": number for outcome, number in answer.trials.items()},
    }
    return {
        key: float(value)
        for key, value in metrics.items()
        if value is not None and math.isfinite(value)
    }


def audit_metrics(audits: Sequence[RungAudit]) -> dict[str, float]:
    """The audit of each rung as numbers; a rung goes by its tokens, what is not known is out."""
    metrics = {
        f"rung_{audit.rung}_{name}": getattr(audit, name)
        for audit in audits
        for name in ("rank_correlation", "depth_bias", "regret", "stopped", "audit_trials_pruned")
    }
    return {key: float(value) for key, value in metrics.items() if value is not None}


def budget_params(spec: TrialSpec) -> dict[str, str]:
    """What fixes a budget."""
    return {
        "budget": str(spec.budget),
        "count": spec.count.value,
        "horizon_tokens": str(spec.horizon_tokens),
    }
