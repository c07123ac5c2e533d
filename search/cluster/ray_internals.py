"""Parts of Ray that Fathom reads or replaces, and that have no public name; seen in Ray 2.60.

Parts of Tune are in `tune_internals.py`: importing Tune takes seconds, during which Ray can start.
`tests/search/cluster/test_ray_internals.py` fails where Ray renames any of these parts.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray._common.utils import get_ray_address_file, get_system_memory
from ray._private import ray_constants, services
from ray._private.authentication import authentication_token_setup
from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER as PROCESS_TYPE_GCS_SERVER
from ray._private.ray_constants import PROCESS_TYPE_RAYLET as PROCESS_TYPE_RAYLET
from ray._private.utils import detect_fate_sharing_support, get_used_memory
from ray._private.utils import get_num_cpus as get_num_cpus
from ray.core.generated import common_pb2
from ray.job_config import JobConfig

RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Ray's environment variable that sets `reconnect_seconds`."""


def processes_end_with_parent() -> bool:
    """True where Ray's processes end when the process that started them ends, as on Linux."""
    return bool(detect_fate_sharing_support())


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Context in which a name in one of Ray's modules or classes has another value."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def processes_started_by(popen: Callable[..., "subprocess.Popen[bytes]"]) -> Any:
    """Context in which Ray starts its processes through `popen`, called like `Popen`. Ray itself
    neither protects its processes from a SIGTERM to the whole job nor lists them."""
    return replaced(services, "ConsolePopen", popen)


def loopback() -> Any:
    """Context in which Ray believes that this machine has no network, and so listens only on
    127.0.0.1."""
    return replaced(ray_constants, "ENABLE_RAY_CLUSTER", False)


def silent() -> Any:
    """Context in which Ray starts no thread that prints its logs; the trial reports a worker's
    failure."""
    return replaced(ray._private.worker, "listen_error_messages", lambda *_: None)


@contextmanager
def private_token() -> Iterator[None]:
    """Context in which Ray's file with its token can be read by this user alone, even if the file
    exists already."""
    path: Path = authentication_token_setup._get_default_token_path()
    with suppress(OSError):  # there is none, or it is another user's
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    write = authentication_token_setup.generate_and_save_token

    def write_privately() -> None:
        before = os.umask(0o077)
        try:
            write()
        finally:
            os.umask(before)

    with replaced(authentication_token_setup, "generate_and_save_token", write_privately):
        yield


class SamePath(JobConfig):
    """Gives workers the search path of this process, so that they import the same modules.

    Otherwise Ray puts the working folder first, so that a file there could replace one of Fathom's
    or Python's modules. Folders of `PYTHONPATH` that this process does not search come last.
    """

    def __init__(self, last: str = "") -> None:
        # A worker puts each in front of those before.
        places = [place for place in reversed(sys.path) if place not in ("", last)]
        super().__init__(_py_driver_sys_path=places)

    def _runtime_env_has_working_dir(self) -> bool:
        """Returns True, so that Ray adds no folder of its own to the path."""
        return True


def ray_address_file() -> Path:
    """The file in which `ray start` on this machine writes the address of its cluster."""
    return Path(get_ray_address_file(None))


def reconnect_seconds() -> float:
    """Seconds for which Ray tries to reconnect to the head of a joined cluster before it ends this
    process."""
    return float(os.environ.get(RECONNECT, 60))


def draining_nodes() -> Collection[str]:
    """Ids of the nodes that Ray drains, since their machines will be taken away."""
    found: dict[str, int] = ray._private.state.state.get_draining_nodes()
    return found.keys()


@dataclass(frozen=True, slots=True)
class ActorDeath:
    """The reason of an actor's death, as Ray's head notes it; the error has it only as text."""

    reason: str = ""
    """Ray's sentence about the death."""
    never_started: bool = False
    """True if Ray cancelled the actor's start."""
    with_node: bool = False
    """True if the actor's node died."""


def death_of_actor(error: BaseException) -> ActorDeath:
    """Returns the death that an error reports; an empty `ActorDeath` if it reports no actor's
    death."""
    actor = getattr(error, "actor_id", None)
    cause = ray._private.state.actors(actor).get("DeathCause") if actor else None
    if cause is None:
        return ActorDeath()
    died: Any = cause.actor_died_error_context
    contexts: Any = common_pb2
    with_node = died.reason == contexts.ActorDiedErrorContext.NODE_DIED
    return ActorDeath(died.error_message, died.never_started, with_node)


def node_here() -> tuple[str, str]:
    """Ray's folder on the node of this process, and the address of the cluster's head."""
    node: Any = ray._private.worker._global_node
    return node.get_temp_dir_path(), node.gcs_address


def raylet_socket() -> str:
    """Path of the socket by which this process is connected to a raylet; empty without one."""
    node: Any = ray._private.worker._global_node
    return node.raylet_socket_name if node else ""


def memory_in_use() -> tuple[int, int]:
    """Bytes of memory in use, and bytes of all memory, as Ray counts them: in a container, those of
    the container."""
    return get_used_memory(), get_system_memory()
