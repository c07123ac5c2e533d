"""Ray's side of a trial, in a worker, which imports from here nothing that decides."""

import socket
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from ray import tune

from fathom.objectives.contract import Objective, ReplicatedObjective
from fathom.search.records import Report
from fathom.search.run_folder import MARKER
from fathom.search.training.trial import Assignment, RunningTrial, ending_with, guarded, run_trial
from fathom.search.training.trial_group import Reports, run_group
from fathom.search.training.trial_log import measure_peak_from_here

LONGEST_WAIT_SECONDS = 60
"""For a folder that other hosts write to."""


class TrialActor(tune.Trainable):
    """Ray's side of a trial; the actor outlives it and takes the next, as starting one is slow."""

    def setup(self, config: dict[str, Any], objective: Objective | None = None) -> None:
        """Place the data once, then start the trial."""
        assert objective is not None
        torch.set_num_threads(threads(config["assignments"][0]))
        self.place(objective)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Start another trial in the same process."""
        self.cleanup()
        self._reports = self._start(new_config["assignments"])
        return True

    def step(self) -> dict[str, Any]:
        """Train up to the next report, or the next ones of trials that train as one model."""
        reports = next(self._reports)
        return {"reports": reports, "done": all(report.outcome for _, report in reports)}

    def cleanup(self) -> None:
        """Let the model go before the process does, or before the next one."""
        self._reports = iter(())

    def place(self, objective: Objective) -> None:
        """Where trials find the data."""
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._objective = objective.to(self._device)

    def attempt(self, assignment: Assignment, micro_batches: int) -> Iterator[Report]:
        """Take a trial up where its checkpoint is."""
        measure_peak_from_here(self._device)
        trial = RunningTrial(assignment, self._objective, self._device, micro_batches=micro_batches)
        return trial.reports()

    def attempt_all(self, assignments: Sequence[Assignment]) -> Iterator[Reports]:
        """Begin several trials as one model."""
        measure_peak_from_here(self._device)
        objective = cast(ReplicatedObjective, self._objective)  # others are refused beforehand
        return run_group(assignments, objective, self._device)

    def _start(self, assignments: Sequence[Assignment]) -> Iterator[Reports]:
        refuse_unseen_checkpoints(assignments[0])
        if len(assignments) > 1:
            yield from self.attempt_all(assignments)
            return
        for report in self._alone(assignments[0]):
            yield ((assignments[0].spec.trial, report),)

    def _alone(self, assignment: Assignment) -> Iterator[Report]:
        attempt = partial(self.attempt, assignment)
        reports = guarded(run_trial(attempt, short_of_memory=assignment.short_of_memory))
        if not assignment.parted:
            return reports
        how = f"alone, as the model of its group was lost: {assignment.parted}"
        return ending_with(how, reports)


def threads(assignment: Assignment) -> int:
    """CPU threads of a process that trains."""
    return max(1, int(assignment.config.resources.cpus_per_trial))


class StorageError(ValueError):
    """A node does not see the checkpoints: the search can't go on, and the message says why."""


def refuse_unseen_checkpoints(assignment: Assignment) -> None:
    """A node with checkpoints of its own would make trials begin anew that go on elsewhere.

    Raises:
        StorageError: when the run's marker is not beside the checkpoint, or is another run's.
    """
    marker = Path(assignment.checkpoint).with_name(MARKER)
    for _ in range(LONGEST_WAIT_SECONDS):  # NFS shows a file to other hosts after some seconds
        if marker.exists():
            break
        time.sleep(1)
    if marker.exists() and marker.read_text(encoding="utf-8") == assignment.marker:
        return
    raise StorageError(
        f"every node must see {marker.parent}, and {socket.gethostname()} does not; mount one "
        "folder at that path on all of them (docs/clusters.md), or choose another with --runs"
    )
