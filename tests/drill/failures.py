"""The failures that strike a search while it runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.drill.cluster import Cluster
from tests.drill.hosts import Host
from tests.drill.search import TRIALS, Search
from tests.drill.watch import Watch

TRAINS = r"^ray::(TrialActor|ResourceTrainable)\."
"""Titles of a process that trains: Ray's name of the actor, or of what it is wrapped in, and of the
method that it runs. An actor that waits for a trial has no method in its title."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure: its name in the table, and the function that causes it."""

    words: str
    strike: Callable[[Cluster, Search, Watch], None]


def undisturbed(cluster: Cluster, search: Search, watch: Watch) -> None:
    """Let the search run without a failure."""


def kill_worker_process(cluster: Cluster, search: Search, watch: Watch) -> None:
    """Send kill -9 to the process that trains on a worker."""
    _midway(search, watch)
    _training(cluster).run(f"pkill -9 -f '{TRAINS}'")


def kill_worker_host(cluster: Cluster, search: Search, watch: Watch) -> None:
    """A worker is switched off, and on again half a minute later."""
    _midway(search, watch)
    host = _training(cluster)
    host.kill()
    time.sleep(30)
    host.start()


def cut_network(cluster: Cluster, search: Search, watch: Watch) -> None:
    """A worker's network is cut for a minute."""
    _midway(search, watch)
    host = _training(cluster)
    host.cut()
    time.sleep(60)
    host.mend()


def kill_driver(cluster: Cluster, search: Search, watch: Watch) -> None:
    """Send kill -9 to the driver; then give the same command again."""
    _midway(search, watch)
    search.kill()
    search.start()


def kill_head_host(cluster: Cluster, search: Search, watch: Watch) -> None:
    """The head is switched off and on; then `ray up` and the same command again."""
    _midway(search, watch)
    cluster.head.kill()
    search.hang_up()
    cluster.head.start()
    cluster.up()
    search.start()


def stop_mlflow(cluster: Cluster, search: Search, watch: Watch) -> None:
    """MLflow's server is killed after a third of the trials, and started after two thirds."""
    search.wait_for(lambda: len(search.ended) >= TRIALS // 3)
    cluster.head.run("pkill -9 -f '^[^ ]*python[^ ]* ([^ ]*/mlflow server|-m uvicorn)'")
    search.wait_for(lambda: len(search.ended) >= 2 * TRIALS // 3)
    cluster.start_mlflow()


def fill_disk(cluster: Cluster, search: Search, watch: Watch) -> None:
    """The disk that holds a worker's /tmp is full from a third of the trials on."""
    _midway(search, watch)
    host = _training(cluster)
    host.run("cat /dev/zero > /tmp/full")
    search.wait_for(lambda: len(search.ended) >= TRIALS - 1)
    host.run("rm /tmp/full")  # the next row is of another failure


FAILURES = {
    "undisturbed": Failure("nothing", undisturbed),
    "worker-process": Failure("kill -9 of a worker process", kill_worker_process),
    "worker-host": Failure("a worker host off, on again after 30 s", kill_worker_host),
    "network": Failure("a worker's network cut for 60 s", cut_network),
    "driver": Failure("kill -9 of the driver, same command again", kill_driver),
    "head-host": Failure("the head off and on, `ray up`, same command again", kill_head_host),
    "mlflow": Failure("MLflow down for the middle third", stop_mlflow),
    "disk": Failure("a worker's /tmp full from the first third on", fill_disk),
}


def _midway(search: Search, watch: Watch) -> None:
    """Wait until a third of the trials has ended and every running one has a checkpoint."""
    search.wait_for(
        lambda: (
            len(search.ended) >= TRIALS // 3
            and bool(search.under_way)
            and search.under_way <= watch.steps.keys()
        )
    )


def _training(cluster: Cluster) -> Host:
    """A worker host on which a trial is training."""
    for host in cluster.workers:
        if host.run(f"pgrep -f '{TRAINS}'").stdout:
            return host
    raise RuntimeError("no worker host trains a trial; the search runs elsewhere")
