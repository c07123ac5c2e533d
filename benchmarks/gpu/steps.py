"""Stage `steps`: no training step waits for the device, in any of the ways to train; compiled code
and CUDA graphs do run."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.finding import Cases, Setup, StageFinding, holds, left_out
from benchmarks.gpu.subject import (
    random_ids,
    shape_of,
    sources_and_targets,
    token_file,
    training_of,
)
from fathom.models.parametrization import OptimizerName
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.search.training.compile_policy import possible
from fathom.search.training.loop import advance, compile_step, record_step
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.state import Training

READS = ("aten::item", "aten::is_nonzero", "aten::equal")
"""Operations that read a value of the device."""
SIZED_BY_VALUES = ("aten::nonzero", "aten::masked_select")
"""Operations whose result has a size that depends on values."""
WARM_STEPS, WATCHED_STEPS = 2, 3
COMPILED, GRAPH = "Torch-Compiled Region", "cudaGraphLaunch"
"""Names under which the profiler lists a call of compiled code and a launch of a graph."""


def cases(setup: Setup) -> Cases:
    """Yields the ways to train that searches use."""
    yield "eager", _waits
    yield "diagnostics", partial(_waits, diagnostics=True)
    yield "bfloat16", partial(_waits, bfloat16=True)
    yield "Muon", partial(_waits, optimizer=OptimizerName.MUON)
    yield "micro-batches", partial(_waits, micro_batches=4)
    yield "token files", _token_files
    yield "translation", _translation
    yield "compiled", partial(_compiled, runs=COMPILED)
    if setup.on_gpu:
        yield "compiled and recorded", partial(_compiled, runs=GRAPH, recorded=True)


def _waits(setup: Setup, **changes: Any) -> Iterator[StageFinding]:
    yield no_step_waits(waiting_operations(setup, **changes))


def no_step_waits(found: list[str], how: str = "") -> StageFinding:
    """True if no operation was found that waits for the device."""
    return holds(f"no step waits{how}", not found, f"it does in {', '.join(found)}")


def _token_files(setup: Setup) -> Iterator[StageFinding]:
    with tempfile.TemporaryDirectory() as folder:
        objective = token_file(_shape(setup), Path(folder) / "ids.bin")
        yield no_step_waits(waiting_operations(setup, objective=objective))


def _translation(setup: Setup) -> Iterator[StageFinding]:
    if find_spec("sacrebleu") is None:
        yield left_out("no step waits", "sacrebleu is not installed")
        return
    shape, objective = sources_and_targets(_shape(setup))
    yield no_step_waits(waiting_operations(setup, shape=shape, objective=objective))


def _compiled(setup: Setup, runs: str, **how: Any) -> Iterator[StageFinding]:
    if not possible():
        yield left_out("no step waits", "there is no C compiler")
        return
    how |= {"compiled": True, "bfloat16": setup.on_gpu}
    yield no_step_waits(waiting_operations(setup, **how))
    training, objective = begun(setup, **how)
    events = events_of_steps(training, objective)
    count = sum(event.name.startswith(runs) for event in events)
    yield holds(f"each step has a {runs}", count >= WATCHED_STEPS, f"{count} in {WATCHED_STEPS}")


def waiting_operations(
    setup: Setup,
    ranks: Ranks = SINGLE_PROCESS,
    *,
    shape: Shape | None = None,
    objective: Objective | None = None,
    **changes: Any,
) -> list[str]:
    """Operations of a few training steps that wait for the device, after some to warm up.

    On a GPU CUDA itself refuses to wait; on a CPU the profiler lists what would.
    """
    training, placed = begun(setup, ranks, shape, objective, **changes)
    if not setup.on_gpu:
        return sorted({event.name for event in events_of_steps(training, placed) if waits(event)})
    try:
        with _no_waiting():
            _advance(training, placed, _let_wait)
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return [str(error).splitlines()[0]]
    return []


def waits(event: FunctionEvent) -> bool:
    """True if an operation would wait for a GPU. Kernels of a CPU read values as well, inside."""
    inside = event.cpu_parent is not None and event.cpu_parent.name.startswith("aten::")
    return event.name in SIZED_BY_VALUES or (event.name in READS and not inside)


def events_of_steps(training: Training, objective: Objective) -> list[FunctionEvent]:
    """All that the profiler saw in a few training steps."""
    kinds = [ProfilerActivity.CPU]
    if training.device.type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
    watched = profile(activities=kinds)
    watched.start()
    _advance(training, objective, watched.stop)
    events: list[FunctionEvent] = watched.events()  # type: ignore[no-untyped-call]
    return events


def begun(
    setup: Setup,
    ranks: Ranks = SINGLE_PROCESS,
    shape: Shape | None = None,
    objective: Objective | None = None,
    **changes: Any,
) -> tuple[Training, Objective]:
    """A training that is warm, and its objective on the device."""
    shape = shape or _shape(setup)
    placed = (objective or random_ids(shape)).to(setup.device)
    training = training_of(shape, setup.device, ranks, **changes)
    if training.plan.compiled:
        compile_step(training, placed)
    if training.plan.recorded:
        record_step(training, placed)
    advance(training, placed, goal=WARM_STEPS)
    return training, placed


def _shape(setup: Setup) -> Shape:
    return shape_of(2, 32) if setup.tiny else shape_of(6, 384, context=256)


def _advance(training: Training, objective: Objective, after: Callable[[], object]) -> None:
    """Trains a few steps. `after` is called behind the last one, since the mean loss, which is read
    then, may be waited for."""
    last = training.step + WATCHED_STEPS

    def stepped() -> bool:
        if training.step == last:
            after()
        return False

    advance(training, objective, goal=last, interrupted=stepped)


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Context in which CUDA refuses to wait."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        _let_wait()


def _let_wait() -> None:
    torch.cuda.set_sync_debug_mode("default")
