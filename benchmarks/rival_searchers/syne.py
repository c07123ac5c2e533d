"""Syne Tune's schedulers, driven as its `Tuner` drives them."""

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from syne_tune.backend.trial_status import Trial
from syne_tune.config_space import randint
from syne_tune.optimizer import baselines
from syne_tune.optimizer.scheduler import SchedulerDecision, TrialScheduler
from syne_tune.optimizer.schedulers.median_stopping_rule import MedianStoppingRule
from syne_tune.optimizer.schedulers.single_objective_scheduler import SingleObjectiveScheduler

from benchmarks.rival_searchers.plain import shuffled
from benchmarks.rival_searchers.rival import Asked, Contender, Grid, over_depth

METRIC, TIME = "loss", "epoch"


class SyneTune:
    """A scheduler that suggests trials, takes results and stops trials."""

    def __init__(self, grid: Grid, scheduler: TrialScheduler, levels: int) -> None:
        self._grid, self._scheduler, self._levels = grid, scheduler, levels
        self._trials: dict[str, Trial] = {}

    def ask(self) -> Asked | None:
        """A new trial, if the scheduler has any left."""
        suggestion = self._scheduler.suggest()
        if suggestion is None:
            return None
        number = len(self._trials)
        trial = Trial(number, suggestion.config, datetime.now(UTC))
        self._trials[str(number)] = trial
        self._scheduler.on_trial_add(trial)
        return Asked(str(number), self._grid.shape(**trial.config))

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """Reports a result; the last level completes its trial."""
        trial, result = self._trials[handle], {METRIC: loss, TIME: level}
        decision = self._scheduler.on_trial_result(trial, result)
        if level == self._levels:
            self._scheduler.on_trial_complete(trial, result)
        elif decision == SchedulerDecision.STOP:
            self._scheduler.on_trial_remove(trial)
        return bool(decision == SchedulerDecision.CONTINUE)

    def fail(self, handle: str, loss: float) -> None:
        """Reports the worst loss so far for a diverged trial."""
        self._scheduler.on_trial_complete(self._trials[handle], {METRIC: loss, TIME: self._levels})


Make = Callable[[dict[str, Any], Grid, int, int], TrialScheduler]


def asha(kind: str, eta: float, grace: float, *, listed: bool = False) -> Make:
    """Makes a scheduler of the ASHA family; `grace` is a share of the horizon.

    `listed` gives it every shape to begin with, in random order.
    """

    def make(space: dict[str, Any], grid: Grid, levels: int, seed: int) -> TrialScheduler:
        return getattr(baselines, kind)(
            config_space=space,
            metric=METRIC,
            time_attr=TIME,
            max_t=levels,
            grace_period=max(1, round(grace * levels)),
            reduction_factor=eta,
            random_seed=seed,
            points_to_evaluate=(
                [grid.ranks(shape) for shape in shuffled(grid, seed)] if listed else None
            ),
        )

    return make


def whole(kind: str) -> Make:
    """Makes a scheduler that trains every trial to its end."""

    def make(space: dict[str, Any], grid: Grid, levels: int, seed: int) -> TrialScheduler:
        return getattr(baselines, kind)(config_space=space, metric=METRIC, random_seed=seed)

    return make


def median(space: dict[str, Any], grid: Grid, levels: int, seed: int) -> TrialScheduler:
    """The median rule at its defaults around random draws that nothing else stops."""
    inner = SingleObjectiveScheduler(
        space, METRIC, random_seed=seed, searcher_kwargs={"random_seed": seed}
    )
    return MedianStoppingRule(
        inner, time_attr=TIME, metric=METRIC, random_seed=seed, do_minimize=True
    )


def contender(name: str, make: Make, **changes: Any) -> Contender:
    """Returns a rival of one scheduler on the ranks of depth and ratio."""

    def build(grid: Grid, levels: int, seed: int) -> SyneTune:
        logging.getLogger("syne_tune").setLevel(logging.ERROR)
        # Some of its searchers draw from the generators of the process, whatever their seed.
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        space = {side: randint(0, size - 1) for side, size in grid.sides.items()}
        return SyneTune(grid, make(space, grid, levels, seed % 2**31), levels)

    return Contender(name=f"Syne Tune {name}", build=build, **changes)


SLOW: dict[str, Any] = {"patience": 12, "suggestions": 100, "share": 0.05}
"""Limits for searchers that fit a model for each suggestion, which takes seconds."""
LISTED = contender("ASHA all shapes eta 3 grace 0.25", asha("ASHA", 3, 0.25, listed=True))
CONTENDERS = (
    contender("ASHA", asha("ASHA", 3, 0.0)),
    contender("ASHA eta 3 grace 0.12", asha("ASHA", 3, 0.12)),
    contender("ASHA all shapes eta 3 grace 0.12", asha("ASHA", 3, 0.12, listed=True)),
    LISTED,
    over_depth(LISTED),
    contender("BOHB", asha("BOHB", 3, 0.0), patience=10, share=0.25),
    contender("BOHB eta 3 grace 0.12", asha("BOHB", 3, 0.12), patience=10, share=0.25),
    contender("REA", whole("REA"), patience=10),
    contender("TPE", whole("TPE"), patience=10),
    contender("random + median rule", median),
    contender("ASHACQR", asha("ASHACQR", 3, 0.0), **SLOW),
    contender("ASHABORE", asha("ASHABORE", 3, 0.0), **SLOW),
    contender("CQR", whole("CQR"), **SLOW),
    contender("BORE", whole("BORE"), **SLOW),
    contender("BOTorch", whole("BOTorch"), **SLOW),
)
"""Every scheduler for one objective that version 0.16 has, and the best settings of ASHA found."""
