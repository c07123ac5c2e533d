"""Records as JSON and back; what comes back is checked, since files can be damaged or forged."""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

from fathom.models.shape import Count, Normalization, Positions, Residual, Shape
from fathom.search.record_validation import checked
from fathom.search.records import CurvePoint, Outcome, Report, Stage, TrialRecord, TrialSpec

TRIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A trial's name, which is also its checkpoint's: no path out of the folder."""
CHOICES = {"positions": Positions, "residual": Residual, "norm": Normalization}
"""Fields of a shape that are one of a few words."""
LATEST = 2**40
"""Seconds: no clock shows more."""


def to_json(record: TrialRecord) -> dict[str, Any]:
    """One line of `records.jsonl`, flat where a reader would look first."""
    spec = record.spec
    return {
        "trial": spec.trial,
        "study": spec.study,
        "stage": spec.stage.value,
        "budget": spec.budget,
        "count": spec.count.value,
        "horizon_tokens": spec.horizon_tokens,
        "seed": spec.seed,
        "learning_rate": spec.learning_rate,
        "rate_scale": spec.rate_scale,
        "prunable": spec.prunable,
        "shape": shape_to_json(spec.shape),
        "params_total": spec.shape.params_total,
        "params_non_embedding": spec.shape.params_non_embedding,
        "train_flops_per_token": spec.shape.train_flops_per_token,
        "outcome": record.outcome.value if record.outcome else None,
        "reason": record.reason,
        "tokens": record.tokens,
        "loss": record.loss,
        "rungs": {str(tokens): value for tokens, value in record.rungs.items()},
        "curve": [_point_to_json(point) for point in record.curve],
        "started": record.started,
        "ended": record.ended,
        "setup_seconds": record.setup_seconds,
        "step_seconds": record.step_seconds,
        "tokens_per_second": record.tokens_per_second,
        "peak_memory_bytes": record.peak_memory_bytes,
        "layers": record.layers,
    }


def _point_to_json(point: CurvePoint) -> dict[str, Any]:
    # By hand: `asdict` copies deeply, which takes ten times as long, at every evaluation.
    return {
        "step": point.step,
        "tokens": point.tokens,
        "loss": point.loss,
        "train_loss": point.train_loss,
        "train_seconds": point.train_seconds,
        "time": point.time,
        "metrics": point.metrics,
    }


def report_to_json(report: Report) -> dict[str, Any]:
    """What a report adds to a record that is under way."""
    return {
        "curve": [_point_to_json(point) for point in report.points],
        "rung": report.rung,
        "setup_seconds": report.setup_seconds,
        "peak_memory_bytes": report.peak_memory_bytes,
        "layers": report.layers,
    }


def report_from_json(line: dict[str, Any]) -> Report:
    """The report of a line."""
    values = {
        "points": _curve_from_json(line["curve"]),
        "rung": _rung_from_json(line["rung"]) if line["rung"] else None,
        "setup_seconds": line["setup_seconds"],
        "peak_memory_bytes": line["peak_memory_bytes"],
    }
    return Report(**checked(Report, values), layers=_layers_from_json(line))


def from_json(line: dict[str, Any]) -> TrialRecord:
    """The record of a line; derived figures are computed again, not read.

    Raises:
        KeyError, TypeError, ValueError: when it is not a line that `to_json` wrote.
    """
    plain = ("reason", "started", "ended", "setup_seconds", "peak_memory_bytes")
    values = {
        **{name: line[name] for name in plain},
        "spec": spec_from_json(line),
        "outcome": Outcome(line["outcome"]) if line["outcome"] else None,
        "curve": _curve_from_json(line["curve"]),
        "rungs": dict(map(_rung_from_json, line["rungs"].items())),
    }
    record = TrialRecord(**checked(TrialRecord, values), layers=_layers_from_json(line))
    _check_end(record)
    return record


def spec_from_json(line: dict[str, Any]) -> TrialSpec:
    """The part of a line that fixes the trial."""
    plain = ("trial", "study", "budget", "horizon_tokens", "seed", "learning_rate", "rate_scale")
    values = {
        **{name: line[name] for name in plain},
        "prunable": line["prunable"],
        "stage": Stage(line["stage"]),
        "count": Count(line["count"]),
        "shape": shape_from_json(line["shape"]),
    }
    spec = TrialSpec(**checked(TrialSpec, values))
    if not TRIAL.fullmatch(spec.trial):
        raise ValueError(f"`trial` can't be {spec.trial[:40]!r}")
    for name in ("budget", "horizon_tokens", "learning_rate", "rate_scale"):
        if not 0 < getattr(spec, name) < math.inf:
            raise ValueError(f"`{name}` can't be {getattr(spec, name)}")
    return spec


def shape_to_json(shape: Shape) -> dict[str, Any]:
    """Its fields, choices as plain text."""
    return dataclasses.asdict(shape) | {name: getattr(shape, name).value for name in CHOICES}


def shape_from_json(values: dict[str, Any]) -> Shape:
    """The shape whose fields these are; options that a file does not know have their defaults."""
    choices = {name: kind(values[name]) for name, kind in CHOICES.items() if name in values}
    return Shape(**checked(Shape, values | choices))


def _curve_from_json(points: list[dict[str, Any]]) -> tuple[CurvePoint, ...]:
    curve = tuple(CurvePoint(**checked(CurvePoint, point)) for point in points)
    step, tokens = 0, 0
    for point in curve:
        if point.step <= step or point.tokens <= tokens or not 0 < point.train_seconds < math.inf:
            raise ValueError(f"`curve` does not go on after step {step}")
        _check_moment("time", point.time)
        step, tokens = point.step, point.tokens
    return curve


def _layers_from_json(line: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """Nothing in the lines of versions that did not look."""
    layers = line.get("layers", {})
    return {name: tuple(float(value) for value in values) for name, values in layers.items()}


def _rung_from_json(rung: Iterable[Any]) -> tuple[int, float]:
    tokens, value = rung
    if int(tokens) < 1 or isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a rung must be tokens and a value")
    return int(tokens), value


def _check_end(record: TrialRecord) -> None:
    """What each outcome promises to those who read the record."""
    _check_moment("started", record.started)
    if record.outcome is not None:
        _check_moment("ended", -1.0 if record.ended is None else record.ended)
    if record.outcome is Outcome.FINISHED and not (
        record.curve and math.isfinite(record.curve[-1].loss)
    ):
        raise ValueError("a finished trial must have a loss")
    if record.outcome is Outcome.STOPPED and not record.rungs:
        raise ValueError("a stopped trial must have a rung")


def _check_moment(name: str, seconds: float) -> None:
    if not 0 <= seconds < LATEST:
        raise ValueError(f"`{name}` can't be {seconds}")
