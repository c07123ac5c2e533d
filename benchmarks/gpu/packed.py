"""Stage `packing`: many trials of 1M parameters on one device, as one batched model."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_least, at_most, measured
from benchmarks.gpu.subject import python_source, shape_of
from benchmarks.speed.packing_workers import Case as PackedCase
from benchmarks.speed.packing_workers import Trainer

SAME = 1e-3
"""Largest difference of losses in nats between a trial in a batched model and alone."""
REPLICAS = (8, 32)
TIMES_AS_FAST = 15.0
"""Mark of 32 trials together against one alone; HFTA's published best is 15.1."""


def cases(setup: Setup) -> Cases:
    """Yields the numbers of trials, the most first."""
    for replicas in (2,) if setup.tiny else reversed(REPLICAS):
        yield f"{replicas} trials", partial(_packed, replicas=replicas)


def _packed(setup: Setup, replicas: int) -> Iterator[StageFinding]:
    threads = torch.get_num_threads()
    context = 64 if setup.tiny else 256
    shape = shape_of(1, 32) if setup.tiny else shape_of(5, 128, context=context)
    seconds = 0.1 if setup.tiny else 3.0
    case = PackedCase(shape=shape, batch_size=4 if setup.tiny else 32, device=setup.device.type)
    trainer = Trainer(python_source(context))
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
