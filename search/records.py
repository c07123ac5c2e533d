"""The values that travel from a trial to everything that judges it, and the file that keeps them.

`records.jsonl` is the source of truth: one line a finished trial, appended, never rewritten.
MLflow, the report and every statistic are derived from it.
"""

import dataclasses
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from models.shape import Count, Positions, Shape
from search.sound import DAMAGE, DamagedFileError, checked, problem_of

TRIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A trial's name, which is also its checkpoint's: no path out of the folder."""
LATEST = 2**40
"""Seconds: no clock shows more."""

T = TypeVar("T")


class Stage(StrEnum):
    """Exploring finds the candidates; confirming trains the leaders to the end with fresh seeds."""

    EXPLORE = "explore"
    CONFIRM = "confirm"


class Outcome(StrEnum):
    """How a trial ended. Only `finished` trials have a loss at the horizon."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """Everything that fixes a trial before it starts."""

    trial: str
    """Unique in the study, for example `1M-explore-007`."""
    study: str
    stage: Stage
    budget: int
    """Parameters asked for, under `count`."""
    count: Count
    horizon_tokens: int
    """Training tokens of a trial that runs to the end."""
    shape: Shape
    seed: int
    """Number of the replicate: with the same one, every shape sees the same data in order."""
    learning_rate: float
    """Peak rate at the base shape of the parametrization."""
    rate_scale: float
    """Multiple of the study's rate: 1 but in the confirming stage's bracket."""
    may_stop: bool
    """False for confirming trials, and for the random ones that finish to audit the stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One evaluation on the held-out split."""

    step: int
    tokens: int
    loss: float
    """Nats per token."""
    train_loss: float
    """Mean over the steps since the last evaluation, nats per token."""
    train_seconds: float
    """Time spent in training steps so far, evaluations excluded."""
    time: float
    """Unix time of the evaluation."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What else the objective measures, for example `bits_per_byte`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a trial says of itself while it runs; the last one has an outcome."""

    points: tuple[CurvePoint, ...]
    """All evaluations so far that the driver may not have seen; known ones are ignored."""
    rung: tuple[int, float] | None = None
    """Tokens and value, when the trial stands at a rung."""
    outcome: Outcome | None = None
    reason: str = ""
    setup_seconds: float = 0.0
    peak_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A trial and how it went; while it runs, `outcome` is None."""

    spec: TrialSpec
    outcome: Outcome | None
    reason: str
    """Why it ended, in words; empty while it runs."""
    curve: tuple[CurvePoint, ...]
    rungs: dict[int, float]
    """Tokens of each rung reached -> the value by which it was judged there."""
    started: float
    """Unix time."""
    ended: float | None
    setup_seconds: float
    """Building and initialising the model."""
    peak_memory_bytes: int | None
    """On the accelerator; None on CPU."""

    @property
    def tokens(self) -> int:
        """Training tokens seen at the last evaluation."""
        return self.curve[-1].tokens if self.curve else 0

    @property
    def loss(self) -> float | None:
        """Loss at the horizon; None unless the trial finished."""
        return self.curve[-1].loss if self.outcome is Outcome.FINISHED else None

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a training step."""
        return self.curve[-1].train_seconds / self.curve[-1].step if self.tokens else None

    @property
    def tokens_per_second(self) -> float | None:
        """Training throughput, evaluations excluded."""
        return self.tokens / self.curve[-1].train_seconds if self.tokens else None


def news(record: TrialRecord, report: Report) -> Report:
    """The report with the evaluations that the record lacks."""
    known = record.curve[-1].step if record.curve else 0
    fresh = tuple(point for point in report.points if point.step > known)
    return dataclasses.replace(report, points=fresh)


def advanced(record: TrialRecord, report: Report) -> TrialRecord:
    """The record of a trial under way after such news of it."""
    return dataclasses.replace(
        record,
        curve=record.curve + report.points,
        rungs=record.rungs | dict([report.rung] if report.rung else []),
        setup_seconds=report.setup_seconds,
        peak_memory_bytes=report.peak_memory_bytes,
    )


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
        "may_stop": spec.may_stop,
        "shape": dataclasses.asdict(spec.shape),
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
    }


def report_from_json(line: dict[str, Any]) -> Report:
    """The report of a line."""
    values = {
        "points": _curve_from_json(line["curve"]),
        "rung": _rung_from_json(line["rung"]) if line["rung"] else None,
        "setup_seconds": line["setup_seconds"],
        "peak_memory_bytes": line["peak_memory_bytes"],
    }
    return Report(**checked(Report, values))


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
    record = TrialRecord(**checked(TrialRecord, values))
    _check_end(record)
    return record


def spec_from_json(line: dict[str, Any]) -> TrialSpec:
    """The part of a line that fixes the trial."""
    plain = ("trial", "study", "budget", "horizon_tokens", "seed", "learning_rate", "rate_scale")
    values = {
        **{name: line[name] for name in plain},
        "may_stop": line["may_stop"],
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


def shape_from_json(values: dict[str, Any]) -> Shape:
    """The shape whose fields these are."""
    return Shape(**checked(Shape, values | {"positions": Positions(values["positions"])}))


def _curve_from_json(points: list[dict[str, Any]]) -> tuple[CurvePoint, ...]:
    curve = tuple(CurvePoint(**checked(CurvePoint, point)) for point in points)
    step, tokens = 0, 0
    for point in curve:
        if point.step <= step or point.tokens <= tokens or not 0 < point.train_seconds < math.inf:
            raise ValueError(f"`curve` does not go on after step {step}")
        _check_moment("time", point.time)
        step, tokens = point.step, point.tokens
    return curve


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


def append_line(path: Path, line: dict[str, Any], *, wait: bool = True) -> None:
    """Append one JSON line and see it to the disk before going on; a whole line or none.

    Without `wait` the system writes it when it likes: a process that is killed loses nothing, but a
    machine that loses power loses the last seconds, up to the next line that is waited for.
    """
    rest = memoryview(json.dumps(line, allow_nan=True).encode() + b"\n")
    with path.open("ab", buffering=0) as file:
        begin = file.tell()
        try:
            while rest:
                rest = rest[file.write(rest) or 0 :]
            if wait:
                os.fsync(file.fileno())
        except OSError:  # of a full disk: half a line would spoil the one that comes after it
            file.truncate(begin)
            raise


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines of a JSONL file; a last line cut short by a crash is left out."""
    return read_as(path, lambda values: values)


def read_as(path: Path, convert: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """What each whole line of a JSONL file stands for.

    Raises:
        DamagedFileError: at a line that is no JSON object, or that `convert` can't read.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and not _is_object(line):
                return
            try:
                values = json.loads(line.decode())
                if not isinstance(values, dict):
                    raise TypeError("it is no JSON object")
                value = convert(values)
            except DAMAGE as error:
                raise DamagedFileError(
                    f"{path}, line {number}: {problem_of(error)}; restore the file, or delete that "
                    "line: what it held is done again"
                ) from error
            yield value


def repair(path: Path) -> None:
    """Cut off a last line that a crash left unfinished, so that the next one starts afresh.

    Raises:
        DamagedFileError: when the rest after the last line is not the beginning of one.
    """
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        rest = content[end:]
        if _is_object(rest):  # only its end is missing
            file.write(b"\n")
        elif rest.strip(b"\0") and (not rest.startswith(b"{") or b"\r" in rest):
            number = content.count(b"\n") + 1
            raise DamagedFileError(
                f"{path}, line {number}: it is not JSON; restore the file, or delete that line"
            )
        else:
            file.truncate(end)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode()), dict)
    except (ValueError, RecursionError):
        return False


def read_records(path: Path) -> list[TrialRecord]:
    """All trials of a run that have ended, in the order in which they ended.

    A trial that was stopped and taken up again has a line for each end; the last one holds.
    """
    return last_lives(read_as(path, from_json))


def last_lives(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """The last record of every trial, in the order of these."""
    last: dict[str, TrialRecord] = {}
    for record in records:
        last.pop(record.spec.trial, None)
        last[record.spec.trial] = record
    return list(last.values())
