"""Joins the Ray cluster that runs here, or starts Ray on this machine.

Imports neither Tune nor torch, so that Ray can start while both are imported.
"""

import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import AuthenticationError, RuntimeEnvSetupError

from fathom.objectives.user_code import CHECKOUT, own_modules
from fathom.search.cluster.connect import connect, last_line
from fathom.search.cluster.local_ray import WORKER_ENVIRONMENT, start_here
from fathom.search.cluster.ray_internals import find_bootstrap_address
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.groups import ResourcesConfig

CONNECT_SECONDS = 5.0


class NotJoinedError(ConfigError):
    """A Ray cluster runs here and can't be joined."""

    remedy = (
        "use its versions and its token (`export RAY_AUTH_MODE=token`), "
        "or RAY_ADDRESS=local for this machine alone"
    )

    def __init__(self, address: str, error: BaseException) -> None:
        # Of a traceback the last line counts; of Ray's advice what comes before it.
        lines = str(error).strip().splitlines()
        traced = lines[-1] if "Traceback" in str(error) else " ".join(map(str.strip, lines))
        reason = traced.partition(" Note: ")[0].partition(" Ensure ")[0].rstrip(".")
        self.problem = f"the Ray cluster at {address} can't be joined: {reason}"
        super().__init__(f"{self.problem}; {self.remedy}")


def start_ray(resources: ResourcesConfig, again: str, own_code: Sequence[str] = ()) -> None:
    """Joins the Ray cluster that runs here, else starts Ray on this machine alone.

    `again` is the command that resumes the search, printed should Ray die; `own_code` are the
    places of the user's code that the study names, which is imported already.
    """
    # The result files that Tune writes for every trial would repeat records.jsonl, at a cost.
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    # Resuming needs none of Ray's own experiment state (restoring it loses the rungs), so one
    # snapshot at the end is enough.
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = str(24 * 3600)
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # the other output engine prints even when told not to
    os.environ["TUNE_PRINT_ALL_TRIAL_ERRORS"] = "0"  # of lost workers: their trials go on
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # Ctrl-C ends the run, not only the experiment
    if ray.is_initialized():
        return
    if join_cluster(own_code=bool(own_code)) is None:
        start_here(again)
        _check_resources(resources)


def cluster_address() -> str | None:
    """The address in `RAY_ADDRESS`, or of the `ray start` on this machine; None without either.

    Ray's own `auto` would find any Ray here: also that of another search, which ends with it.
    """
    address: str | None = os.environ.get("RAY_ADDRESS") or find_bootstrap_address(None)
    return None if address == "local" else address


def join_cluster(*, own_code: bool = False) -> str | None:
    """Joins the cluster and returns its address; None where there is none.

    With `own_code`, the modules that the user's code has imported from the working folder are sent
    to every node.

    Raises:
        NotJoinedError: when this process can't join it, or nothing listens at `RAY_ADDRESS`: a
            search on this machine would leave a whole cluster unused.
    """
    address = cluster_address()
    if address is None:
        return None
    if not _answers(address):
        if "RAY_ADDRESS" in os.environ:
            raise NotJoinedError(address, ConnectionError("nobody answers there"))
        return None  # the file of a `ray start` that is gone
    try:
        connect(address=address, runtime_env=_worker_environment(own_code=own_code))
    except RuntimeEnvSetupError as error:
        raise ConfigError(
            f"your code can't be sent to the nodes: {last_line(error)}; keep data and results out "
            "of its folders"
        ) from None
    except ConnectionError as error:
        raise NotJoinedError(address, error.__cause__ or error) from None
    except (AuthenticationError, RuntimeError) as error:  # the latter for another version
        raise NotJoinedError(address, error) from None
    return address


def _worker_environment(*, own_code: bool) -> dict[str, Any]:
    """Ray's `runtime_env` of every worker: the user's modules are found before a checkout of
    Fathom, which has folders of common names, and after what is installed."""
    if not own_code:
        return {"env_vars": WORKER_ENVIRONMENT}
    last = {"PYTHONPATH": str(CHECKOUT)} if str(CHECKOUT) in sys.path else {}
    return {"env_vars": WORKER_ENVIRONMENT | last, "py_modules": own_modules()}


def _answers(address: str) -> bool:
    """True if anything listens at an address; else Ray 2.60 would wait for over ten minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return True  # a word such as `auto`, which Ray resolves
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def gpus_per_trial(resources: ResourcesConfig) -> float:
    """Number of GPUs of each trial in this cluster."""
    return resources.gpus_of_trial(ray.cluster_resources().get("GPU", 0))


def concurrent_trials(resources: ResourcesConfig) -> int:
    """Number of trials that fit the cluster; without it Tune starts trials almost one by one."""
    cluster = ray.cluster_resources()
    return resources.trials_at_once(cluster.get("CPU", 1), cluster.get("GPU", 0))


def all_nodes_but(nodes: tuple[str, ...]) -> dict[str, str]:
    """Ray's label selector for all nodes except these ids; empty without any."""
    return {"ray.io/node-id": f"!in({','.join(nodes)})"} if nodes else {}


def _check_resources(resources: ResourcesConfig) -> None:
    """Checks that this machine has what a trial asks for; it would wait for ever otherwise.

    Raises:
        ConfigError: when it asks for more.
    """
    here = ray.cluster_resources()
    for kind, asked, times in (
        ("GPU", gpus_per_trial(resources), 1),
        ("CPU", resources.cpus_per_trial, resources.processes_per_trial),
    ):
        if asked * times > here.get(kind, 0):
            each = f" for each of {times} GPUs" if times > 1 else ""
            raise ConfigError(
                f"`resources.{kind.lower()}s_per_trial` must be at most what this machine has, "
                f"{here.get(kind, 0):g}, got {asked:g}{each}"
            )
