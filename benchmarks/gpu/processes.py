"""A function in several processes that reduce among themselves; CUDA's MPS for others."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn

MPS_SECONDS = 20
"""Longest time in seconds for MPS to start or to end."""


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
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield "nvidia-cuda-mps-control is not installed"
        return
    with tempfile.TemporaryDirectory() as folder:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        with patch.dict(os.environ, places):
            if trouble := _told(control, "-d"):
                yield f"nvidia-cuda-mps-control -d: {trouble}"
                return
            try:
                yield ""
            finally:  # without a limit it waits for processes that may hang
                _told(control, said="quit -t 5\n")


def _told(*command: str, said: str = "") -> str:
    """Runs a command; returns why it failed, or nothing."""
    with tempfile.TemporaryFile("w+") as errors:  # a daemon that it starts would keep a pipe open
        try:
            done = subprocess.run(
                command, input=said, text=True, stdout=errors, stderr=errors, check=False,
                timeout=MPS_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"it did not end in {MPS_SECONDS} s"
        errors.seek(0)
        return (errors.read(100).strip() or "it failed") if done.returncode else ""
