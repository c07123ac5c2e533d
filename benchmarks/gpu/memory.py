"""Stage `memory`: a step takes what is predicted, in one piece and in several, and leaves nothing
behind; a trial that runs out of memory goes on in smaller pieces, to the same end."""

import dataclasses
import gc
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from benchmarks.gpu.finding import (
    Cases,
    Setup,
    StageFinding,
    at_least,
    at_most,
    holds,
    measured,
)
from benchmarks.gpu.subject import python_source, random_ids, shape_of, training_of, trial_of
from fathom.models.memory import Execution, step_memory
from fathom.models.shape import Shape
from fathom.objectives.contract import Batch, Model
from fathom.objectives.keys import logit_tokens
from fathom.objectives.text.language.objective import Language
from fathom.search.records import Outcome, Report
from fathom.search.training.assignment import Assignment
from fathom.search.training.loop import advance, record_step
from fathom.search.training.micro_batches import free_memory
from fathom.search.training.trial import RunningTrial, catch_failures, run_trial

TOO_LOW, TOO_HIGH = 0.95, 1.10
"""Bounds of a prediction, of what is measured."""
SIZES = ((6, 384), (12, 832), (24, 1152))
VOCABULARIES = (256, 50_304)
SEQUENCES = 8
SAME = 1e-3
"""Largest difference in nats of the losses of a trial with enough memory and of one without."""


class ScarceLanguage(Language):
    """A text on whose loss a batch of more sequences than a few runs out of memory."""

    most = 4

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """The mean loss, if there is enough memory for the sequences."""
        if len(batch.inputs) > self.most:
            raise torch.OutOfMemoryError(f"no memory for {len(batch.inputs)} sequences")
        return Language.loss(self, model, batch)


def cases(setup: Setup) -> Cases:
    """Yields failures that the stage brings about itself, and those of a GPU's allocator."""
    for depth, width in ((2, 64),) if setup.tiny else SIZES:
        for vocabulary in (256,) if setup.tiny else VOCABULARIES:
            name = f"predicted {depth}x{width} V={vocabulary}"
            shape = shape_of(
                depth, width, vocabulary=vocabulary, context=128 if setup.tiny else 1024
            )
            yield name, partial(_predicted, shape=shape)
    yield "left behind", partial(_left_behind, recorded=False)
    yield "left behind, recorded", partial(_left_behind, recorded=True)
    yield "forced", _forced
    if setup.on_gpu:
        yield "limited eager", lambda setup: _limited(setup, compiled=False)
        yield "limited compiled", lambda setup: _limited(setup, compiled=True)


def _predicted(setup: Setup, shape: Shape) -> Iterator[StageFinding]:
    """The peak of a step in one piece and in four against the closed form; without 15 % of it a
    search would not plan."""
    objective = random_ids(shape).to(setup.device)
    how = Execution(
        bfloat16=setup.on_gpu, gpu=setup.on_gpu, logit_tokens=logit_tokens(shape.vocab_size)
    )
    for pieces in (1, 4):

        def stepped(pieces: int = pieces) -> None:
            training = training_of(
                shape, setup.device, batch_size=SEQUENCES, micro_batches=pieces,
                bfloat16=setup.on_gpu,
            )  # fmt: skip
            advance(training, objective, goal=2)

        peak = peak_memory(setup, stepped)
        told = step_memory(shape, sequences=SEQUENCES // pieces, pieces=pieces, how=how).total
        what = f"in {pieces} pieces, " if pieces > 1 else ""
        yield measured(f"{what}measured, MB", peak / 1e6)
        yield at_most(f"{what}predicted / measured", told / peak, TOO_HIGH)
        yield at_least(f"{what}predicted / measured", told / peak, TOO_LOW)


def peak_memory(setup: Setup, do: Callable[[], None]) -> int:
    """Bytes of tensors that something makes, at the peak.

    It is done once before, for what stays for ever, such as cuBLAS's workspaces: else the first
    case that is measured would have them, whichever it is.
    """
    do()
    free_memory()
    if setup.on_gpu:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        do()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        do()
    assert profile.profiler is not None
    events: Any = profile.profiler.kineto_results.events()
    changes = sorted(
        (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
    )
    peak: int = max(accumulate(bytes_ for _, bytes_ in changes))
    return peak


def _left_behind(setup: Setup, *, recorded: bool) -> Iterator[StageFinding]:
    """What later steps add to the memory of earlier ones, and trainings to that before them."""
    shape = shape_of(2, 64)
    objective = random_ids(shape).to(setup.device)

    def trained() -> int:
        training = training_of(shape, setup.device)
        if recorded:
            record_step(training, objective)
        advance(training, objective, goal=4)
        before = live_bytes(setup)
        advance(training, objective, goal=20)
        return live_bytes(setup) - before

    trained()  # what stays for ever is there
    before = live_bytes(setup)
    yield at_most("bytes that 16 steps leave behind", trained(), 0)
    yield at_most("bytes that a training leaves behind", live_bytes(setup) - before, 0)


def live_bytes(setup: Setup) -> int:
    """Bytes of the tensors that are alive; on a CPU of those that Python knows."""
    free_memory()
    if setup.on_gpu:
        return torch.cuda.memory_allocated()
    # Subclasses are the compiler's, which have no memory.
    tensors = [known for known in gc.get_objects() if type(known) in (Tensor, Parameter)]
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


def _forced(setup: Setup) -> Iterator[StageFinding]:
    plenty = python_source(64)
    fields = {field.name: getattr(plenty, field.name) for field in dataclasses.fields(plenty)}
    yield from _compared(setup, plenty, ScarceLanguage(**fields))


def _limited(setup: Setup, *, compiled: bool) -> Iterator[StageFinding]:
    """The process may use half of the memory that a trial takes beside its weights."""
    objective = python_source(64)
    torch.cuda.reset_peak_memory_stats()
    reference = trained(setup, objective, compiled=compiled)
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    yield measured("peak memory of the trial, GB", peak / 1e9)
    torch.cuda.set_per_process_memory_fraction(0.6 * peak / total)
    try:
        last = trained(setup, objective, compiled=compiled)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    yield from _same_end(reference, last)


def _compared(setup: Setup, plenty: Language, scarce: Language) -> Iterator[StageFinding]:
    yield from _same_end(trained(setup, plenty), trained(setup, scarce))


def _same_end(reference: Report, last: Report) -> Iterator[StageFinding]:
    yield holds("it goes on to the end", last.outcome is Outcome.FINISHED, last.reason)
    yield holds("its reason says how it was trained", "micro-batch" in last.reason, last.reason)
    if last.points:
        gap = abs(last.points[-1].loss - reference.points[-1].loss)
        yield at_most("loss against that of a trial with enough memory, nats", gap, SAME)


def trained(setup: Setup, objective: Language, *, compiled: bool = False) -> Report:
    """The last report of a trial, which gets as many attempts as in a search."""
    config, budget, spec = trial_of(setup, compile=compiled, precision="float32")
    with tempfile.TemporaryDirectory() as folder:
        given = Assignment(config, budget, spec, str(Path(folder) / "trial.pt"))
        placed = objective.to(setup.device)

        def attempt(pieces: int) -> Iterator[Report]:
            return RunningTrial(given, placed, setup.device, micro_batches=pieces).reports()

        *_, last = catch_failures(run_trial(attempt))
    return last
