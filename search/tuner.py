"""The one Ray Tune experiment that holds all budgets, and nothing that decides.

Ray schedules, places and restarts trials. What runs next, who is stopped and what an end means is
the conductor's; the adapters below only carry its answers to Ray.
"""

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import ray
import torch
from ray import tune
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from objectives.objective import Objective
from search.conductor import Conductor
from search.config import ConfigError, ResourcesConfig
from search.records import Outcome, Report
from search.trial import Assignment, RunningTrial, guarded

MAX_RESTARTS = 3
"""Times that Ray starts a trial again whose worker died."""
WORKER_ENVIRONMENT = {
    # glibc otherwise gives every large activation back to the kernel and faults its pages in again.
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
}


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


class LivesOnTheDriver:
    """Ray pickles what it is given, for a way of restoring that Fathom does not use."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class ConductorSearcher(LivesOnTheDriver, Searcher):
    """Asks the conductor for the next trial and tells it how trials end."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__()
        self._conductor = conductor
        self._trials: dict[str, str] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next assignment; None to be asked again later."""
        conductor = self._conductor
        spec = conductor.next_trial()
        if spec is None and conductor.done:
            finished: Any = Searcher.FINISHED  # Ray's word for the end is a string
            return finished  # type: ignore[no-any-return]
        if spec is None:
            return None
        self._trials[trial_id] = spec.trial
        assignment = Assignment(
            config=conductor.config,
            budget=conductor.budgets[spec.budget].budget,
            spec=spec,
            checkpoint=str(conductor.folder.checkpoint(spec.trial).absolute()),
        )
        return {"assignment": assignment}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Translate Ray's end of a trial into an outcome."""
        trial = self._trials.pop(trial_id)
        if error or result is None:
            return  # the callback is told of it, with the reason
        report: Report = result["report"]
        if report.outcome is not None:
            self._conductor.report(trial, report)  # Tune shows a last result to nobody else
            self._conductor.end(trial, report.outcome, report.reason)
        else:
            tokens = report.points[-1].tokens
            self._conductor.end(
                trial, Outcome.STOPPED, f"behind others of its budget at {tokens} tokens"
            )

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the conductor has written everything down already."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a new run starts a new experiment from the conductor's files."""


class ConductorScheduler(LivesOnTheDriver, FIFOScheduler):
    """Passes reports to the conductor and its verdicts to Ray."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._conductor = conductor

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stop or continue."""
        name = trial.config["assignment"].spec.trial
        goes_on = self._conductor.report(name, result["report"])
        return TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP


class ConductorCallback(LivesOnTheDriver, Callback):
    """Hears of what neither of the other two is told in full."""

    def __init__(self, conductor: Conductor, tick: Callable[[], None]) -> None:
        self._conductor, self._tick = conductor, tick

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Every turn of Tune's loop."""
        self._tick()

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Its worker died more often than Ray starts one again."""
        error = trial.get_pickled_error() or trial.get_error()
        reason = str(error).strip().splitlines()[-1] if error else "unknown"
        name = trial.config["assignment"].spec.trial
        self._conductor.end(
            name, Outcome.FAILED, f"its worker died {MAX_RESTARTS + 1} times: {reason}"
        )


def run_trials(
    conductor: Conductor, objective: Objective, tick: Callable[[], None] = lambda: None
) -> None:
    """Run everything the conductor asks for; returns when it is done or was interrupted."""
    if conductor.done:
        return
    resources = conductor.config.resources
    _start_ray(resources)
    gpus = _gpus_per_trial(resources)
    trainable = tune.with_resources(
        tune.with_parameters(TrialActor, objective=objective),
        {"cpu": resources.cpus_per_trial, "gpu": gpus},
    )
    tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            search_alg=ConductorSearcher(conductor),
            scheduler=ConductorScheduler(conductor),
            num_samples=-1,
            max_concurrent_trials=_concurrent_trials(resources, gpus),
            reuse_actors=True,
            trial_dirname_creator=_trial_name,
            trial_name_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(conductor.folder.ray.absolute()),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=MAX_RESTARTS),
            callbacks=[ConductorCallback(conductor, tick)],
            verbose=0,
        ),
    ).fit()


def _trial_name(trial: Trial) -> str:
    name: str = trial.config["assignment"].spec.trial
    return name


def _start_ray(resources: ResourcesConfig) -> None:
    """Join the cluster that runs here, else start Ray on this machine alone."""
    # The result files that Tune writes for every trial would repeat records.jsonl, at a cost.
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    # Resuming needs none of Ray's own experiment state (restoring it loses the rungs), so one
    # snapshot at the end is enough.
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = str(24 * 3600)
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # the other output engine prints even when told not to
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # Ctrl-C ends the run, not only the experiment
    if ray.is_initialized():
        return
    settings: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "runtime_env": {"env_vars": WORKER_ENVIRONMENT},
    }
    try:
        ray.init(address="auto", **settings)
    except ConnectionError:
        ray.init(address="local", include_dashboard=False, **settings)
        _check_resources(resources)


def _check_resources(resources: ResourcesConfig) -> None:
    """One machine never gains what it lacks: a trial that asks for more would wait for ever."""
    here = ray.cluster_resources()
    gpus = 0 if resources.gpus_per_trial == "auto" else resources.gpus_per_trial
    for kind, asked in (("CPU", resources.cpus_per_trial), ("GPU", gpus)):
        if asked > here.get(kind, 0):
            raise ConfigError(
                f"`resources.{kind.lower()}s_per_trial` must be at most what this machine has, "
                f"{here.get(kind, 0):g}, got {asked:g}"
            )


def _gpus_per_trial(resources: ResourcesConfig) -> float:
    if resources.gpus_per_trial == "auto":
        return 1.0 if ray.cluster_resources().get("GPU", 0) >= 1 else 0.0
    return resources.gpus_per_trial


def _concurrent_trials(resources: ResourcesConfig, gpus: float) -> int:
    """As many as the cluster holds; unset, Tune starts trials almost one by one."""
    if resources.max_concurrent_trials != "auto":
        return resources.max_concurrent_trials
    cluster = ray.cluster_resources()
    slots = cluster.get("CPU", 1) / resources.cpus_per_trial
    if gpus:
        slots = min(slots, cluster.get("GPU", 0) / gpus)
    return max(1, int(slots))
