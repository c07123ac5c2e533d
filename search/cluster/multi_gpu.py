"""Trains a trial on several GPUs: Ray Train starts a data-parallel worker for each, on any nodes.

The actor that Tune knows trains nothing and holds no GPU. It passes on each report of the leading
worker; that worker waits for the answer, as a trial on one GPU does.
"""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import ray
import torch
from ray import train
from ray.exceptions import OutOfMemoryError
from ray.train import FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchConfig, TorchTrainer, get_device
from ray.util.queue import Empty, Queue

from fathom.objectives.contract import Objective
from fathom.search.cluster.session.ray_session import all_nodes_but
from fathom.search.cluster.tune_internals import PlacementGroupCleanerCallback
from fathom.search.cluster.worker import TrialActor
from fathom.search.records import Report
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import CPU_AS_GPU, granted_device
from fathom.search.training.micro_batches import is_out_of_memory
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.trial import RunningTrial, WorkerLostError

POLL_SECONDS = 1.0
"""Most seconds to wait for a report before checking whether the workers have ended."""


class MultiGpuActor(TrialActor):
    """Actor for a trial on several GPUs, which passes on what its workers report."""

    def place(self, objective: Objective) -> None:
        """Puts the data into Ray's object store, from which the workers of every trial read
        them."""
        self._shared = ray.put(objective)

    def attempt(self, assignment: Assignment, micro_batches: int) -> Iterator[Report]:
        """Yields the reports of a trial, as the leader of its new workers makes them."""
        return data_parallel_reports(assignment, self._shared, micro_batches)


def data_parallel_reports(
    assignment: Assignment, objective: "ray.ObjectRef[Any]", micro_batches: int = 1
) -> Iterator[Report]:
    """Starts workers that resume the trial from its checkpoint, and yields the reports of their
    leader; closing the iterator ends the workers.

    Raises:
        WorkerLostError: when a worker was lost or never came.
        Exception: the error of the training itself.
    """
    reports, answers = (Queue(actor_options={"num_cpus": 0}) for _ in range(2))
    settings = {
        "assignment": assignment,
        "objective": objective,
        "micro_batches": micro_batches,
        "reports": reports,
        "answers": answers,
    }
    with tempfile.TemporaryDirectory() as unused, ThreadPoolExecutor(1) as pool:
        end = pool.submit(_trainer(settings, storage=unused).fit)
        try:
            while (report := _next(reports, end)) is not None:
                yield report
                answers.put(True)
        finally:
            answers.put(False)
    error = end.exception()
    if error is not None:
        raise root_cause(error) from None


class _Trainer(TorchTrainer):
    """Run of Ray Train without the actor that ends the workers of a dead controller: on a busy
    machine, Ray 2.60's actor took a live controller for dead. The workers end with the trial in any
    case."""

    def _create_default_callbacks(self) -> list[Any]:
        callbacks = super()._create_default_callbacks()  # type: ignore[misc]
        return [
            callback
            for callback in callbacks
            if not isinstance(callback, PlacementGroupCleanerCallback)
        ]


def _trainer(settings: dict[str, Any], storage: str) -> TorchTrainer:
    """Returns a run of Ray Train that stores nothing: the trial itself keeps its checkpoints."""
    assignment: Assignment = settings["assignment"]
    resources = assignment.config.resources
    nodes = all_nodes_but(assignment.excluded_nodes)
    return _Trainer(
        _train,
        train_loop_config=settings,
        scaling_config=ScalingConfig(
            num_workers=resources.processes_per_trial,
            use_gpu=True,
            resources_per_worker={"CPU": resources.cpus_per_trial, "GPU": 1},
            label_selector=nodes or None,  # type: ignore[call-arg]
        ),
        torch_config=TorchConfig(backend=backend()),
        run_config=RunConfig(
            name="trial", storage_path=storage, failure_config=FailureConfig(max_failures=0)
        ),
    )


def backend() -> str | None:
    """The library by which workers reduce tensors. None leaves the choice to Ray Train, which takes
    NCCL for workers with GPUs, even if this process is on a machine without any."""
    return "gloo" if os.environ.get(CPU_AS_GPU) else None


def _train(settings: dict[str, Any]) -> None:
    """Trains in one data-parallel worker."""
    assignment: Assignment = settings["assignment"]
    torch.set_num_threads(assignment.config.resources.threads)
    device = granted_device(gpus=1)
    if device.type == "cuda":
        device = get_device()
        torch.cuda.set_device(device)
    context = train.get_context()
    ranks = Ranks(context.get_world_rank(), context.get_world_size())
    trial = RunningTrial(
        assignment,
        ray.get(settings["objective"]).to(device),
        device,
        micro_batches=settings["micro_batches"],
        ranks=ranks,
    )
    if not ranks.is_leader:
        trial.train_with_leader()
        return
    for report in trial.reports():
        settings["reports"].put(report)
        if report.outcome is None and not settings["answers"].get():
            trial.stop_other_ranks()
            return


def _next(reports: Queue, end: Future[Any]) -> Report | None:
    """Waits for the next report and returns it; None once the workers have ended."""
    while True:
        ended = end.done()  # before the wait, so that no last report is missed
        try:
            report: Report = reports.get(timeout=POLL_SECONDS)
        except Empty:
            if ended:
                return None
        else:
            return report


def root_cause(error: BaseException) -> Exception:
    """Returns the error that ended the workers. A worker that fails also ends the others, whose
    errors only say that a worker is gone."""
    raised = error.worker_failures.values() if isinstance(error, WorkerGroupError) else ()
    failures = [
        getattr(failure, "health_check_failure", failure) for failure in raised
    ]  # of a lost process
    for failure in failures:
        if isinstance(failure, OutOfMemoryError):  # its node's: Ray has killed it
            return MemoryError(str(failure))
    lost = any(type(failure).__module__.startswith("ray.") for failure in failures)
    causes = [failure for failure in failures if not _is_peer_lost(failure)]
    return WorkerLostError(str(error)) if lost or not causes else max(causes, key=is_out_of_memory)


def _is_peer_lost(error: Exception) -> bool:
    """True if the error only says that another worker is gone."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
