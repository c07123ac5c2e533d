"""A trial on several GPUs: Ray Train starts a process for each, on whatever nodes have them.

The actor that Tune knows trains nothing and holds no GPU. It hands each report of the leading
process on, and the process waits for the answer, as a trial on one GPU waits at its reports.
"""

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
from fathom.search.cluster.ray_session import elsewhere
from fathom.search.cluster.worker import TrialActor, threads
from fathom.search.records import Report
from fathom.search.training.data_parallel import Ranks
from fathom.search.training.trial import Assignment, RunningTrial, WorkerLostError, is_out_of_memory

LOOK_SECONDS = 1.0
"""How often a team that is silent is looked at: it may have ended."""


class TeamActor(TrialActor):
    """Tune's side of trials on several GPUs each."""

    def place(self, objective: Objective) -> None:
        """Into the object store, from where the processes of every trial take it."""
        self._shared = ray.put(objective)

    def attempt(self, assignment: Assignment, micro_batches: int) -> Iterator[Report]:
        """What the leading process of a new team reports."""
        return team_reports(assignment, self._shared, micro_batches)


def team_reports(
    assignment: Assignment, objective: "ray.ObjectRef[Any]", micro_batches: int = 1
) -> Iterator[Report]:
    """Start a team, which takes the trial up where its checkpoint is; closing this ends the team.

    Raises:
        WorkerLostError: when a process was lost or never came.
        Exception: what the training itself raised.
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
        raise cause(error) from None


def _trainer(settings: dict[str, Any], storage: str) -> TorchTrainer:
    """Ray Train's run; it keeps nothing in its storage, for checkpoints are the trial's own."""
    resources = settings["assignment"].config.resources
    return TorchTrainer(
        _train,
        train_loop_config=settings,
        scaling_config=ScalingConfig(
            num_workers=resources.processes_per_trial,
            use_gpu=True,
            resources_per_worker={"CPU": resources.cpus_per_trial, "GPU": 1},
            label_selector=elsewhere(settings["assignment"].avoid) or None,  # type: ignore[call-arg]
        ),
        torch_config=TorchConfig(
            backend="nccl" if torch.distributed.is_nccl_available() else "gloo"
        ),
        run_config=RunConfig(
            name="team", storage_path=storage, failure_config=FailureConfig(max_failures=0)
        ),
    )


def _train(settings: dict[str, Any]) -> None:
    """One process of a team."""
    assignment = settings["assignment"]
    torch.set_num_threads(threads(assignment))
    device = get_device() if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
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
    if not ranks.leads:
        trial.follow()
        return
    for report in trial.reports():
        settings["reports"].put(report)
        if report.outcome is None and not settings["answers"].get():
            trial.stop()
            return


def _next(reports: Queue, end: Future[Any]) -> Report | None:
    """The next report; None when the team has ended and no more will come."""
    while True:
        ended = end.done()  # before the look, so that no last report is missed
        try:
            report: Report = reports.get(timeout=LOOK_SECONDS)
        except Empty:
            if ended:
                return None
        else:
            return report


def cause(error: BaseException) -> Exception:
    """What a team ended of. A process that fails takes the others with it, which say less."""
    raised = error.worker_failures.values() if isinstance(error, WorkerGroupError) else ()
    failures = [getattr(one, "health_check_failure", one) for one in raised]  # of a lost process
    for one in failures:
        if isinstance(one, OutOfMemoryError):  # its node's: Ray has killed it
            return MemoryError(str(one))
    lost = any(type(one).__module__.startswith("ray.") for one in failures)
    own = [one for one in failures if not _is_of_a_peer(one)]
    return WorkerLostError(str(error)) if lost or not own else max(own, key=is_out_of_memory)


def _is_of_a_peer(error: Exception) -> bool:
    """Whether it says that another process is gone."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
