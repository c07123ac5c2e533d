"""The values that travel from a trial to everything that judges it."""

import dataclasses
import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from fathom.models.shape import Count, Shape


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
    prunable: bool
    """False for confirming trials, and for the random ones that finish to audit the stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One evaluation on the held-out split."""

    step: int
    tokens: int
    loss: float
    """Nats; per token, or per what else the objective judges."""
    train_loss: float
    """Mean over the steps since the last evaluation, in nats as well."""
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
    layers: dict[str, tuple[float, ...]] = field(default_factory=dict)


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
    layers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """At the last look: what was measured inside the model -> one number a layer."""

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


def without_known_points(record: TrialRecord, report: Report) -> Report:
    """The report without the evaluations that the record has already."""
    known = record.curve[-1].step if record.curve else 0
    fresh = tuple(point for point in report.points if point.step > known)
    return dataclasses.replace(report, points=fresh)


def with_report(record: TrialRecord, report: Report) -> TrialRecord:
    """The record of a trial under way, with what the report adds to it."""
    return dataclasses.replace(
        record,
        curve=record.curve + report.points,
        rungs=record.rungs | dict([report.rung] if report.rung else []),
        setup_seconds=report.setup_seconds,
        peak_memory_bytes=report.peak_memory_bytes,
        layers=report.layers or record.layers,
    )


def derive_seed(seed: int, *purpose: object) -> int:
    """A seed below 2**31 that depends on the study's seed and the purpose, and on nothing else.

    The study has one seed; every other seed follows from it and from what it is for.
    """
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 33
