"""Measures how fast this machine trains models of several sizes, by short trainings. Torch only.

`python -m fathom.search.training.calibrate RESOURCES` keeps the speeds in the user's cache
folder; RESOURCES are those of a study, as JSON.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.text.language.objective import Language
from fathom.search.study.file.study_file import study_of
from fathom.search.study.hardware.gpus import ASSUMED
from fathom.search.study.hardware.machine import CPU_SPEED, device_name
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.space.near_shapes import middle_shape
from fathom.search.study.planning.space.shape_counter import recipe_of
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import Rate, binned, keep_speeds
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.device import (
    fitted,
    local_device,
    use_deterministic,
    use_one_attention,
)
from fathom.search.training.loop import advance, prepare_steps
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS
from fathom.search.training.state import Training
from fathom.search.training.trial import train_plan

MEASURED_SECONDS, BLOCK_SECONDS = 0.7, 0.1
"""Seconds for which steps are timed, after three untimed steps; and seconds of steps after each of
which the measurement waits for the device, whereas a training waits only before evaluations."""
ENDLESS = 10**9
"""Number of steps of a measured training, so large that it is never reached."""
DEAREST_STEP_SECONDS = 0.5
"""Longest training step that is measured, in estimated seconds; if a step with the budget's batch
takes longer, a smaller batch is measured."""
SIZES = {"cpu": ("10k", "100k", "1M"), "cuda": ("300k", "10M", "100M")}
"""Kind of device -> sizes of the models that are measured."""
CONTEXT, VOCABULARY = 128, 256


def measure_speeds(resources: ResourcesConfig) -> dict[str, float]:
    """Size of a model -> FLOPs per second in training it with these resources; also keeps these
    speeds."""
    device = local_device(resources)
    objective = _random_text().to(device)
    found = {}
    for size in SIZES[device.type]:
        config = _study(size, resources)
        (budget,) = expand_budgets(config)
        shape = middle_shape(feasible_shapes(config, budget, VOCABULARY))
        found[size] = measured_rate(config, budget, shape, objective, device)
    keep_speeds(device_name(resources), binned(found.values()))
    return {size: rate for size, (_, rate) in found.items()}


def measured_rate(
    config: StudyConfig, budget: Budget, shape: Shape, objective: Objective, device: torch.device
) -> Rate:
    """FLOPs of a layer in a training step, and FLOPs per second of training. The steps are not
    compiled; they are recorded as a CUDA graph if a trial's steps would be."""
    threads = torch.get_num_threads()
    torch.set_num_threads(config.resources.threads)
    try:
        plan = train_plan(
            config, budget, standalone_spec("speed", config, budget, shape), device.type
        )
        sequence_flops = shape.train_flops_per_token * objective.context
        estimate = CPU_SPEED if device.type == "cpu" else ASSUMED.speed(config.train, 1)
        affordable = int(DEAREST_STEP_SECONDS * estimate.peak / sequence_flops)
        batch_size = max(1, min(budget.batch_size, affordable))
        plan = replace(plan, batch_size=batch_size, compiled=False)
        parametrization = config.model.parametrization.build()
        training = Training(shape, parametrization, plan, seed=0, device=device)
        flops = sequence_flops * batch_size
        seconds = _seconds_per_step(training, objective, MEASURED_SECONDS, _own_clock(device))
        return flops / shape.depth, flops / seconds
    finally:
        torch.set_num_threads(threads)


def measured_step(
    config: StudyConfig, budget: Budget, shape: Shape, objective: Objective,
    device: torch.device, *, seconds: float,
) -> float:  # fmt: skip
    """Mean seconds of a training step of a shape under the conditions of a trial, with other trials
    and the search running; measured for `seconds`."""
    use_deterministic(config.train.deterministic)
    use_one_attention(heads_differ=config.space.heads_differ)
    endless = replace(budget, steps=ENDLESS)
    spec = standalone_spec("steps", config, budget, shape)
    plan = train_plan(config, endless, spec, device.type)
    plan = fitted(plan, config, shape, device, SINGLE_PROCESS)
    training = Training(shape, recipe_of(config.model), plan, seed=0, device=device)
    return _seconds_per_step(training, objective, seconds, time.perf_counter)


def _seconds_per_step(
    training: Training, objective: Objective, seconds: float, clock: Callable[[], float]
) -> float:
    """Mean seconds per training step, measured by `clock`."""
    prepare_steps(training, objective)
    advance(training, objective, goal=2)
    began = clock()
    advance(training, objective, goal=3)
    block = max(1, round(BLOCK_SECONDS / max(clock() - began, 1e-6)))
    began = clock()
    while (passed := clock() - began) < seconds:
        advance(training, objective, goal=training.step + block)
    return passed / (training.step - 3)


def _own_clock(device: torch.device) -> Callable[[], float]:
    """A clock of seconds that, as far as possible, does not count the time of other programs on the
    device: on one CPU core it counts this thread's own time, since the thread computes the whole
    step."""
    one_core = device.type == "cpu" and torch.get_num_threads() == 1
    return time.thread_time if one_core else time.perf_counter


def _study(size: str, resources: ResourcesConfig) -> StudyConfig:
    """A study of one budget whose training never ends."""
    return study_of(
        {
            "study": "speed",
            "objective": {"name": "language", "context": CONTEXT},
            "budgets": [size],
            "count": "non_embedding",
            "tokens": "1B",
            "train": {"batch_size": 8, "diagnostics": False},
            "resources": resources.model_dump(),
        }
    )


def _random_text() -> Language:
    ids = np.random.default_rng(0).integers(VOCABULARY, size=1 << 16).astype(np.uint8)
    return Language(
        train=ids,
        validation=ids,
        vocab_size=VOCABULARY,
        context=CONTEXT,
        eval_windows=1,
        tokens_per_byte=1.0,
    )


def main() -> None:
    """Measures and prints the speeds."""
    found = measure_speeds(ResourcesConfig.model_validate_json(sys.argv[1]))
    rates = ", ".join(f"{rate / 1e9:.3g}" for rate in found.values())
    print(f"a trial trains at {rates} GFLOP/s with {', '.join(found)} parameters")


if __name__ == "__main__":
    main()
