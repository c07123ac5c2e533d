"""The reports of a trial, and the checkpoint file that outlives its worker.

The worker keeps the last checkpoint in a file named after the trial. Whatever starts the trial
again, Ray after a crash or a new run after a kill, resumes it from this file.
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
from fathom.search.record_json import from_values
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
"""Least seconds between two reports of a trial between rungs: each costs the search's process
milliseconds."""
CHECKPOINT_SECONDS = 300.0
"""Seconds after which a trial is saved, whatever its step."""
INTERRUPT_POLL_SECONDS = 0.5
"""Seconds between two checks whether the search is being interrupted."""
LEAVING = threading.Event()
"""Set once the machine of this process is about to be taken away: the trial in the process then
saves, as at an interrupt, and another worker resumes it."""
AGREE_SECONDS = 2.0
"""Seconds between two steps at which ranks wait for each other to agree whether to save or
report."""


class TrialLog:
    """Keeps the measurements of a trial, for its reports and in its checkpoint."""

    def __init__(
        self, assignment: Assignment, device: torch.device, sharded: Ranks | None = None
    ) -> None:
        """`sharded` are the ranks of a sharded training; all of them save and restore."""
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
        """Adds a measurement to the curve, as a point with the present time."""
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
        """Begins to save the state of the training, with the curve, in the trial's checkpoint file.

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
        """True while a state is being written; raises `DiskFullError` if there is no room for
        it."""
        return self._saver.is_writing()

    def finish_saving(self) -> None:
        """Waits until the last state is on disk; raises `DiskFullError` if there is no room for
        it."""
        self._saver.finish()

    def stop_saving(self) -> None:
        """Waits until no state is being written, whether writing succeeded or not."""
        with suppress(Exception):  # it would take the place of the error that ends the trial
            self._saver.finish()

    def restore(self, like: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The saved state of the training, after which this log goes on with the saved curve; None
        if there is none.

        `like` returns a state of the same form; tensors saved in parts are read into its tensors.
        """
        checkpoint.forget_unfinished(self._path)
        state = checkpoint.load(self._path, self._device)
        if state is None or state.get("trial") != self._identity():
            return None
        state = with_parts(state, self._path, lambda: {"training": like()})
        self._points = [from_values(CurvePoint, point) for point in state["points"]]
        if any(point.tokens != point.step * self._tokens_per_step for point in self._points):
            raise ValueError("its curve has other tokens than its steps")
        self._layers = dict(state["layers"])
        training: dict[str, Any] = state["training"]
        return training

    def forget(self) -> None:
        """Drops what was restored: the trial starts from its first step."""
        self._points = []
        self._layers = {}

    def _identity(self) -> dict[str, Any]:
        """Fields that identify a training; the checkpoint of another training differs in at least
        one."""
        spec = self._spec
        return {"name": spec.trial, "shape": str(spec.shape), "horizon": spec.horizon_tokens}


class DueActions(NamedTuple):
    """Actions that are due after a step of a training."""

    save: bool
    """True if it is time to save the trial."""
    ends: bool
    """True if the training is to end, since the search is interrupted."""
    next_step: int
    """The step after which to check again."""


class ReportSchedule:
    """Decides when a training saves a checkpoint and when it reports."""

    def __init__(self, assignment: Assignment, ranks: int = 1) -> None:
        self._rungs = set(rung_steps(assignment.config, assignment.budget))
        self._interrupt = Path(assignment.checkpoint).with_name(ENDING)
        self._ranks = ranks
        self.start()

    def start(self) -> None:
        """Restarts the clocks for reporting and saving."""
        self._polled = self._saved = self._reported = time.monotonic()
        self._looked: tuple[int, float] | None = None

    def due(self, step: int | None) -> tuple[bool, bool]:
        """Returns two flags: whether the trial must save its state and wait for an answer, and
        whether a report is due.

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
        """Returns the actions that are due after any step, with or without an evaluation; `saving`
        is true while the last state is still being written."""
        now = time.monotonic()
        save = not saving and now - self._saved >= CHECKPOINT_SECONDS
        if save or saving:
            self._saved = now
        return DueActions(save, self.interrupted(), self._next_look(step, now))

    def _next_look(self, step: int, now: float) -> int:
        """The step after which to check again: the next one or, with several ranks, one some
        seconds later."""
        before, self._looked = self._looked, (step, now)
        if self._ranks == 1 or before is None:
            return step + 1
        pace = (now - before[1]) / max(1, step - before[0])
        return step + max(1, int(AGREE_SECONDS / max(pace, 1e-6)))

    def interrupted(self) -> bool:
        """True while the search is being interrupted, or while this machine is being taken away.
        The file that signals an interrupt is checked only now and then, since it may be on another
        machine."""
        now = time.monotonic()
        if now - self._polled < INTERRUPT_POLL_SECONDS:
            return False
        self._polled = now
        return LEAVING.is_set() or self._interrupt.exists()


def name_of(device: torch.device) -> str:
    """The name of a GPU's type, or of this machine's processor, by which speeds are kept."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def reset_peak_memory(device: torch.device) -> None:
    """Resets the peak of accelerator memory, which earlier trials may have set."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
