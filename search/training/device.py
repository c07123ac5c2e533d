"""The device that a training was granted, with its bfloat16 support and its memory. Torch only."""

import os
from dataclasses import replace

import torch

from fathom.models.shape import Shape
from fathom.search.study.hardware.fit import (
    BESIDE_TENSORS,
    execution,
    fit_step,
    may_shard,
    usable_memory,
)
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Precision, ResourcesConfig
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.state import TrainPlan

CPU_AS_GPU = "FATHOM_CPU_AS_GPU"
"""Environment variable that makes a CPU stand in for a granted GPU, for tests of several GPUs on a
machine without any."""
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""Environment variable that sets cuBLAS's workspaces; with workspaces of a fixed size, results have
the same bits every time."""
CPU = torch.device("cpu")


class DeviceError(ValueError):
    """The granted device can't be used in the way that the study asks."""


def granted_device(gpus: float) -> torch.device:
    """The GPU if any share of one was granted, otherwise the CPU, even if GPUs are visible.

    Raises:
        DeviceError: when PyTorch here can't use a GPU.
    """
    if not gpus or os.environ.get(CPU_AS_GPU):
        return CPU
    if not torch.cuda.is_available():
        raise DeviceError(
            f"a trial that was granted a GPU must train on it, but torch {torch.__version__} "
            "can't use one here; install the build of torch for its driver "
            "(pytorch.org/get-started), or set `resources.gpus_per_trial: 0`"
        )
    return torch.device("cuda")


def local_device(resources: ResourcesConfig) -> torch.device:
    """The device for a training in this process, outside Ray: a GPU if PyTorch can use one, unless
    the study gives its trials none."""
    return torch.device("cuda") if resources.gpus_per_trial and torch.cuda.is_available() else CPU


def keep_to_share(device: torch.device, resources: ResourcesConfig) -> None:
    """Limits this process to its trial's share of a GPU's memory. A trial that needs more uses
    smaller micro-batches instead of other trials' shares."""
    share = resources.gpus_of_trial(1)
    if device.type == "cuda" and share < 1:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(max(0.0, share - BESIDE_TENSORS / total))


def use_deterministic(wanted: bool) -> None:
    """Makes PyTorch use only kernels that give the same bits every time, if `wanted`; otherwise any
    kernel.

    An operation without such a kernel raises an error. cuBLAS reads its environment variable at the
    first matrix product.
    """
    if wanted:
        os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")
    if wanted != torch.are_deterministic_algorithms_enabled():  # the call imports the compiler
        torch.use_deterministic_algorithms(wanted)


def use_one_attention(*, heads_differ: bool) -> None:
    """Makes PyTorch use the same attention kernel on a GPU for all shapes that are compared.

    cuDNN's kernel only takes heads with a multiple of 8 features. So if the sizes of heads differ,
    it is disabled, and flash attention, which pads heads, computes all of them.
    """
    torch.backends.cuda.enable_cudnn_sdp(not heads_differ)


def computes_in_bfloat16(precision: Precision, device: str) -> bool:
    """True if a training computes in bfloat16; with `auto`, on a GPU that has bfloat16.

    Raises:
        DeviceError: when the study asks for bfloat16 and the GPU has none.
    """
    has = device != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    if precision is Precision.BFLOAT16 and not has:
        raise DeviceError(
            "`train.precision: bfloat16` needs a GPU that computes in it, got "
            f"{torch.cuda.get_device_name()}; use `float32` or `auto`"
        )
    return precision is Precision.BFLOAT16 or (
        precision is Precision.AUTO and device == "cuda" and has
    )


def fitted(
    plan: TrainPlan, config: StudyConfig, shape: Shape, device: torch.device, ranks: Ranks
) -> TrainPlan:
    """The plan with micro-batches that fit the device's memory. If one sequence does not fit,
    activations of layers are computed again; if the whole model does not fit, each process keeps a
    part of it."""
    gpu = None
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device).total_memory
    memory = usable_memory(config.resources, gpu)
    how = execution(
        config.train, shape, ranks=ranks.size, bfloat16=plan.bfloat16, gpu=gpu is not None
    )
    sequences = plan.batch_size // ranks.size
    shards = may_shard(config.model, config.train)
    fit = fit_step(shape, sequences, memory, how, may_shard=shards)
    return replace(
        plan, micro_batches=fit.micro_batches, recomputes=fit.recomputes, shards=fit.shards
    )
