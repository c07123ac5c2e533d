"""Splits a step into micro-batches, and makes them smaller when memory runs out. Torch only."""

import gc
import re

import torch
from torch import Tensor

from fathom.objectives.contract import IGNORED, Batch
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.state import Training

OUT_OF_MEMORY = re.compile(
    # The driver and NCCL; then cuBLAS, cuDNN and cuSOLVER.
    r"out of memory|[A-Z]_ALLOC(ATION)?_FAILED"
)
"""Pattern of out-of-memory errors that PyTorch raises as plain RuntimeErrors."""
MACHINE_OUT_OF_MEMORY = re.compile(r"(can't|[Cc]annot) allocate memory|bad_alloc|start new thread")
"""Pattern of out-of-memory errors of the CPU's allocator and of the system."""


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error means that the memory of the device or of the machine did not suffice."""
    named = isinstance(error, torch.OutOfMemoryError)
    return named or is_of_machine(error) or OUT_OF_MEMORY.search(str(error)) is not None


def is_of_machine(error: BaseException) -> bool:
    """True if an error means that the machine's memory did not suffice, rather than a GPU's."""
    named = isinstance(error, MemoryError)
    return named or MACHINE_OUT_OF_MEMORY.search(str(error)) is not None


def free_memory() -> None:
    """Frees memory that no tensor uses any more; the frames of an error may have kept a model
    alive."""
    gc.collect()
    torch.cuda.empty_cache()


def halved(training: Training) -> bool:
    """Halves the micro-batches of a training; returns False if they are single sequences
    already."""
    most = max(1, training.plan.batch_size // training.ranks.size)
    if training.micro_batches >= most:
        return False
    training.micro_batches = min(most, 2 * training.micro_batches)
    return True


def weighted_micro_batches(
    batch: Batch, ranks: Ranks, count: int
) -> list[tuple[Batch, Tensor | None]]:
    """This rank's share of a batch, split into `count` parts. Each part comes with its share of the
    batch's targets, which is its weight in the mean loss; the weight is None if a part is the whole
    batch."""
    if ranks.size == count == 1:
        return [(batch, None)]
    total = (batch.targets != IGNORED).sum()
    parts = ranks.local_batch(batch).chunk(count)
    return [(part, (part.targets != IGNORED).sum() / total) for part in parts]
