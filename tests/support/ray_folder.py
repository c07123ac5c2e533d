"""A Ray that only the test that starts it knows: its folder, and its GPUs."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import ray
from ray._private import services
from ray._private.authentication import authentication_token_setup
from ray.cluster_utils import Cluster

from fathom.search.training.device import CPU_AS_GPU

NO_DASHBOARD = {"include_dashboard": False}
"""Two clusters at a time would want its port."""
START_SECONDS = 300
"""Longest wait for a node of Ray."""


@contextmanager
def own_ray_folder() -> Iterator[Path]:
    """Ray keeps its files in a new folder meanwhile: a search that another test starts would join a
    cluster in the usual one, and end with it."""
    with (
        TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,  # sockets: short path
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        yield Path(folder)


@contextmanager
def ray_with_gpus(number: int) -> Iterator[None]:
    """A Ray of two CPUs and so many GPUs in which only it believes: trials on them train on a
    CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CPU_AS_GPU, "1")
        with patient_start():
            ray.init(
                address="local", num_cpus=2, num_gpus=number, include_dashboard=False,
                log_to_driver=False, logging_level=logging.ERROR,
            )  # fmt: skip
        yield
        ray.shutdown()


@contextmanager
def patient_start() -> Iterator[None]:
    """Ray waits longer for a node that starts, of which it gives up after 30 s: a busy machine
    takes more."""

    def get_node(*arguments: Any) -> Any:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return once(*arguments)  # type: ignore[no-untyped-call]
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    once = services.get_node
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "get_node", get_node)
        yield


@contextmanager
def cluster_of(*nodes: dict[str, Any]) -> Iterator[str]:
    """A cluster on this machine of nodes with these settings, the head first; yields its
    address."""
    with started_cluster(*nodes) as there:
        yield there.address


@contextmanager
def started_cluster(*nodes: dict[str, Any]) -> Iterator[Cluster]:
    """A cluster on this machine of nodes with these settings, the head first.

    It has a token, as Ray for this machine alone has: a process that has used one keeps asking for
    it, and a head without it then takes this process for dead and cancels the starts of its actors.
    """
    with own_ray_folder(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        authentication_token_setup._enable_token_auth()  # Ray has read its environment before
        authentication_token_setup.ensure_token_if_auth_enabled()
        head, *others = nodes
        with patient_start():
            there = Cluster(initialize_head=True, head_node_args=NO_DASHBOARD | head)
        try:
            with patient_start():
                for settings in others:
                    there.add_node(**settings)
            yield there
        finally:
            ray.shutdown()
            there.shutdown()
