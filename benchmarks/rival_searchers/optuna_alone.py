"""Optuna by itself: a sampler, a pruner, ask and tell."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import optuna
from optuna import Study
from optuna.distributions import IntDistribution
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    SuccessiveHalvingPruner,
    WilcoxonPruner,
)
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import Trial, TrialState

from benchmarks.rival_searchers.plain import shuffled
from benchmarks.rival_searchers.rival import Asked, Contender, Grid, over_depth
from fathom.models.shape import Shape

GRID = "grid"
"""Name of the sampler that enqueues every shape with every seed once, in random order."""
LEVELS = 32
"""Reports of a trial; few, since Optuna's pruners take long for each."""


class Optuna:
    """Optuna's study behind the interface of `Package`."""

    def __init__(
        self, grid: Grid, study: Study, levels: int, enqueued: Sequence[Shape] = ()
    ) -> None:
        self._grid, self._levels = grid, levels
        self._study, self._left = study, len(enqueued) or math.inf
        for shape in enqueued:
            self._study.enqueue_trial(grid.ranks(shape))
        self._trials: dict[str, Trial] = {}

    def ask(self) -> Asked | None:
        """The next trial of the study; None after the last enqueued one."""
        if len(self._trials) >= self._left:
            return None
        sides = {name: IntDistribution(0, side - 1) for name, side in self._grid.sides.items()}
        trial = self._study.ask(dict(sides))
        self._trials[str(trial.number)] = trial
        return Asked(str(trial.number), self._grid.shape(**trial.params))

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """Reports a loss; False if the pruner ends the trial."""
        trial = self._trials[handle]
        trial.report(loss, level)
        if level == self._levels:
            self._study.tell(trial, loss)
            return False
        if trial.should_prune():
            self._study.tell(trial, state=TrialState.PRUNED)
            return False
        return True

    def fail(self, handle: str, loss: float) -> None:
        """Completes a diverged trial with the worst loss, since samplers ignore failed trials."""
        self._study.tell(self._trials[handle], loss)


def halving(levels: int, first: float, eta: int, after: int) -> SuccessiveHalvingPruner:
    """Returns a pruner with a first rung at `first`; `after` trials fill a rung first."""
    return SuccessiveHalvingPruner(
        min_resource=max(1, int(first * levels)), reduction_factor=eta, bootstrap_count=after
    )


SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "TPE": lambda seed: TPESampler(seed=seed),
    "TPE eager": lambda seed: TPESampler(seed=seed, n_startup_trials=4, constant_liar=True),
    "GP": lambda seed: GPSampler(seed=seed),
    "GP eager": lambda seed: GPSampler(seed=seed, n_startup_trials=4),
    GRID: lambda seed: RandomSampler(seed=seed),
}
PRUNERS: dict[str, Callable[[int], BasePruner]] = {
    "none": lambda levels: NopPruner(),
    "Median": lambda levels: MedianPruner(),
    "Median after 1 trial": lambda levels: MedianPruner(n_startup_trials=1),
    "Hyperband": lambda levels: HyperbandPruner(),
    "Hyperband eta 2": lambda levels: HyperbandPruner(max_resource=levels, reduction_factor=2),
    "SuccessiveHalving": lambda levels: SuccessiveHalvingPruner(),
    "SuccessiveHalving from 1": lambda levels: SuccessiveHalvingPruner(min_resource=1),
    "SuccessiveHalving from 1/8": lambda levels: halving(levels, 1 / 8, 2, 0),
    "SuccessiveHalving from 1/8 eta 4 after 4": lambda levels: halving(levels, 1 / 8, 4, 4),
    "SuccessiveHalving from 1/8 eta 4 after 8": lambda levels: halving(levels, 1 / 8, 4, 8),
    "SuccessiveHalving from 1/32 eta 4 after 3": lambda levels: halving(levels, 1 / 32, 4, 3),
    "Wilcoxon": lambda levels: WilcoxonPruner(),
}


def contender(sampler: str, pruner: str, **changes: Any) -> Contender:
    """Returns a rival of one sampler with one pruner."""

    def build(grid: Grid, levels: int, seed: int) -> Optuna:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A name of its own, because HyperbandPruner draws a trial's bracket from it.
        study = optuna.create_study(
            study_name=str(seed), sampler=SAMPLERS[sampler](seed), pruner=PRUNERS[pruner](levels)
        )
        return Optuna(grid, study, levels, tuple(shuffled(grid, seed)) if sampler == GRID else ())

    name = f"Optuna {sampler} + {pruner}"
    return Contender(name=name, build=build, **({"levels": LEVELS} | changes))


MODEL = contender("TPE", "Hyperband eta 2", patience=20)
LISTED = contender(GRID, "Hyperband eta 2")
PATIENT = contender(GRID, "SuccessiveHalving from 1/8 eta 4 after 8")
CONTENDERS = (
    contender("TPE", "Median", patience=20),
    contender("TPE", "Median after 1 trial", patience=20),
    contender("TPE", "Hyperband", patience=20),
    contender("TPE", "SuccessiveHalving", patience=20),
    contender("TPE", "SuccessiveHalving from 1/8", patience=20),
    contender("TPE", "none", patience=20),
    MODEL,
    over_depth(MODEL),
    contender(GRID, "SuccessiveHalving from 1/8"),
    contender(GRID, "SuccessiveHalving from 1/8 eta 4 after 4"),
    PATIENT,
    over_depth(PATIENT),
    contender(GRID, "SuccessiveHalving from 1/32 eta 4 after 3"),
    LISTED,
    over_depth(LISTED),
    contender("TPE", "Wilcoxon", patience=12, share=0.05),
    contender("GP", "Hyperband eta 2", patience=12, share=0.05),
)
"""Every pruner at its defaults, and the best settings found."""
