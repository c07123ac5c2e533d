"""Ray Tune's own OptunaSearch and AsyncHyperBandScheduler, driven without a cluster."""

from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler
from ray.tune.search.optuna import OptunaSearch

from benchmarks.rival_searchers.plain import shuffled
from benchmarks.rival_searchers.rival import Asked, Contender, Grid, over_depth

METRIC, TIME = "loss", "training_iteration"


class RayTune:
    """Ray's searcher, or a shuffled grid, and scheduler as a `Package`."""

    def __init__(self, grid: Grid, search: OptunaSearch | None, scheduler: Any, seed: int) -> None:
        self._grid, self._search, self._scheduler = grid, search, scheduler
        self._order = shuffled(grid, seed)
        self._trials: dict[str, Trial] = {}

    def ask(self) -> Asked | None:
        """The searcher's next suggestion, also added to the scheduler as Tune does."""
        handle = str(len(self._trials))
        shape = self._suggested(handle)
        if shape is None:
            return None
        self._trials[handle] = Trial("replayed", trial_id=handle, stub=True)
        self._scheduler.on_trial_add(None, self._trials[handle])
        return Asked(handle, shape)

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """Report like `TuneController`: scheduler, then searcher, which completes stopped ones."""
        result = {TIME: level, METRIC: loss, "time_total_s": float(level)}
        decision = self._scheduler.on_trial_result(None, self._trials[handle], result)
        if decision == TrialScheduler.STOP:
            self._complete(handle, result)
            return False
        if self._search:
            self._search.on_trial_result(handle, result)
        return True

    def fail(self, handle: str, loss: float) -> None:
        """Remove the trial from the scheduler; tell the searcher the worst loss so far."""
        self._scheduler.on_trial_remove(None, self._trials[handle])
        self._complete(handle, {TIME: 1, METRIC: loss})

    def _suggested(self, handle: str) -> Any:
        if self._search is None:
            return next(self._order, None)
        return self._grid.shape(**(self._search.suggest(handle) or {}))

    def _complete(self, handle: str, result: dict[str, Any]) -> None:
        if self._search:
            self._search.on_trial_complete(handle, result)


def asha(levels: int, eta: float, grace: float) -> AsyncHyperBandScheduler:
    """Ray's ASHA; `grace` is a share of the horizon, at least one evaluation."""
    return AsyncHyperBandScheduler(
        time_attr=TIME,
        metric=METRIC,
        mode="min",
        max_t=levels,
        grace_period=max(1, round(grace * levels)),
        reduction_factor=eta,
    )


def optuna_search(grid: Grid, seed: int, sampler: str) -> OptunaSearch:
    """Returns OptunaSearch with its default sampler, or with one that has fewer random draws."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    chosen: Any = {
        "default": None,
        "eager": optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
        "gp": optuna.samplers.GPSampler(seed=seed, n_startup_trials=4),
    }[sampler]
    space: dict[str, BaseDistribution] = {
        name: IntDistribution(0, side - 1) for name, side in grid.sides.items()
    }
    return OptunaSearch(
        space, metric=METRIC, mode="min", sampler=chosen, seed=None if chosen else seed
    )


def contender(sampler: str, eta: float, grace: float, **changes: Any) -> Contender:
    """ASHA at one setting, with OptunaSearch or over the whole grid."""

    def build(grid: Grid, levels: int, seed: int) -> RayTune:
        # Ray draws the bracket of a trial from numpy's own generator.
        np.random.seed(seed % 2**32)  # noqa: NPY002
        search = None if sampler == "grid" else optuna_search(grid, seed, sampler)
        return RayTune(grid, search, asha(levels, eta, grace), seed)

    searcher = "grid" if sampler == "grid" else f"OptunaSearch {sampler}"
    name = f"Ray {searcher} + ASHA eta {eta:g} grace {grace:.2g}"
    return Contender(name=name, build=build, **changes)


DEFAULT = contender("default", 4, 0.0)
CAREFUL = contender("eager", 3, 0.12, patience=20)
GRID = contender("grid", 3, 0.12)
CONTENDERS = (
    DEFAULT,
    contender("default", 2, 0.06, patience=20),
    contender("default", 4, 0.25, patience=20),
    CAREFUL,
    over_depth(CAREFUL),
    contender("grid", 4, 0.0),
    contender("grid", 4, 0.25),
    GRID,
    over_depth(GRID),
)
"""The defaults of both, and the best settings found; a grace of 0 is one evaluation."""
