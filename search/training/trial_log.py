"""What a trial says of itself while it trains, and keeps in the file that outlives its worker.

The worker keeps the last checkpoint in a file named after the trial. Whoever starts the trial
again, Ray after a crash or a new run after a kill, finds it there and goes on from it.
"""

import statistics
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from fathom.search.records import CurvePoint, Outcome, Report, TrialSpec
from fathom.search.run_folder import ENDING
from fathom.search.study.budget import Budget, rung_steps
from fathom.search.study.config import StudyConfig
from fathom.search.training import checkpoint
from fathom.search.training.layer_metrics import Layers
from fathom.search.training.loop import Measurement

REPORT_SECONDS = 5.0
"""A trial between rungs reports at most this often: each report costs the driver milliseconds."""
CHECKPOINT_SECONDS = 300.0
"""A trial between rungs is saved at the first evaluation after this long."""
LOOK_SECONDS = 0.5
"""How often a trial looks whether the search is ending."""


class TrialLog:
    """What one trial has measured."""

    def __init__(self, config: StudyConfig, budget: Budget, spec: TrialSpec, path: Path) -> None:
        """The checkpoint's file is `path`."""
        self._spec, self._path = spec, path
        self._tokens_per_step = budget.tokens_per_step
        self._rungs = rung_steps(config, budget)
        self._median_of = config.stopping.median_of
        self._points: list[CurvePoint] = []
        self._layers: Layers = {}
        self.setup_seconds = 0.0

    def add(self, measurement: Measurement) -> None:
        """Another point of the curve."""
        point = CurvePoint(
            step=measurement.step,
            tokens=measurement.step * self._tokens_per_step,
            loss=measurement.loss,
            train_loss=measurement.train_loss,
            train_seconds=measurement.train_seconds,
            time=time.time(),
            metrics=measurement.metrics,
        )
        self._points.append(point)
        self._layers = measurement.layers or self._layers

    def report(
        self,
        step: int,
        outcome: Outcome | None = None,
        reason: str = "",
        *,
        peak_memory_bytes: int | None,
    ) -> Report:
        """All so far; with the value of a rung if the trial stands at one by this step."""
        rung = None
        if step in self._rungs:
            recent = self._points[-self._median_of :]
            rung = (recent[-1].tokens, statistics.median(point.loss for point in recent))
        return Report(
            points=tuple(self._points),
            rung=rung,
            outcome=outcome,
            reason=reason,
            setup_seconds=self.setup_seconds,
            peak_memory_bytes=peak_memory_bytes,
            layers=self._layers,
        )

    def save(self, training: dict[str, Any]) -> None:
        """Keep this state of the training, and the curve up to it, in the trial's checkpoint file.

        A disk that is full costs the trial its checkpoint: it goes on, and may have to begin anew.
        """
        state = {
            "trial": self._identity(),
            "training": training,
            "points": [asdict(point) for point in self._points],
        }
        try:
            checkpoint.save(state, self._path)
        except OSError as error:
            warnings.warn(f"no checkpoint: {error}", stacklevel=2)

    def restore(self, device: torch.device) -> dict[str, Any] | None:
        """The state of the training that was kept, whose curve this takes over; None without."""
        state = checkpoint.load(self._path, device)
        if state is None or state.get("trial") != self._identity():
            return None
        self._points = [CurvePoint(**point) for point in state["points"]]
        training: dict[str, Any] = state["training"]
        return training

    def _identity(self) -> dict[str, Any]:
        """What another training's checkpoint differs in."""
        spec = self._spec
        return {"name": spec.trial, "shape": str(spec.shape), "horizon": spec.horizon_tokens}


class Due:
    """When what trains in a worker is to be saved and to report."""

    def __init__(self, config: StudyConfig, budget: Budget, path: Path) -> None:
        """The ending of a search shows beside the checkpoint at `path`."""
        self._rungs = set(rung_steps(config, budget))
        self._ending = path.with_name(ENDING)
        self._looked = self._saved = self._reported = time.monotonic()

    def begin(self) -> None:
        """Count from here."""
        self._saved = self._reported = time.monotonic()

    def at(self, step: int) -> tuple[bool, bool]:
        """Whether to save and whether to report after the evaluation of a step.

        Both at rungs and while the search is ending, every so often between them.
        """
        now = time.monotonic()
        must = step in self._rungs or self.to_leave()
        save = must or now - self._saved >= CHECKPOINT_SECONDS
        report = must or now - self._reported >= REPORT_SECONDS
        self._saved = now if save else self._saved
        self._reported = now if report else self._reported
        return save, report

    def to_leave(self) -> bool:
        """Whether the search is ending; the folder may be on another machine, so not every step."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        return self._ending.exists()


def peak_memory(device: torch.device) -> int | None:
    """Bytes on the accelerator so far; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def measure_peak_from_here(device: torch.device) -> None:
    """Forget what trials before have used of the accelerator."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
