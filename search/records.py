"""The records of trials: values that travel from a trial to the scheduler, the analysis and the
report."""

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import log
from typing import NamedTuple

from fathom.models.shape import Count, Shape
from fathom.models.spend import Spend

HOPELESS_NATS = 1.0
"""Excess of a trial's held-out loss over that of a guess from which the trial counts as diverged.
No less, since a slow starter was 0.13 above the guess at its first evaluation."""

SEVERAL = " + "
"""Text between the names of several devices of a trial."""


class Stage(StrEnum):
    """The exploration stage finds candidates; the confirmation stage trains the best ones to the
    end with fresh seeds."""

    EXPLORE = "explore"
    CONFIRM = "confirm"


class Outcome(StrEnum):
    """The outcome of a trial; only `finished` trials have a loss at the horizon."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"


ENDED_BADLY = (Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, Outcome.FAILED)
"""Outcomes of trials that would not finish if they went on."""


class Scale(NamedTuple):
    """Multiples of the study's learning rate and weight decay, by which a trial trains."""

    rate: float = 1.0
    decay: float = 1.0


UNSCALED = Scale()
"""The study's own learning rate and weight decay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """The complete description of a trial before it starts."""

    trial: str
    """Name of the trial, unique in the study, for example `1M-explore-007`."""
    study: str
    stage: Stage
    budget: int
    """Budget of the trial in the unit of `count`, for example parameters asked for."""
    count: Count
    horizon_tokens: int
    """Training tokens of the trial if it runs to the end."""
    shape: Shape
    seed: int
    """Number of the replicate: in one replicate, all shapes see the same data in the same order."""
    learning_rate: float
    """Peak rate at the base shape of the parametrization."""
    rate_scale: float
    """Factor on the study's learning rate: 1 except in the confirmation stage's bracket of rates.
    """
    decay_scale: float = 1.0
    """Factor on the study's weight decay: 1 except in the confirmation stage's bracket of decays.
    """
    prunable: bool
    """False for confirmation trials and for the audit trials, which are exempt from pruning."""
    fingerprint: str = ""
    """Digest of the study's settings and data."""
    shared_spend: Spend | None = None
    """Amount that each trial of the budget may spend, from which `horizon_tokens` follows; None if
    `horizon_tokens` itself is that amount."""
    shared_tokens: int | None = None
    """Tokens that stand for a whole training of any shape of the budget, used to name rungs; None
    if they equal `horizon_tokens`."""

    @property
    def spend(self) -> Spend:
        """Spend of every trial of the budget that runs to the end."""
        return self.shared_spend or Spend(self.horizon_tokens)

    @property
    def shared_horizon(self) -> int:
        """Tokens of a whole training, on the scale on which trials of a budget are compared."""
        return self.shared_tokens or self.horizon_tokens

    @property
    def scale(self) -> Scale:
        """Multiples of the study's learning rate and weight decay."""
        return Scale(self.rate_scale, self.decay_scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """An evaluation on the held-out split."""

    step: int
    tokens: int
    loss: float
    """Held-out loss in nats, per token or per another unit of the objective."""
    train_loss: float
    """Mean training loss in nats over the steps since the last evaluation; NaN where a training
    command gives none."""
    train_seconds: float
    """Seconds spent in training steps so far, without evaluations."""
    time: float
    """Unix time of the evaluation."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Further metrics of the objective, for example `bits_per_byte`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report of a running trial; the last one has an outcome."""

    points: tuple[CurvePoint, ...]
    """Evaluations that the driver may not have yet; known ones are ignored."""
    rung: tuple[int, float] | None = None
    """Rung at which the trial stands: its tokens, as `TrialRecord.shared` counts them, and the
    trial's value at it; None between rungs."""
    outcome: Outcome | None = None
    reason: str = ""
    setup_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    device: str = ""
    """Name of the GPU or processor that trains, as given by its driver."""
    saved: bool = False
    """True if the state at this report is on disk: the trial may end here and be resumed."""
    layers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    parameters: int | None = None
    """Parameters that a training command counts, by the study's `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A trial with its results; `outcome` is None while it runs."""

    spec: TrialSpec
    outcome: Outcome | None
    reason: str
    """Reason for the outcome as text; empty while the trial runs."""
    curve: tuple[CurvePoint, ...]
    rungs: dict[int, float]
    """Value by which the trial was judged at each rung it has reached, keyed by the rung's tokens
    as `shared` counts them."""
    started: float
    """Unix time of the start."""
    ended: float | None
    setup_seconds: float
    """Seconds of building and initialising the model."""
    peak_memory_bytes: int | None
    """Peak memory on the accelerator; None on CPU."""
    device: str = ""
    """Names of the GPUs or processors that trained it, each once, joined by `SEVERAL`. Step times
    compare only among trials of the same ones."""
    layers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Layer metrics at the last diagnostics interval, by name: one number for each layer."""
    parameters: int | None = None
    """Parameters that a training command counted, by the study's `count`."""

    @property
    def size(self) -> int:
        """Size by the study's `count`: the training command's own number if it gave one."""
        return self.parameters or self.spec.shape.size(self.spec.count)

    @property
    def ln_size(self) -> float:
        """ln of the size as a share of the budget; 0 where the budget leaves the size free."""
        return 0.0 if self.spec.count.frees_size else log(self.size / self.spec.budget)

    @property
    def is_over(self) -> bool:
        """True if the trial has ended and can't be resumed."""
        return self.outcome not in (None, Outcome.STOPPED)

    def has_come_to(self, rung: int) -> bool:
        """True if the trial was judged at a rung or a later one, or has ended."""
        return self.is_over or any(reached >= rung for reached in self.rungs)

    @property
    def tokens(self) -> int:
        """Training tokens seen at the last evaluation."""
        return self.curve[-1].tokens if self.curve else 0

    @property
    def shared_tokens(self) -> float:
        """Tokens of the last evaluation, on the scale on which trials of a budget are compared."""
        return self.shared(self.curve[-1]) if self.curve else 0.0

    def shared(self, point: CurvePoint) -> float:
        """Tokens of an evaluation, on the scale on which trials of a budget are compared: equal
        after equal shares of each training.

        If no step of a shape is exactly at a rung's share, the last step before the rung stands for
        it.
        """
        whole, shared = self.spec.horizon_tokens, self.spec.shared_tokens
        if shared is None:
            return float(point.tokens)
        of_a_step = point.tokens // point.step
        for rung in self.rungs:
            if point.step == max(1, rung * whole // shared // of_a_step):
                return float(rung)
        return point.tokens * shared / whole

    @property
    def shared_times(self) -> list[float]:
        """`shared` of each evaluation."""
        if self.spec.shared_tokens is None:  # at once, as there may be a million
            return [float(point.tokens) for point in self.curve]
        return [self.shared(point) for point in self.curve]

    @property
    def loss(self) -> float | None:
        """Loss at the horizon; None unless the trial finished."""
        return self.curve[-1].loss if self.outcome is Outcome.FINISHED else None

    @property
    def train_flops(self) -> float:
        """FLOPs that the trial has spent on training."""
        return self.spec.shape.train_flops_per_token * self.tokens

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a training step; None if it is not known."""
        return self.train_seconds / self.curve[-1].step if self.train_seconds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Training throughput, evaluations excluded; None if it is not known."""
        return self.tokens / self.train_seconds if self.train_seconds else None

    @property
    def train_seconds(self) -> float:
        """Seconds of training steps so far; 0 before the first evaluation, and where evaluations
        were read after their command had ended."""
        return self.curve[-1].train_seconds if self.curve else 0.0


def by_budget(records: Iterable[TrialRecord]) -> dict[int, list[TrialRecord]]:
    """Returns the trials of each budget, in the order given, keyed by budget, ascending."""
    groups: dict[int, list[TrialRecord]] = {}
    for record in records:
        groups.setdefault(record.spec.budget, []).append(record)
    return dict(sorted(groups.items()))


def in_order_of_names(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Returns the trials ordered by their names, which is the order in which a search chose them,
    not the order in which they ended."""
    return sorted(records, key=lambda record: (len(record.spec.trial), record.spec.trial))


def without_known_points(record: TrialRecord, report: Report) -> Report:
    """The report without the evaluations that the record has already."""
    known = record.curve[-1].step if record.curve else 0
    fresh = tuple(point for point in report.points if point.step > known)
    return dataclasses.replace(report, points=fresh)


def with_report(record: TrialRecord, report: Report) -> TrialRecord:
    """The record of a running trial with the contents of a report added."""
    return dataclasses.replace(
        record,
        curve=record.curve + report.points,
        rungs=record.rungs | dict([report.rung] if report.rung else []),
        setup_seconds=report.setup_seconds,
        peak_memory_bytes=report.peak_memory_bytes,
        device=_joined(record.device, report.device),
        layers=report.layers or record.layers,
        parameters=report.parameters or record.parameters,
    )


def _joined(devices: str, device: str) -> str:
    known = devices.split(SEVERAL) if devices else []
    return SEVERAL.join(dict.fromkeys([*known, *([device] if device else [])]))


def derive_seed(seed: int, *purpose: object) -> int:
    """A seed below 2**31 that depends on the study's seed and the purpose, and on nothing else.

    The study has one seed; every other seed follows from it and from what it is for.
    """
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 33
