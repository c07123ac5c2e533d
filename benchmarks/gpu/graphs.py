"""Stage `graphs`: a whole step as one CUDA graph gives the same losses, waits for nothing, and how
much time it saves where launches take most of a step."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.gpu.agreement import SAME, gap, losses, same_order
from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_least, at_most, holds, measured
from benchmarks.gpu.steps import (
    GRAPH,
    WATCHED_STEPS,
    begun,
    events_of_steps,
    no_step_waits,
    waiting_operations,
)
from benchmarks.gpu.subject import SMALL, random_ids, shape_of, training_of
from fathom.search.training.loop import advance, record_step

SHAPES = ((5, 128), (20, 64), (6, 384), (64, 112), (12, 832))
"""Depth and width: 1M, wide and deep, 10M, wide and deep, and 100M, where launches hardly count."""
SECONDS = 2.0


def cases(setup: Setup) -> Cases:
    """Yields the losses, what steps do, and times by size."""
    yield "same losses", _same_losses
    yield "steps", _steps
    for depth, width in ((2, 32),) if setup.tiny else SHAPES:
        yield f"{depth}x{width}", partial(_times, depth=depth, width=width)


def _same_losses(setup: Setup) -> Iterator[StageFinding]:
    """On a CPU to the last bit: there the step is the same, on buffers that stay."""
    for bfloat16 in (False, True):
        reference = losses(setup, few=SMALL, bfloat16=bfloat16)
        other = losses(setup, few=SMALL, bfloat16=bfloat16, recorded=True)
        name = "bfloat16" if bfloat16 else "float32"
        bound = SAME if setup.on_gpu else 0.0
        yield at_most(f"recorded against eager, {name}, nats", gap(reference, other), bound)
        yield same_order(reference, other)


def _steps(setup: Setup) -> Iterator[StageFinding]:
    how: dict[str, Any] = {"recorded": True, "bfloat16": setup.on_gpu}
    training, objective = begun(setup, **how)
    yield holds("steps are recorded", training.recorded is not None, "a warning says why not")
    yield no_step_waits(waiting_operations(setup, **how))
    if setup.on_gpu:
        events = events_of_steps(training, objective)
        count = sum(event.name.startswith(GRAPH) for event in events)
        yield holds(f"each step is one {GRAPH}", count == WATCHED_STEPS, f"{count} of them")


def _times(setup: Setup, depth: int, width: int) -> Iterator[StageFinding]:
    """Milliseconds of a step of 8k tokens up to 1M parameters, and of 32k tokens above."""
    shape = shape_of(depth, width, context=32 if setup.tiny else 256)
    batch = 4 if setup.tiny else 32 if shape.params_total < 2e6 else 128
    objective, seconds = random_ids(shape).to(setup.device), {}
    for recorded in (False, True):
        training = training_of(shape, setup.device, bfloat16=setup.on_gpu, batch_size=batch)
        began = time.perf_counter()
        if recorded:
            record_step(training, objective)
            yield measured("seconds of recording", time.perf_counter() - began)
        advance(training, objective, goal=3)
        limit, steps = 0.05 if setup.tiny else SECONDS, 0
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < limit:
            steps += 10
            advance(training, objective, goal=training.step + 10)  # it waits at its end
        seconds[recorded] = passed / steps
        yield measured(f"step, ms, {'recorded' if recorded else 'eager'}", 1000 * passed / steps)
    ratio, what = seconds[False] / seconds[True], "eager / recorded"
    yield at_least(what, ratio, 1.0) if setup.on_gpu else measured(what, ratio)
