"""Stage `memory`: a trial that runs out of memory goes on in smaller pieces, to the same end."""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_most, holds, measured
from benchmarks.gpu.subject import python_source, trial_of
from fathom.objectives.contract import Batch, Model
from fathom.objectives.text.language.objective import Language
from fathom.search.records import Outcome, Report
from fathom.search.training.assignment import Assignment
from fathom.search.training.trial import RunningTrial, catch_failures, run_trial

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
    yield "forced", _forced
    if setup.on_gpu:
        yield "limited eager", lambda own: _limited(own, compiled=False)
        yield "limited compiled", lambda own: _limited(own, compiled=True)


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
