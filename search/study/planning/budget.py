"""Budgets as values, with size and spend, and the steps of their rungs and evaluations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.models.shape import Count, Shape
from fathom.models.spend import Coin, Spend
from fathom.objectives.keys import MOST_COUNTED
from fathom.search.analysis.losses.rung_value import LOOK_BACK
from fathom.search.formatting import exact_count, format_count
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import (
    FEWEST_STEPS,
    STEP_EXPONENT,
    STEP_FACTOR,
    TOKENS_PER_PARAMETER,
    TrainConfig,
)
from fathom.search.study.keys.horizons import counts_tokens
from fathom.search.study.timing.device_speed import TimeSource
from fathom.search.study.timing.sized_times import NO_TIMES, Times

LEAST_STEPS = 20
"""Fewest steps that a spend of FLOPs or seconds must pay for."""
LEAST_OF_ANY_SIZE = 100
"""Fewest such steps if sizes are free: with fewer, a large model has hardly begun at the first
rung."""
SHARED_STEPS = 1000
"""Nominal steps of a whole training of any shape if its steps do not follow from its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A size at which the study compares shapes, or an amount that shapes of any size spend."""

    params: int
    """The size, or the amount, in the unit of `count`."""
    count: Count
    tolerance: float
    """Largest relative difference between a shape's size and the budget."""
    batch_size: int
    """Sequences per step."""
    steps: int
    """Optimizer steps of a trial that trains to the end."""
    tokens_per_step: int
    shared_spend: Spend | None = None
    """Spend of a training; None if every shape takes the same steps. With a spend, `steps` are
    those of a usual shape, or `SHARED_STEPS` if they do not follow from sizes; `of_shape` gives the
    steps of one shape."""
    step_times: Times | None = None
    """Seconds of a step of each shape, from which numbers of steps follow if trainings spend
    seconds; None if they are not known."""
    sizes: tuple[int, int] | None = None
    """Parameters of the smallest and the largest model; None where `params` is the size of all."""
    shared_steps: int | None = None
    """Set in the budget of one shape only: the steps that are common to all shapes of the budget
    and name its rungs; None if they equal `steps`."""

    @property
    def tokens(self) -> int:
        """Training tokens of a trial that trains to the end."""
        return self.steps * self.tokens_per_step

    @property
    def shared_tokens(self) -> int:
        """Tokens of a whole training of any shape, on the scale on which shapes are compared."""
        return (self.shared_steps or self.steps) * self.tokens_per_step

    @property
    def spend(self) -> Spend:
        """Spend of a training to the end, the same for all shapes."""
        return self.shared_spend or Spend(self.tokens)

    def of_shape(self, shape: Shape) -> "Budget":
        """The budget with the steps of a shape: as many whole ones as it may spend, at least 1."""
        if self.shared_spend is None or self.shared_steps:
            return self
        return replace(self, steps=max(1, self.steps_of(shape)), shared_steps=self.steps)

    def steps_of(self, shape: Shape) -> int:
        """Steps of a training of a shape: the most whole steps within the spend or, where steps are
        timed, the number nearest to it."""
        steps = self.spend.amount / self.step_cost(shape)
        return round(steps) if self.spend.coin.timed else int(steps)

    def step_cost(self, shape: Shape) -> float:
        """Cost of a step of a shape, in the unit of the spend."""
        if (of_a_token := self.spend.coin.of_a_token) is not None:
            return of_a_token(shape) * self.tokens_per_step
        assert self.step_times is not None, "steps follow from step times"
        return self.step_times.seconds(shape)

    def length_of(self, shape: Shape) -> dict[str, Any]:
        """Returns the fields of a trial's description that set the length of its training."""
        own, spend = self.of_shape(shape), self.shared_spend
        shared = own.shared_tokens if spend else None
        return {"horizon_tokens": own.tokens, "shared_spend": spend, "shared_tokens": shared}

    def count_error(self, shape: Shape) -> float:
        """Relative difference, with its sign, of a shape's size from the budget or, if sizes are
        free, from the range `sizes`."""
        if self.sizes:
            size = shape.size(self.count)
            return size / min(max(size, self.sizes[0]), self.sizes[1]) - 1
        return shape.size(self.count) / self.params - 1

    @property
    def label(self) -> str:
        """Short name, for example `300k`."""
        return exact_count(self.params)


def expand_budgets(
    config: StudyConfig, times: Mapping[int, Times] = NO_TIMES
) -> tuple[Budget, ...]:
    """The budgets of a study, ascending; training tokens are rounded up to whole steps. `times` are
    the step times of budgets whose trainings spend seconds, if they are known."""
    return tuple(
        replace(_budget(config, params), step_times=times.get(params)) for params in config.budgets
    )


def _budget(config: StudyConfig, params: int) -> Budget:
    tokens = _tokens_of(config, params)
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
    if tokens < tokens_per_step and config.coin is Coin.TOKENS:
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
        shared_spend=config.shared_spend(params),
        sizes=config.space.params,
    )


def _tokens_of(config: StudyConfig, params: int) -> int:
    """Training tokens of a trial of a budget. Where it spends FLOPs or seconds: the tokens of a
    usual shape, or those of `SHARED_STEPS` steps."""
    spend = config.shared_spend(params)
    if spend is None:
        horizon = config.tokens_per_parameter or TOKENS_PER_PARAMETER
        return config.tokens or _tokens(params, horizon)
    if not spend.coin.of_a_parameter:
        batch_size = config.train.batch_size
        assert batch_size != "auto", "which is refused with such a spend"
        return SHARED_STEPS * batch_size * config.objective.context
    # A budget of operations counts those of a forward pass, two for each parameter.
    weights = params / 2 if config.count is Count.FLOPS else params
    if config.space.params:
        weights = math.sqrt(math.prod(config.space.params))  # the middle size
    tokens = spend.amount / (spend.coin.of_a_parameter * weights)
    if tokens > MOST_COUNTED:
        key = config.length_key
        raise PlanError(
            f"`{key}` must pay for at most 1e18 tokens, got {spend.amount:g}, which pay for "
            f"{tokens:.2g} at budget {format_count(params)}; lower it",
            key=key,
        )
    return max(1, int(tokens))


def _tokens(params: int, horizon: float) -> int:
    """Training tokens of a budget at a horizon."""
    return int(horizon) if counts_tokens(horizon) else math.ceil(params * horizon)


def horizon_budgets(config: StudyConfig, budget: Budget) -> tuple[Budget, ...]:
    """The budget at each horizon of the whole study, ascending; the budget itself if there is one
    horizon only."""
    if not config.horizon_of:
        return (budget,)
    steps = (
        math.ceil(_tokens(budget.params, horizon) / budget.tokens_per_step)
        for horizon in config.horizon_of
    )
    return tuple(replace(budget, steps=number) for number in steps)


def warmup_steps(config: StudyConfig, budget: Budget) -> int:
    """Steps over which the learning rate rises: the same at every horizon, set by the shortest."""
    return max(1, round(config.train.warmup * horizon_budgets(config, budget)[0].steps))


def constant_until(train: TrainConfig, budget: Budget) -> int:
    """Step after which the cool-down begins."""
    return budget.steps - round(budget.steps * train.cooldown)


def auto_tokens_per_step(tokens: int) -> float:
    """Tokens per step that `batch_size: auto` aims at for a horizon.

    They are the Step Law's, unless these leave fewer than `FEWEST_STEPS` steps, as below 14M
    tokens.
    """
    return min(STEP_FACTOR * math.pow(tokens, STEP_EXPONENT), tokens / FEWEST_STEPS)


def rung_steps(config: StudyConfig, budget: Budget) -> tuple[int, ...]:
    """Steps of the rungs, ascending, all before the cool-down; empty if nothing is pruned.

    Each is `eta` times the one before. At a rung every trial of a budget has seen the same tokens
    at the same constant rate, so losses compare. Where trials spend FLOPs or seconds instead, each
    has spent the same share of them.
    """
    return tuple(rungs_by_step(config, budget))


def rungs_by_step(config: StudyConfig, budget: Budget) -> dict[int, int]:
    """Tokens by which each rung is named for all shapes of the budget, keyed by the rung's step,
    ascending."""
    shared, tokens = budget.shared_steps or budget.steps, budget.tokens_per_step
    steps = _shared_rung_steps(config, replace(budget, steps=shared))
    return {max(1, step * budget.steps // shared): step * tokens for step in steps}


def _shared_rung_steps(config: StudyConfig, budget: Budget) -> tuple[int, ...]:
    """Steps of the rungs, on the scale that is common to all shapes of the budget."""
    stopping = config.stopping
    if not config.prunes:
        return ()
    last = constant_until(config.train, budget)
    rungs = set()
    share = min(stopping.first_rung, 1 - config.train.cooldown)
    while (step := max(1, round(budget.steps * share))) <= last and step < budget.steps:
        rungs.add(step)
        share *= stopping.eta
    return tuple(sorted(rungs))


def check_steps(config: StudyConfig, budget: Budget, shapes: Sequence[Shape]) -> None:
    """Checks that a spend of FLOPs or seconds pays for enough steps and distinct rungs of every
    shape. Seconds are checked once steps are measured: an estimate may be far off.

    Raises:
        PlanError: if it does not.
    """
    spend, times = budget.shared_spend, budget.step_times
    if spend is None or (times and times.source is not TimeSource.MEASURED):
        return
    dearest = max(shapes, key=budget.step_cost)
    paid, rungs = budget.steps_of(dearest), rungs_by_step(config, budget.of_shape(dearest))
    least = LEAST_OF_ANY_SIZE if budget.sizes else LEAST_STEPS
    if paid >= least and len(rungs) == len(rung_steps(config, budget)):
        return
    enough = max(1.1 * least * budget.step_cost(dearest), 2 * spend.amount)
    key = config.length_key
    raise PlanError(
        f"`{key}` must pay for {least} steps of every shape, and for some between "
        f"rungs, got {spend.amount:g}, which pays for {paid} of depth {dearest.depth} at "
        f"budget {budget.label}; raise it to {enough:.2g}, or lower "
        f"{'`space.params` or ' if budget.sizes else ''}`train.batch_size`",
        key=key,
    )


def steps_of_a_start(config: StudyConfig, budget: Budget) -> float:
    """Steps that an exploring trial takes on average from a start to where it pauses or ends, if
    one in `eta` goes on at each rung."""
    reached, before, starts, steps = 1.0, 0, 0.0, 0.0
    for stop in (*rung_steps(config, budget), budget.steps):
        starts, steps = starts + reached, steps + reached * (stop - before)
        reached, before = reached / config.stopping.eta, stop
    return steps / starts


def evaluation_steps(config: StudyConfig, budget: Budget) -> tuple[int, ...]:
    """Steps after which a trial is evaluated, ascending: an even grid, the end, and some before
    each rung.

    Evaluations just before a rung lie one percent of the horizon apart: their median counts at the
    rung. One evaluation lies at a quarter of the rung's tokens, from which the slope of the loss is
    measured.
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
