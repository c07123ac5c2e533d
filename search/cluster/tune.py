"""The one Ray Tune experiment that holds all budgets, and nothing that decides.

Ray schedules, places and restarts trials. What runs next, who is stopped and what an end means is
the scheduler's; the adapters below only carry its answers to Ray.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune
from ray.tune import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from fathom.objectives.contract import Objective
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.multi_gpu import TeamActor
from fathom.search.cluster.ray_session import (
    concurrent_trials,
    elsewhere,
    gpus_per_trial,
    start_ray,
)
from fathom.search.cluster.worker import StorageError, TrialActor
from fathom.search.cluster.worker_failures import WorkerFailures, memory_kills_as_deaths
from fathom.search.records import TrialSpec
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.training.trial import Assignment

TEAM_ACTOR_NEEDS = {"memory": 2.0**20}
"""Next to nothing, which Tune does not accept: Ray Train holds what a team's processes need."""


class LivesOnTheDriver:
    """Ray pickles what it is given, for a way of restoring that Fathom does not use."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class SearcherAdapter(LivesOnTheDriver, Searcher):
    """Asks the scheduler for the next trial and tells it how trials end."""

    def __init__(self, scheduler: Scheduler, losses: WorkerFailures, ending: Interrupt) -> None:
        super().__init__()
        self._scheduler, self._losses, self._ending = scheduler, losses, ending

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next assignments for a worker; None to be asked again later."""
        scheduler = self._scheduler
        specs = () if self._ending.asked else scheduler.next_trials()
        if not specs and (scheduler.done or self._ending.asked):
            finished: Any = Searcher.FINISHED  # Ray's word for the end is a string
            return finished  # type: ignore[no-any-return]
        if not specs:
            return None
        return {"assignments": tuple(map(self._assignment, specs))}

    def _assignment(self, spec: TrialSpec) -> Assignment:
        scheduler = self._scheduler
        return Assignment(
            config=scheduler.config,
            budget=scheduler.budgets[spec.budget].budget,
            spec=spec,
            checkpoint=str(scheduler.folder.checkpoint(spec.trial).absolute()),
            marker=scheduler.folder.marker.read_text(encoding="utf-8"),
            short_of_memory=spec.trial in self._losses.short_of_memory,
            avoid=self._losses.nodes_to_avoid(spec.trial),
            parted=self._losses.parted.get(spec.trial, ""),
        )

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass on the last reports, which Tune shows to nobody else, unless they are known."""
        if error or result is None:
            return  # the scheduler has been told of it, with the reason
        for trial, report in result["reports"]:
            if trial in self._scheduler.live and trial not in self._ending.saved:
                self._scheduler.report(trial, report)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the scheduler has written everything down already."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a new run starts a new experiment from the scheduler's files."""


class SchedulerAdapter(LivesOnTheDriver, FIFOScheduler):
    """Passes reports to the scheduler and its verdicts to Ray.

    Also what Tune has callbacks for: with one of them it imports every logger that it knows, MLflow
    among them, which takes two seconds before the first trial.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        losses: WorkerFailures,
        ending: Interrupt,
        tick: Callable[[], None],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._scheduler, self._losses, self._ending = scheduler, losses, ending
        self._tick = tick

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stop or continue."""
        self._losses.waiting.difference_update(name for name, _ in result["reports"])
        report = self._scheduler.report
        go_on = [name for name, latest in result["reports"] if report(name, latest)]
        if go_on and self._ending.asked:
            self._ending.saved.update(go_on)
            return TrialScheduler.STOP
        return TrialScheduler.CONTINUE if go_on else TrialScheduler.STOP

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Its worker died: the trial is to be started again, or is over.

        Several that it trained as one model are to go on one by one.
        """
        error, scheduler = _error_of(trial), self._scheduler
        cause = getattr(error, "cause", None)  # what the worker raised
        if isinstance(cause, StorageError):
            raise cause
        trial._default_result_or_future = None  # a dead worker's, which Tune would ask for
        assignments = trial.config["assignments"]
        names = [one.spec.trial for one in assignments if one.spec.trial in scheduler.live]
        several = len(assignments) > 1
        if several:
            self._losses.part(names, error)
        for name in names:
            end = None if several else self._losses.end_of(name, error)
            if end is None:
                scheduler.start_again(name)
            else:
                scheduler.end(name, *end)

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Called at every turn of Tune's loop, which then starts trials in the order they came.

        Tune's own choice is the same, but it looks through all trials that ever were.
        """
        if self._losses.waiting:
            # Tune keeps idle workers for trials that may run anywhere, and with them the resources
            # for which a trial waits that may not.
            tune_controller._cleanup_cached_actors(force_all=True)
        if self._ending.overdue or (self._ending.asked and not _any_runs(tune_controller)):
            tune_controller.request_stop_experiment()  # also of trials that wait for resources
        self._tick()


def run_trials(
    scheduler: Scheduler,
    objective: Objective,
    tick: Callable[[], None] = lambda: None,
    ending: Interrupt | None = None,
) -> None:
    """Run everything the scheduler asks for, unless the user asks for an end.

    Raises:
        StorageError: when a node does not see the run's checkpoints.
        OSError: when what happens can't be written down.
    """
    if scheduler.done:
        return
    # Tune's own state, which nothing here reads: that it can't be kept is no news to a user. Nor is
    # a trial that has lost a worker and gone on with another, which Tune counts as failed.
    for name in ("execution.experiment_state", "tune"):
        logging.getLogger(f"ray.tune.{name}").setLevel(logging.CRITICAL)
    resources = scheduler.config.resources
    start_ray(resources)
    several = resources.processes_per_trial > 1
    needs = {"CPU": resources.cpus_per_trial, "GPU": gpus_per_trial(resources)}
    trainable = tune.with_resources(
        tune.with_parameters(TeamActor if several else TrialActor, objective=objective),
        partial(_place, TEAM_ACTOR_NEEDS if several else needs),
    )
    losses, ending = WorkerFailures(needs), ending or Interrupt()
    tuner = tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            search_alg=SearcherAdapter(scheduler, losses, ending),
            scheduler=SchedulerAdapter(scheduler, losses, ending, tick),
            num_samples=-1,
            max_concurrent_trials=concurrent_trials(resources),
            reuse_actors=True,
            trial_dirname_creator=_trial_name,
            trial_name_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(scheduler.folder.ray.absolute()),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            verbose=0,
        ),
    )
    try:
        with memory_kills_as_deaths():
            tuner.fit()
    except TuneError as error:
        raise _origin(error) from None


def _any_runs(tune_controller: Any) -> bool:
    return any(trial.status == Trial.RUNNING for trial in tune_controller.get_live_trials())


def _place(needs: dict[str, float], config: dict[str, Any]) -> tune.PlacementGroupFactory:
    """What a trial's actor holds, and where it may."""
    where = elsewhere(config["assignments"][0].avoid)
    return tune.PlacementGroupFactory([needs], bundle_label_selector=[where] if where else None)


def _origin(error: BaseException) -> BaseException:
    """What Tune made a text of when it was raised by one of the adapters above."""
    while isinstance(error, TuneError) and (error.__cause__ or error.__context__):
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _error_of(trial: Trial) -> BaseException:
    """The last one of a trial, from this machine: the run's folder has it only at the end."""
    path = trial.pickled_error_file
    if path is None:
        return TuneError("unknown")
    error: BaseException = cloudpickle.loads(Path(path).read_bytes())
    return error


def _trial_name(trial: Trial) -> str:
    """Also of several that train as one model: the first one's."""
    name: str = trial.config["assignments"][0].spec.trial
    return name
