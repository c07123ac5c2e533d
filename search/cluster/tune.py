"""Runs the trials of a study as a single Ray Tune experiment, which decides nothing by itself.

Ray schedules, places and restarts trials. The scheduler decides which trial is next, which trials
stop, and what the end of a trial means; the adapters below pass its answers to Ray.
"""

import errno
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import TuneError
from ray.tune.experiment import Trial
from ray.tune.result import NODE_IP
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from fathom.objectives.contract import Objective
from fathom.objectives.errors import UnseenDataError
from fathom.search.cluster.equal_failures import EqualFailures
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.multi_gpu import MultiGpuActor
from fathom.search.cluster.session import ray_session
from fathom.search.cluster.tune_internals import (
    error_of,
    errors_kept_in_memory,
    memory_kills_as_deaths,
)
from fathom.search.cluster.worker import CommandActor, StorageError, TrialActor
from fathom.search.cluster.worker_failures import SharedFailures, WorkerFailures
from fathom.search.records import Outcome, Report, TrialSpec
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import changed
from fathom.search.study.hardware.fit import fits_machine
from fathom.search.study.hardware.memory import memory_words
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.training.assignment import Assignment
from fathom.search.training.device import DeviceError
from fathom.search.training.saving.checkpoint import DISK_FULL, DiskFullError
from fathom.search.training.trial import HorizonError

TURN_SECONDS = 0.05
"""Least duration in seconds of a turn of Tune's loop while no worker is to start."""
MULTI_GPU_ACTOR_NEEDS = {"memory": 2.0**20}
"""Resources of a `MultiGpuActor`: next to none, since Ray Train holds the resources of its workers,
but Tune accepts no actor without any."""


class Adapter:
    """Passes the scheduler's answers to Ray, in the process of the search.

    Ray pickles these adapters, to restore experiments in a way that Fathom does not use.
    """

    def __init__(
        self, scheduler: Scheduler, failures: WorkerFailures, shared: SharedFailures,
        equal: EqualFailures, interrupt: Interrupt, tick: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`tick` is called at every turn of Tune's loop."""
        super().__init__()
        self._scheduler, self._failures, self._shared = scheduler, failures, shared
        self._equal, self._interrupt, self._tick = equal, interrupt, tick

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def _report(self, result: dict[str, Any]) -> bool:
        """Passes a report to the scheduler; returns True if the trial continues. If the disk has no
        room for the report, the search pauses."""
        trial: str = result["trial"]
        report: Report = result["report"]
        if self._shared.holds(trial, report):
            return False
        try:
            for name, held in self._shared.released().items():
                self._scheduler.report(name, held)
            shape = self._scheduler.live[trial].spec.shape
            self._equal.heard(report, shape, result.get(NODE_IP, ""))
            return self._scheduler.report(trial, report)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._interrupt.request(self._scheduler.folder.ending, error)
            return report.outcome is None


class SearcherAdapter(Adapter, Searcher):
    """Asks the scheduler for the next trial and passes on the last report of each."""

    def __init__(
        self, *given: Any, resources: ResourcesConfig | None = None, pipes: Path | None = None
    ) -> None:
        """`resources` are those of one trial, by default the study's; `pipes` is the folder of
        CUDA's MPS, by which trials share a GPU."""
        super().__init__(*given)
        config = self._scheduler.config
        self._config = changed(config, {"resources": resources or config.resources})
        self._pipes = str(pipes or "")

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next assignment for a worker; None to make Ray ask again later."""
        scheduler, requested = self._scheduler, self._interrupt.requested
        spec = None if requested else self._next_trial()
        if spec is None and (scheduler.done or requested):
            finished: Any = Searcher.FINISHED  # Ray's word for the end is a string
            return finished  # type: ignore[no-any-return]
        return {"assignment": self._assignment(spec)} if spec else None

    def _next_trial(self) -> TrialSpec | None:
        scheduler, shared = self._scheduler, self._shared
        if self._failures.pauses:
            time.sleep(TURN_SECONDS)  # with no worker, Tune's loop would wait for nothing
            return None
        if shared.many:
            shared.check(scheduler.live)
        running = {name for search in scheduler.budgets.values() for name in search.running}
        if self._equal.many and not scheduler.done:
            if not running:
                self._equal.check()
            return None
        spec = None if shared.many and running - shared.held else scheduler.next_trial()
        if spec is None:
            shared.check(scheduler.live)
        return spec

    def _assignment(self, spec: TrialSpec) -> Assignment:
        scheduler, failures = self._scheduler, self._failures
        return Assignment(
            config=self._config,
            budget=scheduler.budgets[spec.budget].budget.of_shape(spec.shape),
            spec=spec,
            checkpoint=str(scheduler.folder.checkpoint(spec.trial).absolute()),
            marker=scheduler.folder.marker.read_text(encoding="utf-8", errors="replace"),
            working_folder=str(Path.cwd()),
            out_of_memory=spec.trial in failures.out_of_memory,
            excluded_nodes=failures.excluded_nodes(spec.trial),
            alone=spec.trial in failures.alone,
            gpu_pipes=self._pipes,
        )

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Passes on the last report of a trial, unless the scheduler has it: Tune gives it to this
        method alone."""
        if error or result is None:
            return  # `on_trial_error` has told the scheduler, with the reason
        trial = result["trial"]
        if trial not in self._scheduler.live or trial in self._interrupt.saved:
            return
        try:
            self._report(result)
        except Exception as failure:  # noqa: BLE001 - Tune would print it and go on without the trial
            self._interrupt.request(self._scheduler.folder.ending, failure)

    def save(self, checkpoint_path: str) -> None:
        """Does nothing: the scheduler has written everything down already."""

    def restore(self, checkpoint_path: str) -> None:
        """Does nothing: a new run starts a new experiment from the scheduler's files."""


class SchedulerAdapter(Adapter, FIFOScheduler):
    """Passes reports to the scheduler and its decisions to Ray.

    It also does the work of Tune's callbacks: with any callback, Tune imports every logger that it
    knows, MLflow among them, which takes two seconds before the first trial.
    """

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Returns the decision for Ray to continue or stop a trial, after a report of its
        worker."""
        name, report = result["trial"], result["report"]
        self._failures.reported(name)
        if not self._report(result):
            return TrialScheduler.STOP
        if self._interrupt.requested and report.saved:  # others save as soon as they hear of it
            self._interrupt.saved.add(name)
            return TrialScheduler.STOP
        return TrialScheduler.CONTINUE

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Resumes or ends a trial whose worker died.

        If the disk has no room for a checkpoint, the search pauses; the trial resumes with the
        search.
        """
        error, scheduler = error_of(trial), self._scheduler
        cause = getattr(error, "cause", None)  # what the worker raised
        if isinstance(cause, StorageError | DeviceError | UnseenDataError):
            raise cause
        full = isinstance(cause, DiskFullError)
        if full:
            self._interrupt.request(scheduler.folder.ending, cause)
        trial._default_result_or_future = None  # a dead worker's, which Tune would ask for
        name = _trial_name(trial)
        if name not in scheduler.live:
            return
        if isinstance(cause, HorizonError):
            ended = scheduler.budgets[scheduler.live[name].spec.budget].ended
            if not any(record.outcome is Outcome.FINISHED for record in ended):
                raise cause
            scheduler.end(name, Outcome.FAILED, str(cause))
            return
        end = None if full else self._failures.end_of(name, error)
        if end and end[0] is Outcome.OUT_OF_MEMORY and self._fits(name):
            self._interrupt.request(scheduler.folder.ending, _lack(name, end[1], scheduler.folder))
            end = None
        if end is None:
            scheduler.restart(name)
        else:
            scheduler.end(name, *end)

    def _fits(self, name: str) -> bool:
        """True if a trial fits this machine's memory by itself, so that other programs must have
        taken what it lacked; always true for a trial whose tensors are on a GPU."""
        config, shape = self._scheduler.config, self._scheduler.live[name].spec.shape
        return self._failures.on_gpu or fits_machine(shape, config.train, config.resources)

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Called at every turn of Tune's loop; returns None, so that trials start in the order in
        which they came.

        Tune's own method would choose the same, but looks through all trials of the search each
        time.
        """
        if self._failures.restricted:
            # Tune keeps idle workers for trials that may run anywhere, and with them the resources
            # for which a trial waits that may not.
            tune_controller._cleanup_cached_actors(force_all=True)
        interrupt, live = self._interrupt, tune_controller.get_live_trials()
        running = any(trial.status == Trial.RUNNING for trial in live)
        overdue = interrupt.is_overdue(self._scheduler.live.values())
        if overdue or (interrupt.requested and not running):
            tune_controller.request_stop_experiment()  # also of trials that wait for resources
        self._tick()


def run_trials(
    scheduler: Scheduler,
    objective: Objective,
    tick: Callable[[], None] = lambda: None,
    interrupt: Interrupt | None = None,
    resources: ResourcesConfig | None = None,
    pipes: Path | None = None,
) -> None:
    """Runs every trial that the scheduler asks for, until the user or a full disk interrupts.

    `resources` are those of each trial, by default the study's; `pipes` is the folder of CUDA's
    MPS, by which trials share a GPU.

    Raises:
        StorageError: when a node does not see the run's checkpoints.
        UnseenDataError: when a node does not see the data.
        DeviceError: when a node's PyTorch can't use the GPU that a trial was granted.
        AllWorkersDieError: when no worker lives long enough to report.
        AllTrialsFailError: when all trials fail for one reason, or several in a row.
        HorizonError: when the training command never evaluates at the horizon.
        OSError: when the run folder can't be written, for another reason than a full disk, which
            is in `interrupt.error`.
    """
    if scheduler.done:
        return
    # Tune's own state, which nothing here reads: that it can't be kept is no news to a user. Nor is
    # a trial that has lost a worker and gone on with another, which Tune counts as failed.
    for name in ("execution.experiment_state", "tune"):
        logging.getLogger(f"ray.tune.{name}").setLevel(logging.CRITICAL)
    config, interrupt = scheduler.config, interrupt or Interrupt()
    resources = resources or config.resources
    ray_session.start_ray(resources, scheduler.folder.resume_command, config.own_code)
    try:
        with memory_kills_as_deaths(), errors_kept_in_memory():
            _tuner(scheduler, objective, tick, interrupt, resources, pipes).fit()
    except TuneError as error:
        raise _origin(error) from None
    except OSError:
        if interrupt.error is None:
            raise  # else it is Tune, which writes files of its own on the full disk


def _tuner(
    scheduler: Scheduler,
    objective: Objective,
    tick: Callable[[], None],
    interrupt: Interrupt,
    resources: ResourcesConfig,
    pipes: Path | None,
) -> tune.Tuner:
    """Tune's loop, in which Fathom's scheduler decides what runs; Ray has started."""
    folder = scheduler.folder
    actor, needs, actor_needs = _actor(scheduler.config, resources)
    failures = WorkerFailures(needs)
    shared = SharedFailures(folder, (*scheduler.records, *scheduler.live.values()))
    equal = EqualFailures(failures.able_hosts)
    return tune.Tuner(
        tune.with_resources(
            tune.with_parameters(actor, objective=objective), partial(_place, actor_needs)
        ),
        tune_config=tune.TuneConfig(
            search_alg=SearcherAdapter(
                scheduler, failures, shared, equal, interrupt, resources=resources, pipes=pipes
            ),
            scheduler=SchedulerAdapter(scheduler, failures, shared, equal, interrupt, tick),
            num_samples=-1,
            max_concurrent_trials=ray_session.concurrent_trials(resources),
            reuse_actors=True,
            trial_dirname_creator=_trial_name,
            trial_name_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.ray.absolute()),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            verbose=0,
        ),
    )


def _actor(
    config: StudyConfig, resources: ResourcesConfig
) -> tuple[type[TrialActor], dict[str, float], dict[str, float]]:
    """The class of a trial's actor, the resources of a process that trains, and the resources of
    the actor."""
    needs = {"CPU": resources.cpus_per_trial, "GPU": ray_session.gpus_per_trial(resources)}
    if config.train.command:
        return CommandActor, needs, needs
    if resources.processes_per_trial > 1:
        return MultiGpuActor, needs, MULTI_GPU_ACTOR_NEEDS
    return TrialActor, needs, needs


def _place(needs: dict[str, float], config: dict[str, Any]) -> tune.PlacementGroupFactory:
    """The resources of a trial's actor, and the nodes it may run on."""
    assignment: Assignment = config["assignment"]
    if assignment.alone:
        needs = needs | {"GPU": 1.0}
    nodes = ray_session.all_nodes_but(assignment.excluded_nodes)
    return tune.PlacementGroupFactory([needs], bundle_label_selector=[nodes] if nodes else None)


def _lack(trial: str, reason: str, folder: RunFolder) -> OSError:
    """The error of a search that pauses because its machine has too little memory for a trial."""
    return OSError(
        errno.ENOMEM,
        f"paused, as the memory is too small for {trial}, {reason}: {memory_words()}; or end other "
        f"programs; nothing is lost: go on with: {folder.resume_command}",
    )


def _origin(error: BaseException) -> BaseException:
    """Returns the exception that an adapter raised; Tune's own error has only its text."""
    while isinstance(error, TuneError) and (error.__cause__ or error.__context__):
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _trial_name(trial: Trial) -> str:
    """The name that the scheduler gave a trial."""
    name: str = trial.config["assignment"].spec.trial
    return name
