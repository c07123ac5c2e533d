"""What `fathom doctor` goes by: plain facts of nodes, and what it makes of them. Sizes in bytes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """A search works, with less than it could have."""
    FAILURE = "failure"
    """A search would fail, wait for ever, or not use what it was meant to."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    level: Severity
    subject: str
    words: str
    remedy: str = ""
    """What to do; empty when all is well."""


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
    """A file that this process has written where checkpoints go, for every node to read."""

    folder: str
    name: str
    content: str


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """What each node is asked, beside what it is asked always."""

    probe: ClusterProbe | None
    """None when this process itself can't write there."""
    salt: str
    """Tokens are compared by a hash that only this one look can use."""
    asks_torch: bool
    """Whether PyTorch must say how many GPUs it can use, also where no driver lists one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a node says of itself."""

    versions: dict[str, str]
    """Package -> version, empty where it is missing; `python` and the sources of Fathom as well."""
    gpus: tuple[Gpu, ...]
    torch_gpus: int | None
    """GPUs that PyTorch can use; None when it was not asked."""
    gpu_trouble: str
    """Why the driver or PyTorch gave no answer."""
    ray_disk: Disk
    """Where Ray keeps its session and spills objects."""
    shared_memory: Disk | None
    """/dev/shm; None where a system has none."""
    memory: int
    memory_used: int
    token_mode: str
    token_hash: str
    """Salted; empty without a token."""
    listeners: tuple[Listener, ...] | None
    """None where the system does not tell this user."""
    monitor_grows: bool | None
    """Whether Ray's monitor here can start nodes; None where none runs for this cluster."""
    storage_trouble: str
    """Why the probe could not be read, or nothing written beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the cluster knows it, with what it said."""

    name: str
    cpus: float
    """What Ray gives to trials, as the next."""
    gpus: float
    grows: bool
    """It is the head of a cluster that may get nodes which are not there yet."""
    clock_ahead_seconds: float
    """Of this process's clock, less what the asking itself may account for; negative: behind."""
    facts: Facts


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Every node that was asked."""

    address: str
    """Empty when this machine is alone."""
    nodes: tuple[Node, ...]
    silent: dict[str, str]
    """Node -> why it gave no answer."""
    unseen: tuple[str, ...] = ()
    """Nodes whose file beside the probe did not come to be seen from here."""
    unanswered: str = ""
    """Address of a cluster that should be there, and at which nobody answers."""

    @property
    def grows(self) -> bool:
        """It may get nodes that are not there yet."""
        return any(node.grows for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a study takes."""

    gpus_per_trial: float | Literal["auto"]
    cpus_per_trial: float
    checkpoints: int
    """Bytes of all checkpoints that are kept at a time, at most."""
    trial_memory: int
    """Bytes of weights, gradients and optimizer state of the largest model."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """Where MLflow's store is, and what became of asking it."""

    uri: str
    """Without credentials."""
    refusal: str = ""
    """Why it can never be used."""
    silence: str = ""
    """Why it does not answer now."""


def names(some: list[str]) -> str:
    """The first three of them, and how many more."""
    more = f" and {len(some) - 3} more" if len(some) > 3 else ""
    return ", ".join(some[:3]) + more
