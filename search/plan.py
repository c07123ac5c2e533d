"""What a study will cost, before any of it is spent. Imports no framework: it answers at once."""

import math
import os
import shutil
import subprocess
from dataclasses import dataclass

from models.shape import Shape
from search.budget import Budget, expand_budgets, rung_steps
from search.config import Sampler, StoppingConfig, StudyConfig
from search.space import feasible_shapes

CPU_FLOPS_PER_SECOND = 22e9
"""Training throughput of one CPU core on models of 1e4 to 1e5 parameters, float32, with the time of
the evaluations in it. From one machine: `python -m benchmarks.throughput RUN` measures yours."""
GPU_FLOPS_PER_SECOND = 1e14
"""Training throughput of a recent data-centre GPU on models large enough to fill it, bfloat16."""
AGREEMENT = 0.9
"""Share of pairs of trials that a rung and the losses foreseen there put in the same order. On
Gemstones' curves 0.76 to 1 at a quarter of the horizon; less at earlier rungs, where more go on."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung, and how many exploring trials are expected to come there and to go on from there."""

    tokens: int
    arriving: float
    surviving: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPlan:
    """One budget's part of the plan."""

    budget: Budget
    shapes: tuple[Shape, ...]
    exploring: int
    """Trials of the exploring stage."""
    confirming: int
    """Trials of the confirming stage, at most: it ends when the verdict is settled."""
    rungs: tuple[Rung, ...]
    expected_tokens: float
    """Training tokens of both stages together."""
    flops: float
    hours: float

    @property
    def depths(self) -> tuple[int, ...]:
        """Depths that have a feasible shape."""
        return tuple(sorted({shape.depth for shape in self.shapes}))

    @property
    def worst_count_error(self) -> float:
        """Largest relative error of a shape's count."""
        return max(abs(self.budget.count_error(shape)) for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the estimate of time assumes."""

    slots: int
    """Trials at a time."""
    flops_per_second: float
    """Training throughput of one trial."""
    words: str


def plan_study(config: StudyConfig, vocab_size: int, machine: Machine) -> tuple[BudgetPlan, ...]:
    """The plan of every budget; raises `ConfigError` when a budget has too few shapes."""
    return tuple(
        plan_budget(config, budget, feasible_shapes(config, budget, vocab_size), machine)
        for budget in expand_budgets(config)
    )


def plan_budget(
    config: StudyConfig, budget: Budget, shapes: tuple[Shape, ...], machine: Machine
) -> BudgetPlan:
    """Expected trials, tokens and time; mean FLOPs are over depths first, as the sampler draws."""
    depths = {shape.depth for shape in shapes}
    exploring, confirming = stage_trials(config, len(depths))
    rungs = _expected_rungs(config, budget, exploring)
    tokens = _exploring_tokens(budget, exploring, rungs) + confirming * budget.tokens
    by_depth = [
        [shape.train_flops_per_token for shape in shapes if shape.depth == depth]
        for depth in depths
    ]
    flops = tokens * sum(sum(some) / len(some) for some in by_depth) / len(by_depth)
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


def stage_trials(config: StudyConfig, depths: int) -> tuple[int, int]:
    """Exploring trials of a budget whose shapes have that many depths; confirming ones at most."""
    confirm = config.confirm
    exploring = depths if config.sampler is Sampler.LADDER else config.trials
    return exploring, min(confirm.depths, depths) * (confirm.seeds + len(confirm.rates) - 1)


def this_machine(config: StudyConfig) -> Machine:
    """What this machine would do; a cluster is faster by its number of trials at a time."""
    resources = config.resources
    gpus = _gpus()
    if gpus and resources.gpus_per_trial != 0:
        share = 1.0 if resources.gpus_per_trial == "auto" else resources.gpus_per_trial
        slots, speed, words = int(gpus / share), GPU_FLOPS_PER_SECOND * share, f"{gpus} GPUs"
    else:
        cores = os.cpu_count() or 1
        slots = int(cores / resources.cpus_per_trial)
        speed, words = CPU_FLOPS_PER_SECOND * resources.cpus_per_trial, f"{cores} CPU cores"
    if resources.max_concurrent_trials != "auto":
        slots = min(slots, resources.max_concurrent_trials)
    slots = max(1, slots)
    words = f"{words}, {slots} trials at a time, {speed:.2g} FLOP/s each"
    return Machine(slots, speed, words)


def _expected_rungs(config: StudyConfig, budget: Budget, exploring: int) -> tuple[Rung, ...]:
    """Survivors when trials arrive in random order."""
    exempt = exploring * config.stopping.always_finish
    stoppable = exploring - exempt
    rungs = []
    for step in rung_steps(config, budget):
        whole = math.floor(stoppable)
        surviving = sum(_chance_to_go_on(i, config.stopping) for i in range(1, whole + 1))
        surviving += (stoppable - whole) / config.stopping.eta
        tokens = step * budget.tokens_per_step
        rungs.append(Rung(tokens, stoppable + exempt, surviving + exempt))
        stoppable = surviving
    return tuple(rungs)


def _chance_to_go_on(arrived: int, stopping: StoppingConfig) -> float:
    """Of the last of so many at a rung, each place among them being as likely.

    It goes on when fewer than one in `eta` beat it, or none in its own of the equal bands. Those
    ahead of it beat it in `AGREEMENT` of the cases, unless only the loss at the rung counts.
    """
    beat = AGREEMENT if stopping.foresight[1] > 0 else 1.0
    by_place = min(arrived, math.ceil(arrived / (stopping.eta * beat)))
    other_bands = 1 - 1 / stopping.bands
    by_band = sum(math.pow(other_bands, beat * ahead) for ahead in range(by_place, arrived))
    return (by_place + by_band) / arrived


def _exploring_tokens(budget: Budget, exploring: int, rungs: tuple[Rung, ...]) -> float:
    stopped = sum(rung.tokens * (rung.arriving - rung.surviving) for rung in rungs)
    finishing = rungs[-1].surviving if rungs else exploring
    return stopped + finishing * budget.tokens


def _gpus() -> int:
    """GPUs of this machine as its driver lists them; asking torch would take seconds."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    listing = subprocess.run([command, "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in listing.stdout.splitlines())
