"""Types of GPU by their data sheets, and which type a cluster file names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.safe_yaml import parse_yaml
from fathom.search.study.file.text_file import FileError, read_text
from fathom.search.study.keys.groups import Precision, TrainConfig
from fathom.search.study.timing.device_speed import Speed

LAUNCH_SECONDS = 7e-6
"""Time to start a kernel on a fast host, an estimate. In recorded steps of an H100 a kernel of a
small model took 4 to 6 us; its host, a slow one, took 40 to 55 us to start one."""
EAGER_KERNELS, COMPILED_KERNELS = 70, 25
"""Numbers of kernels that a layer starts in a training step: eager, counted in the code; compiled,
an estimate."""
REACHED_FLOPS, REACHED_BANDWIDTH = 0.6, 0.8
"""Shares of the data sheet's rates that are reached: FLOPs in large matrix products, bandwidth in
elementwise kernels."""
FUSED = 2.0
"""Factor by which compiling reduces the memory traffic: an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A type of GPU with the rates of its data sheet, without sparsity."""

    name: str
    bfloat16_flops: float | None
    """FLOPs per second of matrix products in bfloat16; None if it has no bfloat16."""
    float32_flops: float
    bandwidth: float
    """Bytes per second that its memory delivers."""
    memory: float
    """Bytes of memory of the GPU."""

    def speed(self, train: TrainConfig, share: float) -> Speed:
        """The estimated speed of a trial on `share` GPUs, which may be a part of one GPU.

        With `compile: auto` it is the speed without compiling, a lower bound.
        """
        compiled = train.compile is True
        half = self.bfloat16_flops if train.precision is not Precision.FLOAT32 else None
        return Speed(
            peak=REACHED_FLOPS * (half or self.float32_flops) * share,
            layer_seconds=LAUNCH_SECONDS * (COMPILED_KERNELS if compiled else EAGER_KERNELS),
            bandwidth=REACHED_BANDWIDTH * self.bandwidth * share * (FUSED if compiled else 1),
        )


def _gpu(
    name: str, bfloat16: float | None, float32: float, bandwidth: float, memory: float
) -> GpuType:
    """A type of GPU in the units of data sheets: TFLOP/s, GB/s and GB."""
    return GpuType(
        name=name,
        bfloat16_flops=None if bfloat16 is None else bfloat16 * 1e12,
        float32_flops=float32 * 1e12,
        bandwidth=bandwidth * 1e9,
        memory=memory * 1e9,
    )


GPUS = (
    _gpu("T4", None, 8.1, 320, 16),
    _gpu("L4", 121, 30.3, 300, 24),
    _gpu("A10G", 70, 35, 600, 24),
    _gpu("A100-40GB", 312, 19.5, 1555, 40),
    _gpu("A100-80GB", 312, 19.5, 2039, 80),
    _gpu("L40S", 362, 91.6, 864, 48),
    _gpu("H100-PCIe", 756, 51, 2000, 80),
    _gpu("H100", 989, 67, 3350, 80),
    _gpu("H200", 989, 67, 4800, 141),
    _gpu("B200", 2250, 75, 8000, 180),
)
"""The types that a plan knows, from NVIDIA's data sheets; docs/clusters.md names them."""
NAMES = ", ".join(gpu.name for gpu in GPUS)
ASSUMED = next(gpu for gpu in GPUS if gpu.name == "A100-80GB")
"""The type that a plan assumes if it knows none."""

INSTANCES = {
    # AWS
    "g4dn": "T4", "g5": "A10G", "g6": "L4", "g6e": "L40S", "p4d": "A100-40GB", "p4de": "A100-80GB",
    "p5": "H100", "p5e": "H200", "p5en": "H200", "p6-b200": "B200",
    # Google Cloud
    "g2-standard": "L4", "a2-highgpu": "A100-40GB", "a2-ultragpu": "A100-80GB",
    "a3-highgpu": "H100", "a3-megagpu": "H100", "a3-ultragpu": "H200", "a4-highgpu": "B200",
}  # fmt: skip
"""Type of GPU of each family of machine types."""
CLUSTER_FILES = (Path("~/ray_bootstrap_config.yaml"), Path("cluster.yaml"))
"""Cluster files: on a head, the one from which Ray started the cluster; and the one of a checkout.
"""
CARRY = "ray rsync-up cluster.yaml runs/data/ fathom/runs/data/"
"""The command that carries a user's data to the head of a cluster, where all nodes see them."""


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The type of GPU that a plan is for."""

    gpu: GpuType
    """Data sheet of the chosen type, or of the one that is assumed."""
    device: str
    """Name by which speeds of the GPU are kept: the type's name, or the driver's for an unknown
    type."""
    here: int
    """Number of GPUs of this type on this machine."""
    source: str = ""
    """How the plan knows the type, as text; empty if a person or a driver named it."""


def choose_gpu(name: str | None, here: Sequence[str]) -> GpuChoice:
    """Returns the named type; without a name, the type of this machine's GPUs, of a cluster file,
    or an assumed one, in this order.

    Raises:
        ConfigError: if the name is of no known type.
    """
    if name is not None:
        gpu = gpu_named(name)
        return GpuChoice(gpu, gpu.name, sum(recognised(driver) is gpu for driver in here))
    if here and (found := recognised(here[0])):
        return GpuChoice(found, found.name, len(here))
    better = f"name yours with --gpu ({NAMES})"
    if here:
        source = f"{here[0]} is unknown here, and the figures are those of {ASSUMED.name}"
        return GpuChoice(ASSUMED, here[0], len(here), source)
    if (cluster := gpu_of_cluster()) is not None:
        gpu, place = cluster
        return GpuChoice(gpu, gpu.name, 0, f"{place} has this GPU; for another, {better}")
    return GpuChoice(ASSUMED, ASSUMED.name, 0, f"{ASSUMED.name} is assumed; {better}")


def gpu_named(name: str) -> GpuType:
    """Returns the type with this name, as a person or a driver writes it.

    Raises:
        ConfigError: if no type has it.
    """
    if found := recognised(name):
        return found
    raise ConfigError(f"`--gpu` must be one of {NAMES}, got {name!r}; name the nearest of them")


def recognised(name: str) -> GpuType | None:
    """Returns the type with the name that a driver gives, such as `NVIDIA A100-SXM4-80GB`; None if
    it is unknown."""
    words = _words(name)
    return next((gpu for gpu in GPUS if _words(gpu.name) <= words), None)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def gpu_of_cluster() -> tuple[GpuType, str] | None:
    """Returns the type of GPU in a cluster file of this folder, with the machine type and the file
    that name it; None without such a file, or if its machines have several types of GPU."""
    for file in CLUSTER_FILES:
        try:
            config = parse_yaml(read_text(file.expanduser()))
        except (FileError, RuntimeError):  # the latter without a home
            continue
        found = dict(_gpus_of(config))
        if len(found) == 1:
            ((name, machine),) = found.items()
            return gpu_named(name), f"{machine} in {file}"
    return None


def _gpus_of(config: Any) -> Iterator[tuple[str, str]]:
    """Yields GPU name and machine type of each node type of a Ray cluster file that has a GPU."""
    nodes = config.get("available_node_types") if isinstance(config, dict) else None
    for node in nodes.values() if isinstance(nodes, dict) else ():
        settings = node.get("node_config") if isinstance(node, dict) else None
        for key in ("InstanceType", "machineType"):
            machine = settings.get(key) if isinstance(settings, dict) else None
            family = re.match(r"(.+?)(\.|-\d+g?$)", str(machine))
            if family and family[1] in INSTANCES:
                yield INSTANCES[family[1]], str(machine)
