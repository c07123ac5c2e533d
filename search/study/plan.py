"""The plan of a study: shapes, trials, tokens and time. Imports no framework, to be quick."""

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil

from fathom.models.shape import Shape
from fathom.objectives.errors import ObjectiveError
from fathom.search.study.budget import Budget, expand_budgets, rung_steps
from fathom.search.study.config import StudyConfig
from fathom.search.study.errors import PlanError
from fathom.search.study.groups import Sampler
from fathom.search.study.shapes import feasible_shapes

CPU_FLOPS_PER_SECOND = 22e9
"""Training throughput of one CPU core on models of 1e4 to 1e5 parameters, float32, with the time of
the evaluations in it. From one machine; `python -m benchmarks.speed.throughput RUN` measures
yours."""
GPU_FLOPS_PER_SECOND = 1e14
"""Training throughput of a recent data-centre GPU on models large enough to fill it, bfloat16."""


FOR_A_WHILE = 1.125
"""Trials promoted at a rung for each that is among its best in the end, since some lead only until
better ones arrive: 1.07 to 1.17 for 7 to 30 trials in random order."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung with its expected numbers of arriving and promoted exploring trials."""

    tokens: int
    arriving: float
    surviving: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPlan:
    """The plan of one budget."""

    budget: Budget
    shapes: tuple[Shape, ...]
    exploring: int
    """Number of exploring trials."""
    confirming: int
    """Largest number of confirming trials; the stage ends when the verdict is settled."""
    rungs: tuple[Rung, ...]
    expected_tokens: float
    """Expected training tokens of both stages together."""
    flops: float
    hours: float

    @property
    def depths(self) -> tuple[int, ...]:
        """Depths that have a feasible shape."""
        return tuple(sorted({shape.depth for shape in self.shapes}))

    @property
    def worst_count_error(self) -> float:
        """Largest relative difference between a shape's size and the budget."""
        return max(abs(self.budget.count_error(shape)) for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that the estimate of time assumes."""

    slots: int
    """Number of trials that run at the same time."""
    flops_per_second: float
    """Training throughput of one trial, in FLOPs per second."""
    description: str
    device: str = "core"
    """Kind of device that is paid for: `core` or `GPU`."""
    devices: float = 1.0
    """Number of devices per trial."""

    def device_hours(self, plans: Sequence[BudgetPlan]) -> float:
        """Hours of all devices used, together."""
        return self.slots * self.devices * sum(plan.hours for plan in plans)


def vocab_size_of(config: StudyConfig) -> int:
    """Number of token ids of the study's objective; reads data only if it depends on them.

    Raises:
        PlanError: when the data are missing or don't suit the settings.
    """
    try:
        return config.objective.vocab_size()
    except ObjectiveError as error:
        raise PlanError(str(error), key="objective") from error


def plan_study(config: StudyConfig, vocab_size: int, machine: Machine) -> tuple[BudgetPlan, ...]:
    """The plan of each budget, ascending; raises `ConfigError` if a budget has too few shapes."""
    return tuple(
        plan_budget(config, budget, feasible_shapes(config, budget, vocab_size), machine)
        for budget in expand_budgets(config)
    )


def plan_budget(
    config: StudyConfig, budget: Budget, shapes: tuple[Shape, ...], machine: Machine
) -> BudgetPlan:
    """The plan of one budget; mean FLOPs are over depths first, as the sampler draws."""
    exploring, confirming = stage_trials(config, shapes)
    rungs = _expected_rungs(config, budget, exploring)
    tokens = _exploring_tokens(budget, exploring, rungs) + confirming * budget.tokens
    by_depth: defaultdict[int, list[float]] = defaultdict(list)
    for shape in shapes:
        by_depth[shape.depth].append(shape.train_flops_per_token)
    flops = tokens * sum(sum(some) / len(some) for some in by_depth.values()) / len(by_depth)
    seconds = flops / (machine.flops_per_second * machine.slots)
    return BudgetPlan(
        budget=budget,
        shapes=shapes,
        exploring=exploring,
        confirming=confirming,
        rungs=rungs,
        expected_tokens=tokens,
        flops=flops,
        hours=seconds / 3600,
    )


def stage_trials(config: StudyConfig, shapes: Sequence[Shape]) -> tuple[int, int]:
    """Number of exploring trials of a budget with these shapes, and largest number of confirming
    ones."""
    confirm, depths = config.confirm, len({shape.depth for shape in shapes})
    if config.sampler is Sampler.LADDER:
        exploring = depths
    elif config.sampler is Sampler.CURVE:  # it tries no shape twice
        exploring = min(config.trials, len(shapes))
    else:
        exploring = config.trials
    return exploring, min(confirm.depths, depths) * (confirm.seeds + len(confirm.rates) - 1)


def this_machine(config: StudyConfig) -> Machine:
    """Returns this machine's devices and speed; a cluster is faster by its concurrent trials."""
    resources = config.resources
    gpus = _gpus()
    share = resources.gpus_of_trial(gpus)
    if gpus and share:
        device, devices, slots = "GPU", share, int(gpus / share)
        speed, description = GPU_FLOPS_PER_SECOND * share, f"{gpus} GPUs"
    else:
        cores = os.cpu_count() or 1
        device, devices = "core", resources.cpus_per_trial
        slots, speed = int(cores / devices), CPU_FLOPS_PER_SECOND * devices
        description = f"{cores} CPU cores"
    if resources.max_concurrent_trials != "auto":
        slots = min(slots, resources.max_concurrent_trials)
    slots = max(1, slots)
    description = f"{description}, {slots} trials at a time, {speed:.2g} FLOP/s each"
    return Machine(slots, speed, description, device, devices)


def _expected_rungs(config: StudyConfig, budget: Budget, exploring: int) -> tuple[Rung, ...]:
    """The rungs with the expected number of promoted trials, if trials arrive in random order."""
    exempt = exploring * config.stopping.always_finish
    arriving, rungs = float(exploring), []
    for step in rung_steps(config, budget):
        surviving = min(arriving, expected_survivors(arriving, config.stopping.eta) + exempt)
        rungs.append(Rung(step * budget.tokens_per_step, arriving, surviving))
        arriving = surviving
    return tuple(rungs)


def expected_survivors(arriving: float, eta: float) -> float:
    """Expected number of trials that are ever among the best 1 in `eta` of a rung."""
    return min(arriving, FOR_A_WHILE * ceil(arriving / eta))


def _exploring_tokens(budget: Budget, exploring: int, rungs: tuple[Rung, ...]) -> float:
    stopped = sum(rung.tokens * (rung.arriving - rung.surviving) for rung in rungs)
    finishing = rungs[-1].surviving if rungs else exploring
    return stopped + finishing * budget.tokens


@cache  # asking a driver takes its time
def _gpus() -> int:
    """Number of GPUs of this machine, from its driver; importing torch would take seconds."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    listing = subprocess.run([command, "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in listing.stdout.splitlines())
