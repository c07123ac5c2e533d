"""One trial: a spec becomes a model, trains, reports; exceptions become outcomes. Torch only.

The worker keeps the last checkpoint in a file named after the trial. Whoever starts the trial
again, Ray after a crash or a new run after a kill, finds it there and goes on from it.
"""

import os
import statistics
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from objectives.objective import Objective
from search.budget import Budget, evaluation_steps, rung_steps
from search.compiling import pays, possible
from search.config import Precision, StudyConfig
from search.records import CurvePoint, Outcome, Report, TrialSpec
from search.seeds import derive_seed
from search.train import Measurement, Training, TrainPlan, train

REPORT_SECONDS = 5.0
"""A trial between rungs reports at most this often: each report costs the driver milliseconds."""
CHECKPOINT_SECONDS = 300.0
"""A trial between rungs is saved at the first evaluation after this long."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a worker needs to run a trial, beside the objective's data."""

    config: StudyConfig
    budget: Budget
    spec: TrialSpec
    checkpoint: str
    """Path of the checkpoint file, seen alike from every node."""


def train_plan(config: StudyConfig, budget: Budget, spec: TrialSpec, device: str) -> TrainPlan:
    """How a trial of a budget trains; shares of the horizon become steps."""
    settings = config.train
    precision = settings.precision
    return TrainPlan(
        steps=budget.steps,
        batch_size=budget.batch_size,
        learning_rate=spec.learning_rate,
        warmup_steps=max(1, round(settings.warmup * budget.steps)),
        cooldown_steps=round(settings.cooldown * budget.steps),
        weight_decay=settings.weight_decay,
        betas=settings.betas,
        eps=settings.eps,
        grad_clip=settings.grad_clip,
        evaluation_steps=evaluation_steps(config, budget),
        bfloat16=precision is Precision.BFLOAT16
        or (precision is Precision.AUTO and device == "cuda"),
        compiled=_compiled(config, budget, spec, device),
    )


def _compiled(config: StudyConfig, budget: Budget, spec: TrialSpec, device: str) -> bool:
    setting = config.train.compile
    if setting != "auto":
        return setting
    tokens = budget.tokens_per_step
    worth = pays(spec.shape, steps=budget.steps, tokens_per_step=tokens, device_type=device)
    return worth and possible()


class RunningTrial:
    """A trial on its device; iterating trains it and yields what to report."""

    def __init__(self, assignment: Assignment, objective: Objective, device: torch.device) -> None:
        began = time.perf_counter()
        self._assignment, self._objective = assignment, objective
        config, budget, spec = assignment.config, assignment.budget, assignment.spec
        self._plan = train_plan(config, budget, spec, device.type)
        self._rungs = set(rung_steps(config, budget))
        self._seed = derive_seed(config.seed, "trial", spec.seed)
        self._training = Training(
            spec.shape,
            config.model.parametrization.build(),
            self._plan,
            seed=self._seed,
            device=device,
        )
        self._points: list[CurvePoint] = []
        self._restore()
        self._setup_seconds = time.perf_counter() - began

    def reports(self) -> Iterator[Report]:
        """Train to the end; reports at rungs, every few seconds between them, and at the end."""
        if self._training.step:  # restored: its last report may be lost
            yield self._report(self._training.step)
        last_report = last_save = time.monotonic()
        for measurement in train(self._training, self._objective, self._plan, seed=self._seed):
            self._points.append(self._point(measurement))
            if measurement.diverged:
                yield self._report(0, Outcome.DIVERGED, measurement.diverged)
                return
            if measurement.step == self._plan.steps:
                break
            now = time.monotonic()
            at_rung = measurement.step in self._rungs
            if at_rung or now - last_save >= CHECKPOINT_SECONDS:
                self.save()
                last_save = now
            if at_rung or now - last_report >= REPORT_SECONDS:
                last_report = now
                yield self._report(measurement.step)
        yield self._report(0, Outcome.FINISHED, "trained to the horizon")

    def save_weights(self, path: Path) -> None:
        """Write the model's weights, as its `state_dict`."""
        _save_atomically(self._training.model.state_dict(), path)

    def _point(self, measurement: Measurement) -> CurvePoint:
        return CurvePoint(
            step=measurement.step,
            tokens=measurement.step * self._assignment.budget.tokens_per_step,
            loss=measurement.loss,
            train_loss=measurement.train_loss,
            train_seconds=measurement.train_seconds,
            time=time.time(),
            metrics=measurement.metrics,
        )

    def _report(self, step: int, outcome: Outcome | None = None, reason: str = "") -> Report:
        rung = None
        if step in self._rungs:
            recent = self._points[-self._assignment.config.stopping.median_of :]
            rung = (recent[-1].tokens, statistics.median(point.loss for point in recent))
        return Report(
            points=tuple(self._points),
            rung=rung,
            outcome=outcome,
            reason=reason,
            setup_seconds=self._setup_seconds,
            peak_memory_bytes=_peak_memory(self._training.device),
        )

    def save(self) -> None:
        """Keep the state of this moment in the trial's checkpoint file."""
        state = {
            "training": self._training.state_dict(),
            "points": [asdict(point) for point in self._points],
        }
        _save_atomically(state, Path(self._assignment.checkpoint))

    def _restore(self) -> None:
        path = Path(self._assignment.checkpoint)
        if path.exists():
            state = torch.load(path, map_location=self._training.device, weights_only=True)
            self._training.load_state_dict(state["training"])
            self._points = [CurvePoint(**point) for point in state["points"]]


def guarded(reports: Iterator[Report]) -> Iterator[Report]:
    """The same reports; an exception becomes a last report that says what went wrong."""
    try:
        yield from reports
    except Exception as error:  # noqa: BLE001 - a trial's failure is a result, never the search's
        if _is_out_of_memory(error):
            outcome, reason = Outcome.OUT_OF_MEMORY, str(error)
        else:
            traceback.print_exc()
            outcome, reason = Outcome.FAILED, f"{type(error).__name__}: {error}"
        yield Report(points=(), outcome=outcome, reason=reason.split("\n")[0])


def _is_out_of_memory(error: Exception) -> bool:
    # For a machine's own memory PyTorch has no type: a RuntimeError that says so.
    named = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return named or "can't allocate memory" in str(error)


def _save_atomically(state: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # on a worker's own disk it is not there yet
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def _peak_memory(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
