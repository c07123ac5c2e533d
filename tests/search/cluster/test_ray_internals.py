"""What is read or replaced inside Ray is there: `ray_internals.py`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray._private import ray_constants, services
from ray._private.authentication import authentication_token_setup
from ray.air.execution._internal.event_manager import RayEventManager
from ray.exceptions import OutOfMemoryError, RayActorError

from fathom.search.cluster import ray_internals, tune_internals
from fathom.search.cluster.session.ray_session import join_cluster, start_ray
from fathom.search.study.keys.groups import ResourcesConfig


@pytest.fixture(scope="module")
def ray_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Ray on this machine, started in a folder of no modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        start_ray(ResourcesConfig(gpus_per_trial=0), "again")
        yield Path.cwd()
        ray.shutdown()


class Worker:
    """An actor that does nothing, or fails as it starts."""

    def __init__(self, *, fails: bool = False) -> None:
        if fails:
            raise ImportError("no such kernel")

    def path(self) -> list[str]:
        return sys.path

    def node(self) -> tuple[str, str]:
        return ray_internals.node_here()

    def leave(self) -> None:
        os._exit(1)


def death(actor: Any) -> tuple[RayActorError, ray_internals.ActorDeath]:
    """The error of an actor that is asked after its death, and its death."""
    with pytest.raises(RayActorError) as raised:
        ray.get(actor.path.remote(), timeout=60)
    return raised.value, ray_internals.death_of_actor(raised.value)


@pytest.mark.usefixtures("ray_here")
def test_the_death_of_an_actor_says_if_it_ever_started() -> None:
    pending: Any = ray.remote(num_cpus=10**4)(Worker).remote()
    ray.kill(pending)
    error, found = death(pending)
    assert found.never_started
    assert not found.with_node
    assert found.reason in str(error)

    living: Any = ray.remote(num_cpus=0)(Worker).remote()
    living.leave.remote()
    _, found = death(living)
    assert not found.never_started
    assert not found.with_node
    assert ray_internals.death_of_actor(ValueError("of no actor")) == ray_internals.ActorDeath()


@pytest.mark.usefixtures("ray_here")
def test_an_actor_that_fails_as_it_starts_says_so_and_its_death_does_not() -> None:
    error, found = death(ray.remote(num_cpus=0)(Worker).remote(fails=True))
    assert error.actor_init_failed
    assert not found.never_started
    assert "no such kernel" in str(error)


def test_workers_import_what_this_process_does_and_nothing_of_its_working_folder(
    ray_here: Path,
) -> None:
    worker: Any = ray.remote(num_cpus=0)(Worker).remote()
    there = ray.get(worker.path.remote(), timeout=60)
    assert {place for place in sys.path if place} <= {*there}
    assert str(ray_here) not in there
    folder, address = ray.get(worker.node.remote(), timeout=60)
    assert Path(folder).is_dir()
    assert address.startswith("127.0.0.1:")


@pytest.mark.usefixtures("ray_here")
def test_no_node_is_drained_and_memory_is_counted() -> None:
    assert not ray_internals.draining_nodes()
    used, size = ray_internals.memory_in_use()
    assert 0 < used < size
    assert ray_internals.get_num_cpus() > 0


@pytest.mark.usefixtures("ray_here")
def test_a_ray_that_another_search_has_started_is_not_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a Ray ends with the other search and would end the trials of this one."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert join_cluster() is None


def test_ray_can_start_before_tune_and_torch_are_imported() -> None:
    heavy = {"pandas", "ray.air", "ray.tune", "torch"}
    module = "fathom.search.cluster.session.ray_session"
    code = f"import {module}, sys; print({heavy} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


@pytest.mark.parametrize(
    ("context", "owner", "name"),
    [
        (ray_internals.processes_started_by(subprocess.Popen), services, "ConsolePopen"),
        (ray_internals.loopback(), ray_constants, "ENABLE_RAY_CLUSTER"),
        (ray_internals.silent(), ray._private.worker, "listen_error_messages"),
        (
            ray_internals.private_token(),
            authentication_token_setup,
            "generate_and_save_token",
        ),
        (tune_internals.memory_kills_as_deaths(), RayEventManager, "track_future"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_part_of_ray_is_replaced_and_put_back(context: Any, owner: Any, name: str) -> None:
    before = getattr(owner, name)
    with context:
        assert getattr(owner, name) != before
    assert getattr(owner, name) is before


def as_tune_hears_of(error: Exception) -> Exception:
    """Tune's reading of a future that raises an error."""
    heard: list[Exception] = []
    manager = RayEventManager()
    future: Any = "of a worker"
    manager.track_future(future, on_error=heard.append)
    (_, on_error) = manager._tracked_futures[future]
    assert on_error
    on_error(error)
    return heard[0]


def test_tune_treats_a_worker_killed_for_memory_as_a_death() -> None:
    killed = OutOfMemoryError("1 worker(s) were killed due to the node running low\non memory")
    assert as_tune_hears_of(killed) is killed, "on which Tune's manager of actors raises"
    with tune_internals.memory_kills_as_deaths():
        heard = as_tune_hears_of(killed)
        other = RayActorError(error_msg="of something else")
        assert as_tune_hears_of(other) is other
    assert isinstance(heard, RayActorError)
    assert str(heard) == "1 worker(s) were killed due to the node running low"
