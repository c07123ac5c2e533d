"""Measuring on a worker of a real cluster of Ray: `search/cluster/worker_speed.py`."""

from collections.abc import Iterator

import pytest
import ray

from fathom.search.cluster import worker_speed
from fathom.search.cluster.worker_speed import cluster_machine, machine_there, measure_on_worker
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.machine import processor
from fathom.search.study.keys.groups import ResourcesConfig, TrainConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import known_speeds
from fathom.search.training.device import CPU_AS_GPU
from tests.support.ray_folder import cluster_of
from tests.support.toy import Successor

STUDY = """
study: speed
objective: {name: language, context: 6}
budgets: [8k]
count: non_embedding
tokens: 3k
space: {depth: [1, 3], n_heads: 2}
train: {batch_size: 4}
"""


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster of a node with one GPU, which is a CPU."""
    has = {"num_cpus": 2, "num_gpus": 1, "resources": {"accelerator_type:L4": 1}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CPU_AS_GPU, "1")
        patch.setenv("FATHOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        with cluster_of(has) as address:
            patch.setenv("RAY_ADDRESS", address)
            yield


@pytest.mark.drill
@pytest.mark.usefixtures("_cluster")
def test_a_worker_measures_and_frees_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse(STUDY)
    machine = cluster_machine(config.resources, config.train)
    assert machine
    assert (machine.device, machine.devices, machine.slots, machine.here) == ("GPU", 1, 1, True)
    assert machine.description == "a cluster (GPUs: 1, trials at a time: 1)"
    assert machine.memory == pytest.approx(0.85 * 24e9), "that of an L4"
    (budget,) = expand_budgets(config)
    shape = feasible_shapes(config, budget, 8)[0]

    rate = measure_on_worker(config, budget, shape, Successor())

    assert rate
    assert known_speeds(f"{processor()}, 1 a trial").rates, "kept by the worker's device"
    assert ray.get(ray.remote(num_gpus=1)(lambda: 1).remote(), timeout=60) == 1, "it is free again"

    monkeypatch.setattr(worker_speed, "MEASURED_SECONDS", 0.0)
    assert measure_on_worker(config, budget, shape, Successor()) is None


def test_devices_that_come_later_are_estimated() -> None:
    there = {"CPU": 2.0, "GPU": 1.0, "accelerator_type:L4": 1.0}
    four = ResourcesConfig(gpus_per_trial=4, max_concurrent_trials=8)
    assert machine_there(four, TrainConfig(), there) is None
    cores = machine_there(ResourcesConfig(gpus_per_trial=0), TrainConfig(), there)
    assert cores
    assert (cores.device, cores.slots) == ("core", 2)


def test_without_a_cluster_there_is_no_machine_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert cluster_machine(ResourcesConfig(), TrainConfig()) is None
