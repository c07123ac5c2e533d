"""Stage `steps`: no training step waits for the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu.finding import Cases, Setup, StageFinding, holds
from benchmarks.gpu.subject import random_ids, shape_of, training_of
from fathom.search.training.loop import advance
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal")
"""Operations that read a value of the device, or whose result has a size that depends on one."""
WARM_STEPS, WATCHED_STEPS = 2, 3


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operation that would wait for a GPU, while it is on; works on a CPU as well."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on = True
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        name = func.overloadpacket.__name__
        if self.on and name in WAITING:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def cases(setup: Setup) -> Cases:
    """Yields the ways to train that every search uses."""
    yield "eager", _waits
    yield "diagnostics", partial(_waits, diagnostics=True)
    yield "bfloat16", partial(_waits, bfloat16=True)
    if setup.on_gpu:
        yield "compiled", partial(_waits, bfloat16=True, compiled=True)


def _waits(setup: Setup, **changes: Any) -> Iterator[StageFinding]:
    found = waiting_operations(setup, **changes)
    yield holds("no step waits for the device", not found, f"it does in {', '.join(found)}")


def waiting_operations(setup: Setup, ranks: Ranks = SINGLE_PROCESS, **changes: Any) -> list[str]:
    """Operations of a few training steps that wait for the device, after some to warm up."""
    shape = shape_of(2, 32) if setup.tiny else shape_of(6, 384, context=256)
    objective = random_ids(shape).to(setup.device)
    training = training_of(shape, setup.device, ranks, **changes)
    advance(training, objective, goal=WARM_STEPS)
    watch, last = _Watch(), WARM_STEPS + WATCHED_STEPS

    def stepped() -> bool:
        """Called after every step; the mean loss, read behind the last one, may be waited for."""
        if training.step == last:
            watch.on = False
            _let_wait(setup)
        return False

    try:
        with _no_waiting(setup), watch:
            advance(training, objective, goal=last, interrupted=stepped)
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return [*watch.seen, str(error).splitlines()[0]]
    return watch.seen


@contextmanager
def _no_waiting(setup: Setup) -> Iterator[None]:
    """On a GPU CUDA itself refuses to wait inside."""
    if setup.on_gpu:
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        _let_wait(setup)


def _let_wait(setup: Setup) -> None:
    if setup.on_gpu:
        torch.cuda.set_sync_debug_mode("default")
