"""The plan of a study: shapes, trials, tokens and time. Imports no framework, to be quick."""

import glob
import math
import os
import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

from fathom.models.memory import Execution, step_memory
from fathom.models.shape import Shape
from fathom.objectives.errors import ObjectiveError
from fathom.objectives.keys import EVAL_CHUNK_TOKENS, ObjectiveConfig
from fathom.search.formatting import rounded_count
from fathom.search.study.file.errors import PlanError
from fathom.search.study.hardware.disk import checkpoint_bytes
from fathom.search.study.hardware.fit import execution, fit_step, may_shard
from fathom.search.study.hardware.gpus import CARRY, CLUSTER_FILES
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.hardware.step_fit import StepFit
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import (
    ResourcesConfig,
    Sampler,
    StoppingConfig,
    StoppingMethod,
    TrainConfig,
)
from fathom.search.study.keys.own_sampler import has_seed
from fathom.search.study.planning.affordable import MOST_EPOCHS
from fathom.search.study.planning.budget import (
    Budget,
    check_steps,
    evaluation_steps,
    expand_budgets,
    rungs_by_step,
)
from fathom.search.study.planning.evaluations import interval_note
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.planning.virtual_time import RandomTrials, VirtualTime, explore
from fathom.search.study.timing.device_speed import TimeSource
from fathom.search.study.timing.sized_times import Times, estimated_sizes
from fathom.search.study.timing.step_times import estimated_times

REPEATS = 3
"""Number of repeats from which the noise between seeds is estimated."""
OF_ANY_SIZE = 16
"""Usual number of confirming trials where the size is free, in simulated searches."""
TRIAL_SECONDS = 0.3
"""Time of a trial apart from training and evaluations: its model, its reports, its checkpoint."""
HIGHEST_USUAL_RATE = 0.1
"""Learning rate above which AdamW hardly ever trains."""
FILES_OF_A_TRIAL = 2
"""Number of checkpoints of a running trial: the last one and, while that is written, the one
before."""
SIMULATED = 500
"""Number of exploring trials that are simulated for the expected numbers at rungs."""
FORWARD = 1 / 3
"""Operations of an evaluation, as a fraction of those of training on the same tokens."""


LISTED = ("depth", "d_model", "d_ff", "n_heads")
"""Sizes of a shape that a plan lists before its numbers of parameters."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung with its expected numbers of arriving and promoted exploring trials."""

    tokens: int
    """Tokens by which the rung is named for all shapes of the budget."""
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
    """Expected training tokens of both stages together, counted as `Budget.shared_tokens` are."""
    flops: float
    """Operations of the training."""
    step: StepFit
    """How a step of the shape that takes most memory fits the machine."""
    hours: float
    """Expected time of the trials, evaluations included, without the start of the search."""
    epochs: float | None = None
    """Epochs of the training data in a whole training; None if their size is not known."""

    @property
    def depths(self) -> tuple[int, ...]:
        """Depths that have a feasible shape."""
        return tuple(sorted({shape.depth for shape in self.shapes}))

    @property
    def flops_of_a_token(self) -> float:
        """Operations of a training token, counted as `expected_tokens` are."""
        return self.flops / self.expected_tokens

    @property
    def tokens_each(self) -> tuple[int, int]:
        """Fewest and most tokens of a whole training among the shapes."""
        tokens = [self.budget.of_shape(shape).tokens for shape in self.shapes]
        return min(tokens), max(tokens)

    @property
    def worst_count_error(self) -> float:
        """Largest relative difference between a shape's size and the budget."""
        return max(abs(self.budget.count_error(shape)) for shape in self.shapes)


def listed_sizes(shape: Shape) -> dict[str, int]:
    """The sizes of a shape that a plan lists, by name."""
    return {name: getattr(shape, name) for name in LISTED} | shape.counts


def vocab_size_of(objective: ObjectiveConfig) -> int:
    """Number of token ids of an objective; reads data only if it depends on them.

    Raises:
        PlanError: when the data are missing or don't suit the settings.
    """
    try:
        return objective.vocab_size()
    except ObjectiveError as error:
        raise PlanError(f"{error}{carried(objective)}", key="objective") from error


def carried(objective: ObjectiveConfig) -> str:
    """A remedy if data are missing on the head of a cluster that `ray up` started; otherwise
    empty."""
    place = os.path.expanduser(objective.place)
    is_path = place != objective.name and (os.sep in place or os.path.splitext(place)[1])
    head = os.path.expanduser(CLUSTER_FILES[0])
    if not is_path or not os.path.exists(head) or any(glob.iglob(place, recursive=True)):
        return ""
    return (
        f"; this is the head of a cluster: copy them here from your own machine by `{CARRY}` "
        "(docs/clusters.md)"
    )


def plan_study(config: StudyConfig, vocab_size: int, machine: Machine) -> tuple[BudgetPlan, ...]:
    """The plan of each budget, ascending; raises `ConfigError` if a budget has too few shapes."""
    budgets = expand_budgets(config)
    sizes = ((budget, feasible_shapes(config, budget, vocab_size)) for budget in budgets)
    return _planned(config, sizes, machine)


def with_step_times(
    config: StudyConfig, plans: Sequence[BudgetPlan], times: Mapping[int, Times],
    machine: Machine,
) -> tuple[BudgetPlan, ...]:  # fmt: skip
    """The plans of trainings that spend seconds, with the step times of each budget in place of
    estimates.

    Raises:
        PlanError: if the seconds are too few for a shape.
    """
    timed = (replace(plan.budget, step_times=times[plan.budget.params]) for plan in plans)
    return _planned(config, zip(timed, (plan.shapes for plan in plans), strict=True), machine)


def _planned(
    config: StudyConfig, sizes: Iterable[tuple[Budget, tuple[Shape, ...]]], machine: Machine
) -> tuple[BudgetPlan, ...]:
    """The plans of budgets with these shapes, with their epochs."""
    plans = [plan_budget(config, budget, shapes, machine) for budget, shapes in sizes]
    epoch = config.objective.train_tokens()
    return tuple(replace(p, epochs=p.tokens_each[1] / epoch if epoch else None) for p in plans)


def plan_budget(
    config: StudyConfig, budget: Budget, shapes: tuple[Shape, ...], machine: Machine
) -> BudgetPlan:
    """The plan of a budget; its means over shapes weigh all depths equally, as the sampler does.
    Step times are the run's own measurements, or follow from the machine's speed."""
    timed = budget.step_times and budget.step_times.source is TimeSource.MEASURED
    if budget.spend.coin.timed and not timed:
        times_of = estimated_sizes if budget.sizes else estimated_times
        estimate = times_of(shapes, budget.tokens_per_step, machine.speed)
        budget = replace(budget, step_times=estimate)
    check_steps(config, budget, shapes)
    exploring, confirming = stage_trials(config, shapes)
    expected = expected_confirming(config, shapes)
    rungs = _expected_rungs(config, budget, exploring)
    ends = _expected_ends(budget, rungs, exploring, expected)
    tokens = sum(trials * end for trials, end in ends)
    steps = evaluation_steps(config, budget)
    evaluations = sum(trials * bisect(steps, end // budget.tokens_per_step) for trials, end in ends)
    evaluated, speed = config.objective.evaluation_tokens, machine.speed

    def share(shape: Shape) -> float:
        """The tokens of a training of this shape, divided by the tokens of the budget."""
        return budget.of_shape(shape).steps / budget.steps

    def seconds(shape: Shape) -> float:
        """Expected time of all trials of a budget, if all had this shape."""
        tokens_of_step = budget.tokens_per_step
        step = budget.step_cost(shape) if timed else speed.step_seconds(shape, tokens_of_step)
        chunk = speed.step_seconds(shape, EVAL_CHUNK_TOKENS) * FORWARD
        each = chunk * evaluated / EVAL_CHUNK_TOKENS
        return share(shape) * tokens / tokens_of_step * step + evaluations * each

    def flops_of_a_token(shape: Shape) -> float:
        return share(shape) * shape.train_flops_per_token

    trials = exploring + expected
    whole = _mean_over_depths(shapes, seconds) + trials * TRIAL_SECONDS
    return BudgetPlan(
        budget=budget,
        shapes=shapes,
        exploring=exploring,
        confirming=confirming,
        rungs=rungs,
        expected_tokens=tokens,
        flops=tokens * _mean_over_depths(shapes, flops_of_a_token),
        step=largest_step(config, budget, shapes, machine),
        hours=whole / min(machine.slots, trials) / 3600,
    )


def _expected_ends(
    budget: Budget, rungs: Sequence[Rung], exploring: int, confirming: int
) -> tuple[tuple[float, int], ...]:
    """Expected numbers of trials that pause or end, each with the tokens at which they do,
    ascending."""
    surviving = rungs[-1].surviving if rungs else exploring
    pausing = ((rung.arriving - rung.surviving, rung.tokens) for rung in rungs)
    return (*pausing, (surviving + confirming, budget.tokens))


def largest_step(
    config: StudyConfig, budget: Budget, shapes: Sequence[Shape], machine: Machine
) -> StepFit:
    """How a step of the shape that takes most memory fits into a trial's part of the machine.

    Raises:
        PlanError: if the step fits only in parts, and the study can't train in parts.
    """
    largest, sequences, how = largest_training(
        config.train, config.resources, budget, shapes, machine
    )
    fit = fit_step(largest, sequences, machine.memory, how)
    if fit.shards and not may_shard(config.model, config.train):
        whole = fit_step(largest, sequences, machine.memory, how, may_shard=False)
        raise PlanError(
            "with `train.optimizer: muon`, `model.residual: admin` or `model.build` a whole "
            f"model must fit each GPU of a trial, but at budget {budget.label} "
            f"{whole.text(machine.memory)}; use larger GPUs, or drop that key",
            key="train.optimizer",
        )
    return fit


def largest_training(
    train: TrainConfig, resources: ResourcesConfig, budget: Budget, shapes: Sequence[Shape],
    machine: Machine,
) -> tuple[Shape, int, Execution]:  # fmt: skip
    """The shape whose step takes most memory, the number of sequences of each process, and the
    settings of the step."""
    ranks, gpu = resources.processes_per_trial, machine.device == "GPU"
    sequences = budget.batch_size // ranks
    how = execution(train, shapes[0], ranks=ranks, bfloat16=machine.bfloat16, gpu=gpu)
    largest = max(shapes, key=lambda s: step_memory(s, sequences=sequences, how=how).total)
    return largest, sequences, how


def search_hours(plans: Sequence[BudgetPlan], machine: Machine) -> float:
    """Expected hours of a search, its start and its report included."""
    return sum(plan.hours for plan in plans) + machine.start_seconds / 3600


def device_hours(plans: Sequence[BudgetPlan], machine: Machine) -> float:
    """Hours of all devices in use, added up; shared GPUs count as whole ones."""
    trials = min(machine.slots, max(plan.exploring + plan.confirming for plan in plans))
    devices = trials * machine.devices
    if machine.device == "GPU" and machine.devices < 1:
        devices = math.ceil(trials / int(1 / machine.devices + 1e-9))
    return devices * search_hours(plans, machine)


def largest_state(train: TrainConfig, plans: Sequence[BudgetPlan]) -> int:
    """Bytes of the largest checkpoint of a search. A trial on a GPU also keeps a copy in the memory
    of its machine, and that copy may take up to twice as much."""
    best = train.patience is not None
    sizes = (checkpoint_bytes(s, best_weights=best) for plan in plans for s in plan.shapes)
    return max(sizes, default=0)


def search_disk(train: TrainConfig, plans: Sequence[BudgetPlan], slots: int) -> int:
    """Most bytes that the checkpoints of a search take at any time, with `slots` workers that train
    at once.

    Trials that have paused at a rung keep theirs until the whole search is concluded.
    """
    best, paused, sizes = train.patience is not None, 0, list[int]()
    for plan in plans:
        size = max(checkpoint_bytes(shape, best_weights=best) for shape in plan.shapes)
        paused += plan.exploring * size * bool(plan.rungs)
        sizes += [size] * (plan.exploring + plan.confirming)
    return paused + FILES_OF_A_TRIAL * sum(sorted(sizes)[-slots:])


def study_notes(config: StudyConfig) -> tuple[str, ...]:
    """Warnings about settings that are probably not meant, a line each."""
    rate = config.train.learning_rate
    notes = [config.objective.data_note(), _epochs_note(config)]
    if config.coin.timed:
        amounts = (config.train_seconds,) if config.train_seconds else config.budgets
        each = " or ".join(f"{seconds:g} s" for seconds in amounts)
        notes.append(
            "tokens are estimates for the speed of this plan; `fathom run` measures the steps of "
            f"each depth before its first trial, and gives each depth {each} of such steps"
        )
    if config.train.command:
        notes.append(
            "time and disk are those of Fathom's own training; the time, disk and memory of "
            "`train.command` are not known"
        )
        notes.append(interval_note(config))
    if rate > HIGHEST_USUAL_RATE:
        notes.append(
            f"`train.learning_rate` is {rate:g}, far above what AdamW usually takes (1e-4 to "
            "1e-2): trials will most likely diverge; `fathom check` finds a rate"
        )
    if not has_seed(config.own_sampler):
        notes.append(
            f"not reproducible: the constructor of `sampler: {config.own_sampler}` takes no `seed`"
        )
    if config.model.build:
        notes.append(
            f"time and memory are estimates for {config.model.build}: 6 operations for each "
            "parameter and token, and what its forward pass keeps in float32"
        )
    return tuple(filter(None, notes))


def _epochs_note(config: StudyConfig) -> str:
    """A warning if a training repeats its data too often; empty if none does, or if the size of the
    data is not known."""
    if config.coin.timed:
        return ""  # tokens follow from step times
    tokens = max(budget.tokens for budget in expand_budgets(config))
    epochs = config.objective.epochs_at_least(tokens)
    if epochs is None or epochs <= MOST_EPOCHS:
        return ""
    least = "" if config.objective.train_tokens() else "at least "
    return (
        f"a training takes {rounded_count(tokens)} tokens, {least}{epochs:.2g} epochs of "
        f"its data; beyond {MOST_EPOCHS} a repeated token is worth less than a new one, and ever "
        "less (Muennighoff et al. 2023): use more data, or fewer `tokens`"
    )


def _mean_over_depths(shapes: Sequence[Shape], value: Callable[[Shape], float]) -> float:
    """Mean over the depths of the mean value of each depth's shapes."""
    by_depth: defaultdict[int, list[float]] = defaultdict(list)
    for shape in shapes:
        by_depth[shape.depth].append(value(shape))
    return fmean(map(fmean, by_depth.values()))


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
    if config.count.frees_size:
        return exploring, confirm.depths * confirm.seeds
    trials = confirm.seeds + len(confirm.rates[1:]) + len(confirm.decays[1:])  # both have 1
    return exploring, min(confirm.depths, depths) * trials


def expected_confirming(config: StudyConfig, shapes: Sequence[Shape]) -> int:
    """Expected number of confirming trials: each depth once, the repeats that show the noise, and
    the other learning rates and decays at two depths; the rates at all depths if none is known to
    carry over."""
    confirm, (_, most) = config.confirm, stage_trials(config, shapes)
    if config.sampler is Sampler.LADDER:
        return most
    if config.count.frees_size:
        return min(most, OF_ANY_SIZE)
    depths = min(confirm.depths, len({shape.depth for shape in shapes}))
    repeats = min(REPEATS, depths * (confirm.seeds - 1))
    bracketed = depths if config.plain_rates else 2
    others = bracketed * (len(confirm.rates) - 1) + 2 * (len(confirm.decays) - 1)
    return min(most, depths + repeats + others)


def virtual_time(config: StudyConfig, budget: Budget, *, at_once: int = 0) -> VirtualTime:
    """The virtual workers of a budget, before its first trial; `at_once` trials are drawn
    together."""
    return VirtualTime(
        workers=config.trials_together,
        rungs=tuple(rungs_by_step(config, budget).values()),
        horizon=budget.shared_tokens,
        eta=config.stopping.eta,
        at_once=at_once,
        waits=config.stopping.rule is StoppingMethod.SYNCHRONOUS,
    )


def _expected_rungs(config: StudyConfig, budget: Budget, exploring: int) -> tuple[Rung, ...]:
    """The rungs with the mean numbers of trials in simulated searches, which rank at random; trials
    promoted because they are too close to the best to tell apart are not counted."""
    first = virtual_time(config, budget)
    return _mean_rungs(config.stopping, exploring, first.workers, first.rungs, first.horizon)


@cache
def _mean_rungs(
    stopping: StoppingConfig, exploring: int, workers: int, rungs: tuple[int, ...], horizon: int
) -> tuple[Rung, ...]:
    ends = []
    for seed in range(max(1, SIMULATED // exploring)):
        time = VirtualTime(
            workers=workers, rungs=rungs, horizon=horizon, eta=stopping.eta,
            waits=stopping.rule is StoppingMethod.SYNCHRONOUS,
        )  # fmt: skip
        dice = random.Random(seed)
        explore(time, RandomTrials(dice, exploring, stopping.always_finish, stopping.eta))
        ends.append(time)
    arriving = {rung: fmean(len(end.standing[rung]) for end in ends) for rung in ends[0].rungs}
    paused = {rung: fmean(len(end.waiting(rung)) for end in ends) for rung in ends[0].rungs}
    return tuple(Rung(rung, number, number - paused[rung]) for rung, number in arriving.items())
