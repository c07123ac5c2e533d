"""Stage `packing`: many trials of 1M parameters on one device, each in a process."""

from collections.abc import Iterator
from functools import partial

from benchmarks.gpu.finding import Cases, Setup, StageFinding, left_out, measured
from benchmarks.gpu.processes import mps
from benchmarks.gpu.subject import python_source, shape_of
from benchmarks.speed.packing_workers import Case as PackedCase
from benchmarks.speed.packing_workers import Workers

PROCESSES = (4, 8, 12)


def cases(setup: Setup) -> Cases:
    """Yields the processes alone, and on a GPU with CUDA's Multi-Process Service; eager steps, and
    steps that are recorded as a graph."""
    for name, recorded in (("processes", False), ("processes, recorded", True)):
        yield name, partial(_processes, recorded=recorded)
        if setup.on_gpu:
            yield f"{name}, with MPS", partial(_processes_with_mps, recorded=recorded)


def _case(setup: Setup, recorded: bool) -> PackedCase:
    return PackedCase(
        shape=shape_of(1, 32) if setup.tiny else shape_of(5, 128, context=256),
        batch_size=4 if setup.tiny else 32,
        device=setup.device.type,
        recorded=recorded,
    )


def _processes(setup: Setup, *, recorded: bool) -> Iterator[StageFinding]:
    """Trials that share the device as fractions of a GPU do in a search."""
    case, counts = _case(setup, recorded), (2,) if setup.tiny else PROCESSES
    workers = Workers(max(counts), python_source(case.shape.context))
    try:
        rates = {
            count: workers.speed(case, processes=count, seconds=0.1 if setup.tiny else 2)
            for count in (1, *counts)
        }
    finally:
        workers.dismiss()
    yield measured("one process alone, steps a second", rates[1] / case.tokens_per_step)
    for count in counts:
        yield measured(f"{count} processes / one alone", rates[count] / rates[1])


def _processes_with_mps(setup: Setup, *, recorded: bool) -> Iterator[StageFinding]:
    with mps() as trouble:
        if trouble:
            yield left_out("processes / one alone", trouble)
        else:
            yield from _processes(setup, recorded=recorded)
