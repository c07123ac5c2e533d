"""A folder for a Ray cluster that only the test that starts it knows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import ray
from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
from ray.cluster_utils import Cluster

from fathom.search.cluster.connect import QUIET


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
def cluster_of(cpus: Sequence[int]) -> Iterator[str]:
    """Joins a cluster on this machine, of a node for each number of cores; yields its address.

    It has a token, as Ray for this machine alone has: a process that has used one keeps asking for
    it, and a head without it then takes this process for dead and cancels the starts of its actors.
    """
    with own_ray_folder(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        ensure_token_if_auth_enabled()
        head, *others = cpus
        there = Cluster(initialize_head=True, head_node_args={"num_cpus": head})
        try:
            for count in others:
                there.add_node(num_cpus=count)
            ray.init(address=there.address, **QUIET)
            yield there.address
        finally:
            ray.shutdown()
            there.shutdown()
