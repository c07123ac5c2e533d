"""The joined Ray cluster as the machine of a study's plan, and the speed of one of its workers."""

import math
from collections.abc import Mapping
from dataclasses import replace

import ray
from ray.exceptions import GetTimeoutError

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.search.cluster.session.ray_session import cluster_address, join_cluster
from fathom.search.cluster.worker import granted_gpus
from fathom.search.study.hardware.gpus import recognised
from fathom.search.study.hardware.machine import Machine, speed_key, this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig, TrainConfig
from fathom.search.study.planning.budget import Budget
from fathom.search.study.timing.device_speed import Rate, binned, keep_speeds
from fathom.search.training.calibrate import measured_rate
from fathom.search.training.device import granted_device
from fathom.search.training.saving.trial_log import name_of

GPU_KIND = "accelerator_type:"
"""Prefix of Ray's resource with the type of a node's GPUs."""
MEASURED_SECONDS = 180.0
"""Most seconds to wait for a worker's measurement, mostly until a worker is free and has imported
PyTorch."""


def cluster_machine(
    resources: ResourcesConfig, train: TrainConfig, gpu: str | None = None
) -> Machine | None:
    """The machine of a study on the cluster that is joined here; None without a cluster, or if no
    node can run a trial. `gpu` names the type of its GPUs.

    Raises:
        NotJoinedError: when there is a cluster that can't be joined.
    """
    if cluster_address() is None or not (ray.is_initialized() or join_cluster()):
        return None
    return machine_there(resources, train, ray.cluster_resources(), gpu)


def machine_there(
    resources: ResourcesConfig, train: TrainConfig, there: Mapping[str, float],
    gpu: str | None = None,
) -> Machine | None:  # fmt: skip
    """The machine of a study on nodes with these resources of Ray; None where no trial can run."""
    gpus, cpus = there.get("GPU", 0), there.get("CPU", 0)
    share = resources.gpus_of_trial(gpus)
    if share > gpus or resources.cpus_per_trial * resources.processes_per_trial > cpus:
        return None
    kinds = [recognised(name.removeprefix(GPU_KIND)) for name in there if GPU_KIND in name]
    kind = gpu or next((known.name for known in kinds if known), None)
    each = resources.model_copy(update={"gpus_per_trial": share})
    machine = this_machine(each, train, kind if share else None)
    slots = resources.trials_at_once(cpus, gpus)
    has = f"GPUs: {gpus:g}" if share else f"CPU cores: {cpus:g}"
    description = f"a cluster ({has}, trials at a time: {slots})"
    return replace(machine, slots=slots, here=True, notes=(), description=description)


def measure_on_worker(
    config: StudyConfig, budget: Budget, shape: Shape, objective: Objective
) -> Rate | None:
    """Measures the speed of a training on a worker with a trial's resources, and keeps the speed by
    the type of the worker's device; None if no worker was free in time.

    The process ends with the task, and frees the memory that it held on the device.
    """
    resources = config.resources
    share = min(1.0, resources.gpus_of_trial(ray.cluster_resources().get("GPU", 0)))
    task = ray.remote(num_cpus=resources.cpus_per_trial, num_gpus=share, max_calls=1)(_measure)
    answer = task.remote(config, budget, shape, objective)
    try:
        device, rate = ray.get(answer, timeout=MEASURED_SECONDS)
    except GetTimeoutError:
        ray.cancel(answer, force=True)
        return None
    # Measured on another machine, whatever this one has to do.
    keep_speeds(speed_key(device, resources, gpu=share > 0), binned([rate]), own=math.inf)
    return rate


def _measure(
    config: StudyConfig, budget: Budget, shape: Shape, objective: Objective
) -> tuple[str, Rate]:
    """The name of the granted device, and the speed on it."""
    device = granted_device(granted_gpus())
    return name_of(device), measured_rate(config, budget, shape, objective.to(device), device)
