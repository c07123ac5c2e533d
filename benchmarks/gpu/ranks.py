"""Stage `ranks`: a trial in several processes, each with the whole model or with a part of it; NCCL
between GPUs and gloo on a CPU."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed

from benchmarks.gpu.finding import (
    Cases,
    Setup,
    StageFinding,
    at_most,
    left_out,
    measured,
)
from benchmarks.gpu.processes import in_processes
from benchmarks.gpu.steps import no_step_waits, waiting_operations
from benchmarks.gpu.subject import python_source, random_ids, shape_of, sizes, training_of
from fathom.search.training.loop import train
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.ranks.spread_evaluation import evaluate_on_ranks

SAME = 1e-3
"""Largest difference of losses in nats; the processes add in another order."""
WAYS: dict[str, dict[str, Any]] = {
    "whole models": {},
    "whole models in pieces": {"micro_batches": 2},
    "parts": {"shards": True},
}
REDUCED = 2**24
"""Numbers of an all-reduce that is timed: a model of 17M parameters."""
EVALUATED = 1024
"""Windows of held-out text in an evaluation that is timed."""


def cases(setup: Setup) -> Cases:
    """Yields two processes on CPUs, and one for each GPU."""
    yield "gloo", partial(_compared, backend="gloo", size=2)
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
    yield from _run(backend, size, _losses(device, SINGLE_PROCESS))


def _run(backend: str, size: int, alone: list[float]) -> Iterator[StageFinding]:
    """The losses of so many processes against those of one, what makes their steps wait, the time
    of an all-reduce, and how much faster an evaluation is."""
    with tempfile.TemporaryDirectory() as folder:
        found, meeting = Path(folder) / "found.pt", Path(folder) / "meeting"
        in_processes(_process, found, backend, size, size=size, meeting=meeting, backend=backend)
        losses, waiting, seconds, gain = torch.load(found)
    for way, curve in losses.items():
        gap = max(abs(a - b) for a, b in zip(alone, curve, strict=True))
        yield at_most(f"{size} processes, {way}, against one, nats", gap, SAME)
        yield no_step_waits(waiting[way], f", {way}")
    yield measured(f"all-reduce of {REDUCED / 1e6:.0f}M numbers, ms", 1000 * seconds)
    if size > 1:
        yield measured(f"evaluation by {size} processes, times the speed of one", gain)


def _process(rank: int, found: Path, backend: str, size: int) -> None:
    device = torch.device("cpu" if backend == "gloo" else f"cuda:{rank}")
    ranks, setup = Ranks(rank, size), Setup(device=device, tiny=backend == "gloo")
    ways = WAYS if size > 1 else {}
    losses = {way: _losses(device, ranks, **how) for way, how in ways.items()}
    waiting = {way: waiting_operations(setup, ranks, **how) for way, how in ways.items()}
    seconds, gain = _all_reduce_seconds(device), _evaluation_gain(setup, ranks)
    if rank == 0:
        torch.save((losses, waiting, seconds, gain), found)


def _losses(device: torch.device, ranks: Ranks, **how: Any) -> list[float]:
    shape = shape_of(2, 48)
    training = training_of(shape, device, ranks=ranks, **how)
    return [point.loss for point in train(training, python_source(64).to(device))]


def _all_reduce_seconds(device: torch.device) -> float:
    numbers = torch.ones(REDUCED, device=device)
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        torch.distributed.all_reduce(numbers)
        numbers[0].item()
        seconds.append(time.monotonic() - began)
    return min(seconds)


def _evaluation_gain(setup: Setup, ranks: Ranks) -> float:
    """Returns the median time of an evaluation by the first process, over that by all of them."""
    shape = shape_of(*sizes(setup)[1])
    text = random_ids(shape, EVALUATED * shape.context + 1)
    text = replace(text, validation=text.train, eval_windows=EVALUATED).to(setup.device)
    model = training_of(shape, setup.device, ranks=ranks).transformer
    model.eval()

    def evaluated() -> dict[str, float]:
        return text.evaluate(model)

    alone, together = list[float](), list[float]()
    for _ in range(5):
        began = time.monotonic()
        ranks.broadcast(evaluated)
        between = time.monotonic()
        evaluate_on_ranks(ranks, model, evaluated)
        alone.append(between - began)
        together.append(time.monotonic() - between)
    return median(alone) / median(together)
