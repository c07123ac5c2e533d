"""Joins the Ray cluster that runs here, or starts Ray on this machine.

Imports neither Tune nor torch, so that Ray can start while they are imported.
"""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import AuthenticationError, RuntimeEnvSetupError

from fathom.objectives.user_code import CHECKOUT, own_modules
from fathom.search.cluster.ray_internals import silent
from fathom.search.cluster.session.address import NamedCluster, named_cluster
from fathom.search.cluster.session.connect import connect, last_line
from fathom.search.cluster.session.death import end_with_head
from fathom.search.cluster.session.local import WORKER_ENVIRONMENT, start_here
from fathom.search.cluster.session.secrets import hidden, secret_names
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.hardware.memory import trials_in_memory
from fathom.search.study.keys.groups import ResourcesConfig

log = logging.getLogger(__name__)

ALONE = "set RAY_ADDRESS=local to use this machine alone"
VERSIONS_AND_TOKEN = f"use its versions and its token (`export RAY_AUTH_MODE=token`), or {ALONE}"
NO_HEAD = f"start it (`ray up`, `ray start`), or {ALONE}"
STALE = f"delete that file if the cluster is gone, or {ALONE}"


class NotJoinedError(ConfigError):
    """A Ray cluster is named here and can't be joined."""

    def __init__(
        self, cluster: NamedCluster, error: BaseException, remedy: str = VERSIONS_AND_TOKEN
    ) -> None:
        # Of a traceback the last line counts; of Ray's advice what comes before it.
        lines = str(error).strip().splitlines()
        traced = lines[-1] if "Traceback" in str(error) else " ".join(map(str.strip, lines))
        reason = traced.partition(" Note: ")[0].partition(" Ensure ")[0].rstrip(".")
        named = f"the Ray cluster at {cluster.address}, from {cluster.source},"
        self.problem = f"{named} can't be joined: {reason}"
        self.remedy = remedy
        super().__init__(f"{self.problem}; {self.remedy}")


def start_ray(resources: ResourcesConfig, again: str, own_code: Sequence[str] = ()) -> None:
    """Joins the Ray cluster that runs here; without one, starts Ray on this machine alone.

    `again` is the command that resumes the search, which is printed if Ray dies; `own_code` are the
    import paths of the user's code that the study names, imported already.
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
    if address := join_cluster(own_code=bool(own_code)):
        end_with_head(address, again)
    else:
        with hidden(secret_names().difference(resources.secrets)):
            start_here(again)
        _check_resources(resources)


def cluster_address() -> str | None:
    """The address in `RAY_ADDRESS`, or the one that `ray start` left on this machine; None without
    either."""
    return named_cluster().address


def join_cluster(*, own_code: bool = False) -> str | None:
    """Joins the cluster and returns its address; None where there is none.

    With `own_code`, the modules that were imported from the working folder are sent to every node.

    Raises:
        NotJoinedError: when this process can't join it, or no head answers there: a search on this
            machine would leave a whole cluster unused.
    """
    cluster = named_cluster()
    if cluster.doubt:
        log.warning(
            "%s is not trusted: %s; set RAY_ADDRESS=HOST:PORT to join a cluster anyway",
            cluster.source, cluster.doubt,
        )  # fmt: skip
    if cluster.address is None:
        if os.environ.get("RAY_ADDRESS") != "auto":
            return None
        error = ConnectionError("it names no cluster")
        raise NotJoinedError(replace(cluster, address="auto"), error, NO_HEAD)
    reach: Any = import_module("fathom.search.cluster.session.reach")
    try:
        reach.wait_for_head(cluster.address)
        with silent():  # of a host that was cut off, Ray would print pages of its state
            connect(address=cluster.address, runtime_env=_worker_environment(own_code=own_code))
    except RuntimeEnvSetupError as error:
        raise ConfigError(
            f"your code can't be sent to the nodes: {last_line(error)}; keep data and results out "
            "of its folders"
        ) from None
    except reach.NoHeadError as error:
        if isinstance(error, reach.NobodyError) and not cluster.from_variable:
            return None  # the file of a `ray start` that is gone
        remedy = NO_HEAD if cluster.from_variable else STALE
        raise NotJoinedError(cluster, error, remedy) from None
    except ConnectionError as error:
        raise NotJoinedError(cluster, error.__cause__ or error) from None
    except (AuthenticationError, RuntimeError) as error:  # the latter for another version
        raise NotJoinedError(cluster, error) from None
    return cluster.address


def _worker_environment(*, own_code: bool) -> dict[str, Any]:
    """Ray's `runtime_env` of every worker. In it the user's modules come after installed packages,
    and before a checkout of Fathom, which has folders of common names."""
    if not own_code:
        return {"env_vars": WORKER_ENVIRONMENT}
    last = {"PYTHONPATH": str(CHECKOUT)} if str(CHECKOUT) in sys.path else {}
    modules = {"py_modules": found} if (found := own_modules()) else {}  # Ray fails at none
    return {"env_vars": WORKER_ENVIRONMENT | last, **modules}


def gpus_per_trial(resources: ResourcesConfig) -> float:
    """Number of GPUs of each trial in this cluster."""
    return resources.gpus_of_trial(ray.cluster_resources().get("GPU", 0))


def concurrent_trials(resources: ResourcesConfig) -> int:
    """Number of trials that fit the cluster; without a cluster, those that fit the cores and the
    memory of this machine. Tune needs the number: otherwise it would start trials almost one by
    one."""
    cluster = ray.cluster_resources()
    fitting = resources.trials_at_once(cluster.get("CPU", 1), cluster.get("GPU", 0))
    if resources.max_concurrent_trials != "auto" or cluster_address():
        return fitting
    return min(fitting, trials_in_memory(resources.processes_per_trial))


def all_nodes_but(nodes: tuple[str, ...]) -> dict[str, str]:
    """Ray's label selector for all nodes except these ids; empty without any."""
    return {"ray.io/node-id": f"!in({','.join(nodes)})"} if nodes else {}


def _check_resources(resources: ResourcesConfig) -> None:
    """Checks that this machine has the resources that a trial asks for; otherwise the trial would
    wait for ever.

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
