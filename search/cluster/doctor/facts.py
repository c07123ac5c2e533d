"""Facts of the nodes of a cluster, and findings of `fathom doctor`. Sizes in bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Literal


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """A search works, but does not use all resources."""
    FAILURE = "failure"
    """A search would fail, wait for ever, or not use the resources it asks for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer of `fathom doctor`."""

    level: Severity
    subject: str
    message: str
    remedy: str = ""
    """Advice to the user; empty if nothing is wrong."""


ok = partial(Finding, Severity.OK)
"""Makes a finding that something is in order."""
warning = partial(Finding, Severity.WARNING)
"""Makes a finding of a problem with which a search still works."""
failure = partial(Finding, Severity.FAILURE)
"""Makes a finding of a problem with which a search fails."""


def warning_if(condition: bool, subject: str, message: str, remedy: str) -> Finding:
    """A warning if the condition holds, else a failure."""
    return (warning if condition else failure)(subject, message, remedy)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its driver lists it."""

    name: str
    memory: int
    driver: str


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system that holds a folder."""

    folder: str
    size: int
    free: int


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket of Ray or MLflow that others than this machine can reach."""

    service: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterProbe:
    """A file in the folder of checkpoints, written by this process for every node to read."""

    folder: str
    name: str
    content: str
    trouble: str = ""
    """Reason why the file can't be written; empty if it was written."""


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """What each node is asked, with the settings for it."""

    probe: ClusterProbe
    """File for the node to read."""
    salt: str
    """Random salt, used once, of the hashes by which tokens are compared."""
    asks_torch: bool
    """True to ask PyTorch for its number of GPUs even if no driver lists one."""
    imports: tuple[str, ...] = ()
    """Modules that a worker of the search imports."""
    data: Mapping[str, int] = field(default_factory=dict)
    """Path of a file that a worker reads in place -> its least size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that one node reports about itself."""

    versions: dict[str, str]
    """Package -> version, empty if it is missing; `python` and Fathom's sources are also listed."""
    gpus: tuple[Gpu, ...]
    torch_gpus: int | None
    """Number of GPUs that PyTorch can use; None if it was not asked."""
    gpu_trouble: str
    """Reason why the driver or PyTorch failed; empty if neither did."""
    mps: bool
    """True if CUDA's Multi-Process Service listens for processes that share a GPU."""
    ray_disk: Disk
    """Disk of the folder in which Ray keeps its session and spills objects."""
    shared_memory: Disk | None
    """File system of /dev/shm, shared memory; None if the system has none."""
    memory: int
    memory_used: int
    token_mode: str
    token_hash: str
    """Salted hash of the node's authentication token; empty without a token."""
    listeners: tuple[Listener, ...] | None
    """Sockets that others can reach; None if the system does not show sockets to this user."""
    monitor_grows: bool | None
    """True if Ray's monitor here can start nodes; None if this node runs no monitor of this
    cluster."""
    import_trouble: str
    """Error of the first import of a worker that fails; empty if none does."""
    storage_trouble: str
    """Reason why the node could not read the probe, or why its answer was not seen; empty if it
    was."""
    unseen_data: Mapping[str, str] = field(default_factory=dict)
    """Path -> reason, for each file of the study's data that the node does not see in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a cluster: what Ray lists of it, and the facts that it reports."""

    name: str
    cpus: float
    """CPUs that Ray gives to trials."""
    gpus: float
    """GPUs that Ray gives to trials."""
    grows: bool
    """True for the head of a cluster that starts further nodes on demand."""
    clock_ahead_seconds: float
    """Least number of seconds by which the node's clock is ahead of this process's; negative if
    behind."""
    facts: Facts


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The nodes of a cluster, with their facts."""

    address: str
    """Address of the cluster; empty for this machine alone."""
    nodes: tuple[Node, ...]
    silent: dict[str, str]
    """Node -> reason why it gave no answer."""
    unanswered: str = ""
    """Address of an expected cluster at which nothing answers."""

    @property
    def grows(self) -> bool:
        """True if the cluster starts further nodes on demand."""
        return any(node.grows for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Needs:
    """Resources that a study needs."""

    gpus_per_trial: float | Literal["auto"]
    cpus_per_trial: float
    checkpoints: int
    """Most bytes of checkpoints that are kept at a time."""
    trial_memory: int
    """Bytes of the largest training memory, over the budgets."""
    least_memory: int
    """Bytes of the least training memory, over the budgets."""
    saved_state: int
    """Bytes of the largest state; a trial on a GPU keeps a copy of its state in its node's
    memory."""

    @property
    def shares_gpus(self) -> bool:
        """True if several trials are to share each GPU."""
        return self.gpus_per_trial != "auto" and 0 < self.gpus_per_trial < 1


def names(some: list[str]) -> str:
    """The first three names and the number of the others, as text."""
    more = f" and {len(some) - 3} more" if len(some) > 3 else ""
    return ", ".join(some[:3]) + more
