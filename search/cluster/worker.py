"""Actors in which Ray trains trials, each in a worker process; they decide nothing."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.tune.result import NODE_IP, PID, TRIAL_ID

from fathom.objectives.contract import Objective
from fathom.objectives.errors import UnseenDataError
from fathom.search.cluster.ray_internals import draining_nodes
from fathom.search.records import Report
from fathom.search.run_folder import MARKER
from fathom.search.study.hardware.mps import PIPES
from fathom.search.training.assignment import Assignment
from fathom.search.training.command.trial import CommandTrial
from fathom.search.training.device import DeviceError, granted_device, keep_to_share
from fathom.search.training.saving.trial_log import LEAVING, reset_peak_memory
from fathom.search.training.trial import MachineLeavesError, RunningTrial, catch_failures, run_trial

DRAIN_POLL_SECONDS = 2.0
"""Seconds between two checks with Ray whether this node is being drained; clouds announce that half
a minute to two minutes ahead."""
LONGEST_WAIT_SECONDS = 60
"""Most seconds to wait for the marker file to be visible, since other hosts write to its folder."""


class TrialActor(tune.Trainable):
    """Actor that trains a trial and then the next, as starting an actor is slow."""

    def setup(self, config: dict[str, Any], objective: Objective | None = None) -> None:
        """Puts the data on the device, once for all trials of the actor, then starts the trial."""
        assert objective is not None
        first: Assignment = config["assignment"]
        torch.set_num_threads(first.config.resources.threads)
        if first.gpu_pipes:
            os.environ[PIPES] = first.gpu_pipes  # CUDA reads it as it starts
        watch_for_leaving(ray.get_runtime_context().get_node_id())
        self._refused: DeviceError | UnseenDataError | None = None
        try:
            self.place(objective)
        except (DeviceError, UnseenDataError) as error:
            self._refused = error  # the first step raises it: Tune passes on no error from here
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Starts another trial in the same process."""
        self.cleanup()
        self._leaves = False
        self._assignment: Assignment = new_config["assignment"]
        self._reports = self._start(self._assignment)
        return True

    def step(self) -> dict[str, Any]:
        """Trains up to the next report.

        Raises:
            MachineLeavesError: when the trial has saved on a machine that is being taken away.
        """
        if self._leaves:
            raise MachineLeavesError(f"{socket.gethostname()} is about to be taken away")
        report = next(self._reports)
        self._leaves = LEAVING.is_set() and report.saved
        trial = self._assignment.spec.trial
        return {"trial": trial, "report": report, "done": report.outcome is not None}

    def get_auto_filled_metrics(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Returns only the additions to results that Tune itself reads: trial, host and process.

        By default Tune also adds the whole assignment, which would be sent with each report and
        stay in the memory of the search's process.
        """
        return {TRIAL_ID: self.trial_id, NODE_IP: self._local_ip, PID: os.getpid()}

    def cleanup(self) -> None:
        """Frees the model, before the process ends or the next model is made."""
        self._reports = iter(())

    def place(self, objective: Objective) -> None:
        """Puts the data on this worker's device, where trials use it."""
        self._device = granted_device(granted_gpus())
        self._objective = objective.to(self._device)

    def attempt(self, assignment: Assignment, micro_batches: int) -> Iterator[Report]:
        """Yields the reports of a trial, which resumes from its checkpoint."""
        keep_to_share(self._device, assignment.config.resources)
        reset_peak_memory(self._device)
        trial = RunningTrial(assignment, self._objective, self._device, micro_batches=micro_batches)
        return trial.reports()

    def _start(self, assignment: Assignment) -> Iterator[Report]:
        refuse_unseen_checkpoints(assignment)
        if self._refused:
            raise self._refused
        attempts = run_trial(
            partial(self.attempt, assignment), out_of_memory=assignment.out_of_memory
        )
        yield from catch_failures(attempts)


class CommandActor(TrialActor):
    """Actor for trials that the user's own command trains, on devices of the command's choice."""

    def place(self, objective: Objective) -> None:
        """Keeps the objective, which has no data."""
        self._objective, self._device = objective, torch.device("cpu")

    def attempt(self, assignment: Assignment, micro_batches: int) -> Iterator[Report]:
        """Yields the reports of a trial, whose command resumes by itself."""
        chance_loss = self._objective.chance_loss
        return CommandTrial(assignment, gpus=granted_gpus(), chance_loss=chance_loss).reports()


def watch_for_leaving(node: str) -> None:
    """Starts a thread that tells the trials of this process to save once Ray drains its node,
    because the machine will be taken away (`ray drain-node`, a pod that is deleted)."""

    def watch() -> None:
        while node not in draining_nodes():
            time.sleep(DRAIN_POLL_SECONDS)
        LEAVING.set()

    threading.Thread(target=watch, daemon=True).start()


def granted_gpus() -> int:
    """Number of GPUs that Ray granted to this worker. The worker may see more: Ray hides no GPU
    from a trial that asked for none."""
    return len(ray.get_runtime_context().get_accelerator_ids().get("GPU", []))


class StorageError(ValueError):
    """A node does not see the checkpoints, so the search can't go on."""


def refuse_unseen_checkpoints(assignment: Assignment) -> None:
    """Checks that this node sees the run's checkpoints; otherwise trials would start from step 0.

    Raises:
        StorageError: when the run's marker is not beside the checkpoint, or is another run's.
    """
    marker = Path(assignment.checkpoint).with_name(MARKER)
    for _ in range(LONGEST_WAIT_SECONDS):  # NFS shows a file to other hosts after some seconds
        if marker.exists():
            break
        time.sleep(1)
    if (
        marker.exists()
        and marker.read_text(encoding="utf-8", errors="replace") == assignment.marker
    ):
        return
    raise StorageError(
        f"every node must see {marker.parent}, and {socket.gethostname()} does not; mount one "
        "folder at that path on all of them (docs/clusters.md), or choose another with --runs"
    )
