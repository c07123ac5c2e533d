"""Budgets as values: size, unit and training tokens; and the steps of rungs and evaluations."""

import math
from dataclasses import dataclass, replace

from fathom.models.shape import Count, Shape
from fathom.search.analysis.rung_value import LOOK_BACK
from fathom.search.formatting import exact_count, format_count
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import (
    FEWEST_STEPS,
    STEP_EXPONENT,
    STEP_FACTOR,
    TOKENS_PER_PARAMETER,
)
from fathom.search.study.keys.horizons import counts_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A size at which the study compares shapes."""

    params: int
    count: Count
    tolerance: float
    """Largest relative difference between a shape's size and the budget."""
    batch_size: int
    """Sequences per step."""
    steps: int
    """Optimizer steps of a trial that trains to the end."""
    tokens_per_step: int

    @property
    def tokens(self) -> int:
        """Training tokens of a trial that trains to the end."""
        return self.steps * self.tokens_per_step

    def count_error(self, shape: Shape) -> float:
        """Relative difference between a shape's size and the budget, with its sign."""
        return shape.size(self.count) / self.params - 1

    @property
    def label(self) -> str:
        """Short name, for example `300k`."""
        return exact_count(self.params)


def expand_budgets(config: StudyConfig) -> tuple[Budget, ...]:
    """The budgets of a study, ascending; training tokens are rounded up to whole steps."""
    return tuple(_budget(config, params) for params in config.budgets)


def _budget(config: StudyConfig, params: int) -> Budget:
    tokens = config.tokens or _tokens(params, config.tokens_per_parameter or TOKENS_PER_PARAMETER)
    context = config.objective.context
    if config.train.batch_size == "auto":
        shortest = _tokens(params, config.horizon_of[0]) if config.horizon_of else tokens
        sequences = auto_tokens_per_step(shortest) / context
        batch_size = 2 ** round(math.log2(max(sequences, 1)))
    else:
        batch_size = config.train.batch_size
    if batch_size % config.resources.processes_per_trial:
        raise PlanError(
            "`train.batch_size` must be a multiple of `resources.gpus_per_trial`, got "
            f"{batch_size} sequences for {config.resources.processes_per_trial} GPUs at budget "
            f"{format_count(params)}; use another number of GPUs, or of sequences",
            key="train.batch_size",
        )
    if tokens <= config.objective.pretraining_tokens:
        raise PlanError(
            "`objective.pretraining.tokens` must be fewer than the horizon has, got "
            f"{config.objective.pretraining_tokens} of {tokens} at budget {format_count(params)}; "
            "lower it or raise `tokens`",
            key="objective.pretraining.tokens",
        )
    tokens_per_step = batch_size * context
    if tokens < tokens_per_step:
        raise PlanError(
            f"`tokens` must be at least one step, {batch_size} sequences of `objective.context: "
            f"{context}`, got {tokens} at budget {format_count(params)}; raise `tokens`, or lower "
            "the context or `train.batch_size`",
            key="tokens",
        )
    return Budget(
        params=params,
        count=config.count,
        tolerance=config.tolerance,
        batch_size=batch_size,
        steps=math.ceil(tokens / tokens_per_step),
        tokens_per_step=tokens_per_step,
    )


def _tokens(params: int, horizon: float) -> int:
    """Training tokens of a budget at a horizon."""
    return int(horizon) if counts_tokens(horizon) else math.ceil(params * horizon)


def horizon_budgets(config: StudyConfig, budget: Budget) -> tuple[Budget, ...]:
    """The budget at each horizon of the study that its study is a part of, ascending; the budget
    itself if it has one horizon only."""
    if not config.horizon_of:
        return (budget,)
    steps = (
        math.ceil(_tokens(budget.params, horizon) / budget.tokens_per_step)
        for horizon in config.horizon_of
    )
    return tuple(replace(budget, steps=number) for number in steps)


def warmup_steps(config: StudyConfig, budget: Budget) -> int:
    """Steps over which the learning rate rises: the same at every horizon, of which the shortest
    decides."""
    return max(1, round(config.train.warmup * horizon_budgets(config, budget)[0].steps))


def constant_until(config: StudyConfig, budget: Budget) -> int:
    """Step after which the cool-down begins."""
    return budget.steps - round(budget.steps * config.train.cooldown)


def auto_tokens_per_step(tokens: int) -> float:
    """Tokens per step that `batch_size: auto` aims at for a horizon.

    The Step Law's, unless it leaves fewer than `FEWEST_STEPS` steps, as it does below 14M tokens.
    """
    return min(STEP_FACTOR * math.pow(tokens, STEP_EXPONENT), tokens / FEWEST_STEPS)


def rung_steps(config: StudyConfig, budget: Budget) -> tuple[int, ...]:
    """Steps of the rungs, ascending, all before the cool-down; empty if nothing is pruned.

    Each is `eta` times the one before. At a rung every trial of a budget has seen the same tokens
    at the same constant rate, so losses compare.
    """
    stopping = config.stopping
    if not config.prunes:
        return ()
    last = constant_until(config, budget)
    rungs = set()
    share = min(stopping.first_rung, 1 - config.train.cooldown)
    while (step := max(1, round(budget.steps * share))) <= last and step < budget.steps:
        rungs.add(step)
        share *= stopping.eta
    return tuple(sorted(rungs))


def evaluation_steps(config: StudyConfig, budget: Budget) -> tuple[int, ...]:
    """Steps after which a trial is evaluated, ascending: an even grid, the end, and some before
    each rung.

    Those just before a rung lie one percent of the horizon apart: it judges by their median. One
    lies at a quarter of its tokens, from where the rung sees the slope of the loss.
    """
    grid = {
        max(1, round(budget.steps * k / config.train.evaluations))
        for k in range(1, config.train.evaluations + 1)
    }
    gap = max(1, budget.steps // 100)
    for rung in rung_steps(config, budget):
        grid |= {max(1, rung - k * gap) for k in range(config.stopping.median_of)}
        grid.add(max(1, rung // LOOK_BACK))
    return tuple(sorted(grid))
