"""Times training steps on the workers of a search, for studies whose trials spend seconds."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import ray
import torch
from ray.exceptions import RayActorError, RayTaskError

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.search.cluster.session.ray_session import concurrent_trials, gpus_per_trial
from fathom.search.cluster.worker import granted_gpus
from fathom.search.formatting import exact_count
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.hardware.machine import speed_key
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.plan import BudgetPlan
from fathom.search.study.timing.sized_times import sizes_to_time
from fathom.search.study.timing.step_times import MeasuredSteps, shapes_to_time, step_times
from fathom.search.training.calibrate import measured_step
from fathom.search.training.device import granted_device, keep_to_share
from fathom.search.training.saving.trial_log import name_of

SHARE = 0.15
"""Seconds of all measured steps together, as a share of a trial's seconds."""
LEAST_SECONDS, MOST_SECONDS = 0.4, 5.0
"""Fewest and most seconds for which the steps of one shape are timed, for trials of any length."""
LATE_SECONDS = 60.0
"""Most seconds to wait for further workers once the first one is ready: other programs may hold
their resources."""

MOST_DEPTHS = 4
"""Most depths whose steps are timed at one size, if sizes are free."""

TimedTask = tuple[Budget, Shape]
"""A shape whose steps are timed, and its budget."""


class StepTimer:
    """Actor that times steps with the resources of a trial, in a process of its own."""

    def __init__(self, config: StudyConfig, objective: Objective) -> None:
        torch.set_num_threads(config.resources.threads)
        self._config, self._objective = config, objective

    def ready(self) -> str:
        """Puts the data on the granted device; returns the device's name, under which its speeds
        are kept."""
        gpus = granted_gpus()
        self._device = granted_device(gpus)
        keep_to_share(self._device, self._config.resources)
        self._objective = self._objective.to(self._device)
        return speed_key(name_of(self._device), self._config.resources, gpu=gpus > 0)

    def measure(self, tasks: Sequence[TimedTask], first: int, seconds: float) -> list[float | str]:
        """Seconds of a step of each shape, or the reason why they could not be measured; the shape
        with index `first` is measured first."""
        found: dict[int, float | str] = {}
        for place in (*range(first, len(tasks)), *range(first)):
            budget, shape = tasks[place]
            try:
                found[place] = measured_step(
                    self._config, budget, shape, self._objective, self._device, seconds=seconds
                )
            except Exception as error:  # noqa: BLE001 - the other shapes may do without it
                found[place] = f"{type(error).__name__}: {error}".split("\n")[0]
        return [found[place] for place in range(len(tasks))]


def timed_tasks(plans: Sequence[BudgetPlan]) -> list[TimedTask]:
    """The shapes whose steps are timed, for all budgets, each with its budget."""
    return [task for tasks in _grouped_tasks(plans).values() for task in tasks]


def _grouped_tasks(plans: Sequence[BudgetPlan]) -> dict[int, list[TimedTask]]:
    """Budget -> the shapes whose steps are timed; if sizes are free, size -> the shapes of that
    size, which all budgets share."""
    budget = plans[0].budget
    if budget.sizes:
        return {
            size: [(budget, shape) for shape in shapes_to_time(shapes, MOST_DEPTHS)]
            for size, shapes in sizes_to_time(plans[0].shapes).items()
        }
    return {
        plan.budget.params: [(plan.budget, shape) for shape in shapes_to_time(plan.shapes)]
        for plan in plans
    }


def timers_at_once(resources: ResourcesConfig, trials: int) -> int:
    """Number of workers that time steps at once: as many as could train trials here now."""
    there = ray.cluster_resources()
    free = resources.model_copy(update={"max_concurrent_trials": "auto"})
    fitting = free.trials_at_once(there.get("CPU", 1), there.get("GPU", 0))
    return max(1, min(concurrent_trials(resources), fitting, trials))


def measure_steps(
    config: StudyConfig, plans: Sequence[BudgetPlan], objective: Objective
) -> MeasuredSteps:
    """Times the steps of some shapes of each budget, on as many workers at once as train trials;
    Ray has started. The median of the workers counts.

    Raises:
        ConfigError: if workers have devices of several kinds, or a budget has no shape whose steps
            can be measured.
        DeviceError: when a worker's PyTorch can't use the GPU that it was granted.
        UnseenDataError: when a worker does not see the data.
    """
    spend, tasks = config.shared_spend(config.budgets[0]), timed_tasks(plans)
    assert spend is not None, "a study whose steps are timed spends seconds"
    seconds = seconds_each(spend.amount, len(tasks))
    timers = _timers(config, objective, sum(plan.exploring for plan in plans))
    try:
        devices = _devices(timers)
        starts = [place * len(tasks) // len(devices) for place in range(len(devices))]
        answers = [
            timer.measure.remote(tasks, first, seconds)
            for timer, first in zip(devices, starts, strict=True)
        ]
        results = _results(answers)
    finally:
        for timer in timers:
            ray.kill(timer)
    return measured_steps(plans, list(devices.values()), results)


def device_of_worker(config: StudyConfig, objective: Objective) -> str:
    """The device of a worker, by the name that `MeasuredSteps.device` uses; Ray has started."""
    [timer] = timers = _timers(config, objective, 1)
    try:
        return _devices(timers)[timer]
    finally:
        ray.kill(timer)


def seconds_each(train_seconds: float, shapes: int) -> float:
    """Seconds for which the steps of each of so many shapes are measured."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, SHARE * train_seconds / shapes))


def measured_steps(
    plans: Sequence[BudgetPlan], devices: Sequence[str], results: Sequence[Sequence[float | str]]
) -> MeasuredSteps:
    """The step times, from the `results` of each worker in the order of `timed_tasks`; a result is
    the reason, as text, if the worker could not measure the shape.

    Raises:
        ConfigError: if devices are of several kinds, or a budget has no shape with a time.
    """
    if len(kinds := sorted(set(devices))) > 1:
        raise ConfigError(
            "`train_seconds` must be spent on devices of one kind, got workers on "
            f"{' and '.join(kinds)}; keep the cluster to one of them, or use `train_flops`"
        )
    budgets, measured = {}, zip(*results, strict=True)
    for budget, tasks in _grouped_tasks(plans).items():
        known = []
        for (_, shape), found in zip(tasks, measured, strict=False):  # each group takes its own
            if times := [time for time in found if isinstance(time, float)]:
                known.append((shape, median(times)))
        if not known:
            reason = next((text for each in results for text in each if isinstance(text, str)), "")
            raise ConfigError(
                f"the steps of budget {exact_count(budget)} can't be measured: {reason}; fix that, "
                "or use `tokens`"
            )
        budgets[budget] = step_times(known).timed
    return MeasuredSteps(device=kinds[0], at_once=len(devices), budgets=budgets)


def _timers(config: StudyConfig, objective: Objective, trials: int) -> list[Any]:
    """Actors that time steps: as many as train trials at once, at most `trials`."""
    resources = config.resources
    actor = ray.remote(num_cpus=resources.cpus_per_trial, num_gpus=gpus_per_trial(resources))
    data = ray.put(objective)
    return [actor(StepTimer).remote(config, data) for _ in range(timers_at_once(resources, trials))]


def _devices(timers: Sequence[Any]) -> dict[Any, str]:
    """Actor -> its device, for the actors that are ready: the first one, and others that are ready
    soon after."""
    asked = {timer.ready.remote(): timer for timer in timers}
    ray.wait(list(asked))  # for a free worker, as trials wait
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=LATE_SECONDS)
    return {asked[answer]: device for answer, device in zip(ready, _results(ready), strict=True)}


def _results(answers: Sequence[Any]) -> list[Any]:
    """The results of workers.

    Raises:
        ConfigError: when a worker died.
        ValueError: what a worker raised.
    """
    try:
        return ray.get(list(answers))
    except RayTaskError as error:
        raise error.cause from None
    except RayActorError as error:
        raise ConfigError(
            "a worker died while the steps for `train_seconds` were measured, most likely for "
            f"memory ({str(error).splitlines()[0]}); use a smaller `train.batch_size`"
        ) from None
