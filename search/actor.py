"""Ray's side of a trial, in a worker, which imports from here nothing that decides."""

from collections.abc import Iterator
from typing import Any

import torch
from ray import tune

from objectives.objective import Objective
from search.records import Report
from search.trial import Assignment, RunningTrial, guarded


class TrialActor(tune.Trainable):
    """Ray's side of a trial; the actor outlives it and takes the next, as starting one is slow."""

    def setup(self, config: dict[str, Any], objective: Objective | None = None) -> None:
        """Place the data once, then start the trial."""
        assert objective is not None
        gpus = torch.cuda.is_available()
        self._device = torch.device("cuda" if gpus else "cpu")
        threads = int(config["assignment"].config.resources.cpus_per_trial)
        torch.set_num_threads(max(1, threads))
        self._objective = objective.to(self._device)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Start another trial in the same process."""
        self._reports = self._start(new_config["assignment"])
        return True

    def step(self) -> dict[str, Any]:
        """Train up to the next report."""
        report = next(self._reports)
        return {"report": report, "done": report.outcome is not None}

    def cleanup(self) -> None:
        """Let the model go before the process does."""
        self._reports = iter(())

    def _start(self, assignment: Assignment) -> Iterator[Report]:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

        def run() -> Iterator[Report]:
            yield from RunningTrial(assignment, self._objective, self._device).reports()

        return guarded(run())
