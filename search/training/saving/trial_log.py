"""The reports of a trial, and the checkpoint file that outlives its worker.

The worker keeps the last checkpoint in a file named after the trial. Any process that starts the
trial again, Ray after a crash or a new run after a kill, resumes from it.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fathom.search.analysis.losses.rung_value import rung_value
from fathom.search.formatting import printable
from fathom.search.records import CurvePoint, Outcome, Report
from fathom.search.run_folder import ENDING
from fathom.search.study.hardware.machine import processor
from fathom.search.study.planning.budget import rung_steps, rungs_by_step
from fathom.search.training.assignment import Assignment
from fathom.search.training.layer_metrics import Layers
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.sharded_checkpoint import ShardedSaver, with_parts
from fathom.search.training.state import Measurement

REPORT_SECONDS = 5.0
"""Least time between two reports of a trial between rungs: a report costs the driver milliseconds.
"""
CHECKPOINT_SECONDS = 300.0
"""Time after which a trial is saved, at whatever step it is."""
INTERRUPT_POLL_SECONDS = 0.5
"""Time between two looks for an interrupt of the search."""
LEAVING = threading.Event()
"""Event that is set once the machine of this process is about to be taken away: the process's trial
saves, as at an interrupt, and another worker resumes it."""
AGREE_SECONDS = 2.0
"""Seconds between two steps at which the ranks, waiting for each other, agree whether to save or
report."""


class TrialLog:
    """The measurements of a trial: its reports, and the checkpoint that keeps them."""

    def __init__(
        self, assignment: Assignment, device: torch.device, sharded: Ranks | None = None
    ) -> None:
        """`sharded` are the ranks of a sharded training, which all save and restore."""
        config, budget, self._spec = assignment.config, assignment.budget, assignment.spec
        self._path, self._device = Path(assignment.checkpoint), device
        self._tokens_per_step = budget.tokens_per_step
        self._rungs = rungs_by_step(config, budget)
        self._median_of = config.stopping.median_of
        self._saver = checkpoint.BackgroundSaver(self._path)
        if sharded:
            self._saver = ShardedSaver(self._path, sharded)
        self._points: list[CurvePoint] = []
        self._layers: Layers = {}
        self.setup_seconds = 0.0

    def add(self, measurement: Measurement) -> None:
        """Adds a point to the curve, measured now."""
        point = CurvePoint(
            step=measurement.step,
            tokens=measurement.step * self._tokens_per_step,
            loss=measurement.loss,
            train_loss=measurement.train_loss,
            train_seconds=measurement.train_seconds,
            time=time.time(),
            metrics={printable(name): value for name, value in measurement.metrics.items()},
        )
        self._points.append(point)
        self._layers = measurement.layers or self._layers

    def report(
        self,
        step: int | None,
        outcome: Outcome | None = None,
        reason: str = "",
        *,
        saved: bool = False,
    ) -> Report:
        """A report with every measurement so far, and with the rung's value if `step` is a rung.

        `saved` is true if the state of the training is on disk.
        """
        rung = None
        if step is not None and step in self._rungs:
            losses = [point.loss for point in self._points]
            rung = (self._rungs[step], rung_value(losses, self._median_of))
        peak = None
        if self._device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self._device)
        return Report(
            points=tuple(self._points),
            rung=rung,
            outcome=outcome,
            reason=reason,
            setup_seconds=self.setup_seconds,
            peak_memory_bytes=peak,
            device=name_of(self._device),
            layers=self._layers,
            saved=saved,
        )

    def save(self, training: dict[str, Any]) -> None:
        """Begins to save the state of the training and its curve in the trial's checkpoint file.

        Raises:
            DiskFullError: when there was no room for the state saved before.
        """
        self._saver.start(
            {
                "trial": self._identity(),
                "training": training,
                "points": [asdict(point) for point in self._points],
                "layers": self._layers,
            }
        )

    def is_saving(self) -> bool:
        """True while a state is written; raises `DiskFullError` when there is no room for it."""
        return self._saver.is_writing()

    def finish_saving(self) -> None:
        """Waits until the last state is on disk; raises `DiskFullError` if there is no room."""
        self._saver.finish()

    def stop_saving(self) -> None:
        """Waits until nothing is written any more, whether it has succeeded or not."""
        with suppress(Exception):  # it would take the place of the error that ends the trial
            self._saver.finish()

    def restore(self, like: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The saved state of the training, whose curve this log continues; None without one.

        `like` returns a state into whose tensors those saved in parts are read.
        """
        checkpoint.forget_unfinished(self._path)
        state = checkpoint.load(self._path, self._device)
        if state is None or state.get("trial") != self._identity():
            return None
        state = with_parts(state, self._path, lambda: {"training": like()})
        self._points = [CurvePoint(**point) for point in state["points"]]
        self._layers = state["layers"]
        training: dict[str, Any] = state["training"]
        return training

    def forget(self) -> None:
        """Drops what was restored: the trial starts from its first step."""
        self._points = []
        self._layers = {}

    def _identity(self) -> dict[str, Any]:
        """Fields that identify a training: a checkpoint of another one differs in them."""
        spec = self._spec
        return {"name": spec.trial, "shape": str(spec.shape), "horizon": spec.horizon_tokens}


class DueActions(NamedTuple):
    """Actions that are due after a step of a training."""

    save: bool
    """True if the clock says that the trial is to be saved."""
    ends: bool
    """True at an interrupt of the search."""
    next_step: int
    """The step after which to look again."""


class ReportSchedule:
    """Decides when a training saves a checkpoint and when it reports."""

    def __init__(self, assignment: Assignment, ranks: int = 1) -> None:
        self._rungs = set(rung_steps(assignment.config, assignment.budget))
        self._interrupt = Path(assignment.checkpoint).with_name(ENDING)
        self._ranks = ranks
        self.start()

    def start(self) -> None:
        """Restarts the clocks that decide when to report and when to save."""
        self._polled = self._saved = self._reported = time.monotonic()
        self._looked: tuple[int, float] | None = None

    def due(self, step: int | None) -> tuple[bool, bool]:
        """Returns two flags: True if the trial must save its state and wait for an answer, and True
        if a report is due.

        A trial waits at rungs and at an interrupt; `step` is None at an interrupt between
        evaluations.
        """
        now = time.monotonic()
        waits = step is None or step in self._rungs or self.interrupted()
        report = waits or now - self._reported >= REPORT_SECONDS
        self._saved = now if waits else self._saved
        self._reported = now if report else self._reported
        return waits, report

    def look(self, step: int, *, saving: bool) -> DueActions:
        """Actions that are due after a step, also between evaluations; `saving` is true while the
        last state is still being written."""
        now = time.monotonic()
        save = not saving and now - self._saved >= CHECKPOINT_SECONDS
        if save or saving:
            self._saved = now
        return DueActions(save, self.interrupted(), self._next_look(step, now))

    def _next_look(self, step: int, now: float) -> int:
        """The next step or, with several ranks, a step some seconds later."""
        before, self._looked = self._looked, (step, now)
        if self._ranks == 1 or before is None:
            return step + 1
        pace = (now - before[1]) / max(1, step - before[0])
        return step + max(1, int(AGREE_SECONDS / max(pace, 1e-6)))

    def interrupted(self) -> bool:
        """True while the search is being interrupted, or this machine is taken away. The file that
        signals an interrupt is looked for rarely, since it may be on another machine."""
        now = time.monotonic()
        if now - self._polled < INTERRUPT_POLL_SECONDS:
            return False
        self._polled = now
        return LEAVING.is_set() or self._interrupt.exists()


def name_of(device: torch.device) -> str:
    """The name of a GPU's type, or of this machine's processor, under which speeds are kept."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def reset_peak_memory(device: torch.device) -> None:
    """Forgets the accelerator memory that earlier trials have used."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
