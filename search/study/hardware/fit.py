"""Fit of a training step into the memory of a device, and the number of its micro-batches."""

import math
import os
from dataclasses import replace
from itertools import product

from fathom.models.memory import Execution, step_memory
from fathom.models.options import Residual
from fathom.models.parametrization import OptimizerName
from fathom.models.shape import Shape
from fathom.objectives.keys import logit_tokens
from fathom.search.study.hardware.disk import checkpoint_bytes
from fathom.search.study.hardware.memory import (
    BESIDE_TRIALS,
    WORKER,
    machine_memory,
    trials_in_memory,
)
from fathom.search.study.hardware.step_fit import StepFit
from fathom.search.study.keys.groups import ResourcesConfig, TrainConfig
from fathom.search.study.keys.model_group import ModelConfig

USABLE_OF_GPU = 0.85
"""Fraction of a GPU's memory that a trial is planned to use: CUDA's context, the workspaces of
libraries, the data and fragmentation take the rest. An estimate, not yet measured."""
BESIDE_TENSORS = 1_000_000_000
"""Least bytes of CUDA's context and the libraries for each process on a GPU, an estimate: several
processes that share a small GPU need more than `USABLE_OF_GPU` leaves."""
USABLE_OF_MACHINE = 0.7
"""Fraction of a machine's memory for all its trials: Ray's store of objects takes up to 0.3."""


def execution(
    train: TrainConfig, shape: Shape, *, ranks: int, bfloat16: bool, gpu: bool
) -> Execution:
    """The settings of a training step on which its memory depends."""
    return Execution(
        bfloat16=bfloat16,
        gpu=gpu,
        logit_tokens=logit_tokens(shape.vocab_size),
        muon=train.optimizer is OptimizerName.MUON,
        ranks=ranks,
    )


def fit_step(
    shape: Shape, sequences: int, memory: float, how: Execution, *, may_shard: bool = True
) -> StepFit:
    """Returns the fewest equal micro-batches with which a process's `sequences` fit `memory` bytes.

    If a single sequence does not fit, layers are computed again in the backward pass, except in a
    user's own model; if the whole model does not fit, each of several processes keeps a part of it.
    """
    found = StepFit(1, False, 0, True)
    ways = (False, True) if how.ranks > 1 and may_shard else (False,)
    for shards, recomputes in product(ways, (False,) if shape.own_counts else (False, True)):
        way = replace(how, recomputes=recomputes, shards=shards)
        for count in _divisors(sequences):
            step = step_memory(shape, sequences=sequences // count, pieces=count, how=way).total
            copied = 0 if how.gpu else checkpoint_bytes(shape)  # to be saved
            need = step + (copied // how.ranks if shards else copied)
            found = StepFit(count, recomputes, need, need <= memory, shards)
            if found.enough:
                return found
    return found


def _divisors(number: int) -> list[int]:
    """The numbers that divide a number, ascending."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})


def may_shard(model: ModelConfig, train: TrainConfig) -> bool:
    """True if a process may train with a part of the model.

    Muon needs whole matrices, Admin whole skip connections, auto-sizing whole groups, and a user's
    own model may use its weights in any way.
    """
    adamw = train.optimizer is OptimizerName.ADAMW
    whole = model.build is not None or train.auto_sizing.penalty is not None
    return adamw and model.residual is not Residual.ADMIN and not whole


def fits_machine(shape: Shape, train: TrainConfig, resources: ResourcesConfig) -> bool:
    """True if a step of one sequence is predicted to fit a trial's part of this machine's memory;
    also for a training command, whose memory is not predicted."""
    if train.command:
        return True
    ranks = resources.processes_per_trial
    how = execution(train, shape, ranks=ranks, bfloat16=False, gpu=False)
    return fit_step(shape, 1, usable_memory(resources, None), how).enough


def usable_memory(resources: ResourcesConfig, gpu: float | None) -> float:
    """Bytes of memory for one trial: of a GPU with `gpu` bytes, or of this machine if that is
    None."""
    if gpu is not None:
        part = gpu * min(1.0, resources.gpus_of_trial(1))
        return max(0.0, min(USABLE_OF_GPU * part, part - BESIDE_TENSORS))
    each = resources.processes_per_trial
    trials = int((os.cpu_count() or 1) / (resources.cpus_per_trial * each))
    trials = max(1, min(trials, trials_in_memory(each)))
    if resources.max_concurrent_trials != "auto":
        trials = min(trials, resources.max_concurrent_trials)
    has = machine_memory()
    left = has - BESIDE_TRIALS - WORKER * trials * each
    return max(0.0, min(USABLE_OF_MACHINE * has, left)) / trials / each
