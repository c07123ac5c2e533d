"""Stage `ranks`: a trial in several processes, NCCL between GPUs and gloo on a CPU."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_most, left_out, measured
from benchmarks.gpu.subject import python_source, shape_of, training_of
from fathom.search.training.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.loop import train

SAME = 1e-3
"""Largest difference of losses in nats; the processes add in another order."""
REDUCED = 2**24
"""Numbers of an all-reduce that is timed: a model of 17M parameters."""


def cases(setup: Setup) -> Cases:
    """Yields two processes on CPUs, and one for each GPU."""
    yield "gloo", lambda own: _compared(own, "gloo", 2)
    if setup.on_gpu:
        yield "nccl", _nccl


def _nccl(setup: Setup) -> Iterator[StageFinding]:
    gpus = torch.cuda.device_count()
    if gpus > 1:
        yield from _compared(setup, "nccl", gpus)
        return
    yield left_out("several GPUs", "there is one here; NCCL is started in one process")
    yield from _run("nccl", 1, [])


def _compared(setup: Setup, backend: str, size: int) -> Iterator[StageFinding]:
    device = torch.device("cpu" if backend == "gloo" else "cuda")
    alone = _losses(device, SINGLE_PROCESS)
    yield from _run(backend, size, alone)


def _run(backend: str, size: int, alone: list[float]) -> Iterator[StageFinding]:
    """The losses of so many processes against those of one, and the time of an all-reduce."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_process, (Path(folder), backend, size), nprocs=size)  # type: ignore[no-untyped-call]
        own, seconds = torch.load(Path(folder) / "0.pt")
    if alone:
        gap = max(abs(a - b) for a, b in zip(alone, own, strict=True))
        yield at_most(f"{size} processes against one, nats", gap, SAME)
    yield measured(f"all-reduce of {REDUCED / 1e6:.0f}M numbers, ms", 1000 * seconds)


def _process(rank: int, folder: Path, backend: str, size: int) -> None:
    torch.set_num_threads(1)
    device = torch.device("cpu" if backend == "gloo" else f"cuda:{rank}")
    if backend == "nccl":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        backend, init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size
    )
    losses = _losses(device, Ranks(rank, size))
    seconds = _all_reduce_seconds(device)
    if rank == 0:
        torch.save((losses, seconds), folder / "0.pt")
    torch.distributed.destroy_process_group()


def _losses(device: torch.device, ranks: Ranks) -> list[float]:
    shape = shape_of(2, 48)
    training = training_of(shape, device, ranks=ranks)
    return [one.loss for one in train(training, python_source(64).to(device))]


def _all_reduce_seconds(device: torch.device) -> float:
    numbers = torch.ones(REDUCED, device=device)
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        torch.distributed.all_reduce(numbers)
        numbers[0].item()
        seconds.append(time.monotonic() - began)
    return min(seconds)
