"""Whether a training step fits the memory of a device, whole or in pieces. Imports no framework."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.models.memory import Execution, step_memory
from fathom.models.shape import Shape
from fathom.objectives.keys import logit_tokens
from fathom.search.formatting import format_bytes
from fathom.search.study.disk import checkpoint_bytes
from fathom.search.study.groups import ResourcesConfig

USABLE_OF_GPU = 0.85
"""Fraction of a GPU's memory that a trial plans with: CUDA's context, the workspaces of libraries,
the data and fragments take the rest. An estimate, not yet measured."""
USABLE_OF_MACHINE = 0.7
"""Fraction of a machine's memory for all its trials: Ray's store of objects takes up to 0.3."""
CGROUP = Path("/sys/fs/cgroup/memory.max")
"""File with the limit of a container."""


@dataclass(frozen=True, slots=True)
class StepFit:
    """How a training step fits a memory."""

    micro_batches: int
    """Equal parts of the batch that go through the model one after another."""
    recomputes: bool
    """True if layers are computed again in the backward pass."""
    memory: int
    """Bytes of the training at its peak."""
    enough: bool
    """False if not even a sequence fits."""

    def text(self, memory: float) -> str:
        """What the step takes of so many bytes, in words."""
        has = "" if memory == math.inf else f" of {format_bytes(memory)}"
        if not self.enough:
            return f"a sequence takes {format_bytes(self.memory)}{has}"
        count = self.micro_batches
        pieces = "" if count == 1 else f", in {count} micro-batches a step"
        again = ", with layers computed again" if self.recomputes else ""
        return f"a trial takes up to {format_bytes(self.memory)}{has}{pieces}{again}"


def execution(shape: Shape, *, bfloat16: bool, gpu: bool) -> Execution:
    """How steps of a shape are computed, as far as their memory depends on it."""
    return Execution(bfloat16=bfloat16, gpu=gpu, logit_tokens=logit_tokens(shape.vocab_size))


def fit_step(shape: Shape, sequences: int, memory: float, how: Execution) -> StepFit:
    """The fewest equal micro-batches of a batch that fit so many bytes; where not even a sequence
    does, the fewest with layers that are computed again, which a user's own model can't."""
    found = StepFit(1, False, 0, True)
    for recomputes in (False,) if shape.own_counts else (False, True):
        for count in (one for one in range(1, sequences + 1) if sequences % one == 0):
            own = replace(how, recomputes=recomputes)
            step = step_memory(shape, sequences=sequences // count, pieces=count, how=own).total
            need = step + (0 if how.gpu else checkpoint_bytes(shape))  # copied to be saved
            found = StepFit(count, recomputes, need, need <= memory)
            if found.enough:
                return found
    return found


def usable_memory(resources: ResourcesConfig, gpu: float | None) -> float:
    """Bytes for one trial: its share of a GPU with so many bytes or, with None, of this machine."""
    if gpu is not None:
        return USABLE_OF_GPU * gpu * min(1.0, resources.gpus_of_trial(1))
    processes = resources.cpus_per_trial * resources.processes_per_trial
    trials = max(1, int((os.cpu_count() or 1) / processes))
    if resources.max_concurrent_trials != "auto":
        trials = min(trials, resources.max_concurrent_trials)
    return USABLE_OF_MACHINE * machine_memory() / trials / resources.processes_per_trial


def machine_memory() -> float:
    """Bytes of this machine's memory, or of the container's limit."""
    there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    try:
        limit = CGROUP.read_text(encoding="utf-8").strip()
    except OSError:
        return there
    return min(there, float(limit)) if limit.isdigit() else there
