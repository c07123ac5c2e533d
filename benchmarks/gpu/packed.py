"""Stage `packing`: many trials of 1M parameters on one device, as one batched model or as
processes, which also take trials of different shapes."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.finding import (
    Cases,
    Setup,
    StageFinding,
    at_least,
    at_most,
    left_out,
    measured,
)
from benchmarks.gpu.processes import mps
from benchmarks.gpu.subject import python_source, shape_of
from benchmarks.speed.packing_workers import Case as PackedCase
from benchmarks.speed.packing_workers import Trainer, Workers

SAME = 1e-3
"""Largest difference of losses in nats between a trial in a batched model and alone."""
REPLICAS = (8, 32)
TIMES_AS_FAST = 15.0
"""Mark of 32 trials together against one alone; HFTA's published best is 15.1."""
PROCESSES = (4, 8)


def cases(setup: Setup) -> Cases:
    """Yields the numbers of batched trials, the most first, then processes."""
    for replicas in (2,) if setup.tiny else reversed(REPLICAS):
        yield f"{replicas} trials", partial(_packed, replicas=replicas)
    yield "processes", _processes
    if setup.on_gpu:
        yield "processes with MPS", _processes_with_mps


def _case(setup: Setup) -> PackedCase:
    shape = shape_of(1, 32) if setup.tiny else shape_of(5, 128, context=256)
    return PackedCase(shape=shape, batch_size=4 if setup.tiny else 32, device=setup.device.type)


def _packed(setup: Setup, replicas: int) -> Iterator[StageFinding]:
    threads, case = torch.get_num_threads(), _case(setup)
    seconds = 0.1 if setup.tiny else 3.0
    trainer = Trainer(python_source(case.shape.context))
    speeds = []
    for several in (1, replicas):
        trainer.prepare(case, several)
        speeds.append(several * trainer.steps_per_second(seconds))
    alone, together = speeds
    yield measured("one trial alone, eager, steps a second", alone)
    ratio, what = together / alone, f"{replicas} trials together / one alone"
    judged = setup.on_gpu and replicas == max(REPLICAS)
    yield at_least(what, ratio, TIMES_AS_FAST) if judged else measured(what, ratio)
    gap = trainer.difference(case, min(replicas, 4))
    yield at_most("loss of a trial among several against alone, nats", gap, SAME)
    torch.set_num_threads(threads)


def _processes(setup: Setup) -> Iterator[StageFinding]:
    """Trials that share the device as fractions of a GPU do in a search."""
    case, counts = _case(setup), (2,) if setup.tiny else PROCESSES
    workers = Workers(max(counts), python_source(case.shape.context))
    try:
        rates = {
            count: workers.speed(
                case, processes=count, replicas=1, seconds=0.1 if setup.tiny else 3
            )
            for count in (1, *counts)
        }
    finally:
        workers.dismiss()
    yield measured("one process alone, steps a second", rates[1] / case.tokens_per_step)
    for count in counts:
        yield measured(f"{count} processes / one alone", rates[count] / rates[1])


def _processes_with_mps(setup: Setup) -> Iterator[StageFinding]:
    with mps() as trouble:
        if trouble:
            yield left_out("processes / one alone", trouble)
        else:
            yield from _processes(setup)
