"""Stage `agreement`: losses, and which depth is better, do not depend on how a trial is trained."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import torch

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_most, holds, left_out
from benchmarks.gpu.subject import SMALL, Sizes, python_source, shape_of, sizes, training_of
from fathom.models.shape import Shape
from fathom.search.training.compile_policy import possible
from fathom.search.training.loop import train

CLEAR = 0.01
"""Nats by which two depths must differ for their order to count."""
SAME, ROUNDED = 1e-3, 0.02
"""Largest difference of losses in nats: sums in another order in float32, which AdamW's first steps
amplify by an amount that depends on the text; bfloat16 against float32."""

Losses = Mapping[Shape, tuple[float, ...]]
"""Shape -> held-out and training loss at each evaluation."""


def cases(setup: Setup) -> Cases:
    """Yields the differences that a search may have between its trials, dearest error first."""
    yield "bfloat16", _bfloat16
    yield "micro-batches", _micro_batches
    yield "compiled", _compiled
    if setup.on_gpu:
        yield "compiled and recorded", _compiled_and_recorded
    yield "device", _device


def _bfloat16(setup: Setup) -> Iterator[StageFinding]:
    reference, other = losses(setup), losses(setup, bfloat16=True)
    yield at_most("bfloat16 against float32, nats", gap(reference, other), ROUNDED)
    yield same_order(reference, other)


def _micro_batches(setup: Setup) -> Iterator[StageFinding]:
    reference, other = losses(setup), losses(setup, micro_batches=4)
    yield at_most("4 micro-batches against 1, nats", gap(reference, other), SAME)
    yield same_order(reference, other)


def _compiled(setup: Setup) -> Iterator[StageFinding]:
    if not possible():
        yield left_out("compiled against eager, nats", "there is no C compiler")
        return
    few = sizes(setup)[:1] if setup.tiny else sizes(setup)
    reference, other = losses(setup, few=few), losses(setup, few=few, compiled=True)
    yield at_most("compiled against eager, nats", gap(reference, other), SAME)
    yield same_order(reference, other)


def _compiled_and_recorded(setup: Setup) -> Iterator[StageFinding]:
    """Small models, for which a search does both."""
    reference = losses(setup, few=SMALL)
    other = losses(setup, few=SMALL, compiled=True, recorded=True)
    yield at_most("compiled and recorded against eager, nats", gap(reference, other), SAME)
    yield same_order(reference, other)


def _device(setup: Setup) -> Iterator[StageFinding]:
    """On a CPU this compares the CPU with itself, in double the number of threads."""
    here = losses(setup, few=SMALL)
    threads = torch.get_num_threads()
    torch.set_num_threads(2 * threads)
    try:
        other = losses(setup, few=SMALL, device=torch.device("cpu"))
    finally:
        torch.set_num_threads(threads)
    yield at_most("device against CPU, float32, nats", gap(here, other), SAME)
    yield same_order(here, other)


def losses(
    setup: Setup,
    *,
    few: Sizes | None = None,
    device: torch.device | None = None,
    **changes: Any,
) -> Losses:
    """Losses of each shape, or of a few, trained for some steps on Python's source."""
    small = setup.tiny or few is SMALL
    context, steps = (64, 24) if small else (256, 120)
    where = device or setup.device
    objective = python_source(context).to(where)
    plan: dict[str, Any] = {"batch_size": 8 if small else 64, "steps": steps}
    plan |= {"evaluation_steps": (steps // 2, steps)}
    found = {}
    for depth, width in few or sizes(setup):
        shape = shape_of(depth, width, context=context)
        training = training_of(shape, where, **plan, **changes)
        measured = list(train(training, objective))
        found[shape] = tuple(loss for point in measured for loss in (point.loss, point.train_loss))
    return found


def gap(losses: Losses, other: Losses) -> float:
    """Largest difference of two losses, in nats."""
    return max(
        abs(a - b) for shape in losses for a, b in zip(losses[shape], other[shape], strict=True)
    )


def same_order(losses: Losses, other: Losses) -> StageFinding:
    """True if of every two depths that clearly differ the same one is better at the end."""
    pairs = [
        (a, b)
        for a, b in combinations(losses, 2)
        if abs(_final(losses[a]) - _final(losses[b])) > CLEAR
    ]
    turned = [
        f"{a.depth} and {b.depth}"
        for a, b in pairs
        if (_final(losses[a]) < _final(losses[b])) != (_final(other[a]) < _final(other[b]))
    ]
    what = f"the order of depths is kept ({len(pairs)} pairs)"
    return holds(what, not turned, f"turned: depths {', '.join(turned)}")


def _final(losses: tuple[float, ...]) -> float:
    return losses[-2]
