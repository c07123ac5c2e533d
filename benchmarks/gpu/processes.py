"""A function in several processes that reduce among themselves; CUDA's MPS for others."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn

from fathom.search.study.hardware.mps import PIPES, GpuSharing


def in_processes(
    work: Callable[..., None], *given: Any, size: int, meeting: Path, backend: str = "gloo"
) -> None:
    """Calls `work(rank, *given)` in so many processes, which meet by a file that is not there yet.

    With NCCL each process has the GPU of its rank.

    Raises:
        ProcessException: when one of them fails.
    """
    spawn(_process, (work, given, size, meeting, backend), nprocs=size)  # type: ignore[no-untyped-call]


def _process(
    rank: int,
    work: Callable[..., None],
    given: tuple[Any, ...],
    size: int,
    meeting: Path,
    backend: str,
) -> None:
    torch.set_num_threads(1)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        backend, init_method=f"file://{meeting}", rank=rank, world_size=size
    )
    work(rank, *given)
    torch.distributed.barrier()
    # A thread of gloo that still frees a tensor aborts the process while Python is finalized.
    sys.stdout.flush()
    os._exit(0)


@contextmanager
def mps() -> Iterator[str]:
    """Context whose new processes share a GPU by CUDA's Multi-Process Service, their kernels at the
    same time; gives the reason where there is none."""
    with GpuSharing() as sharing:
        trouble = sharing.start()
        with patch.dict(os.environ, {PIPES: str(sharing.pipes)} if sharing.pipes else {}):
            yield trouble
