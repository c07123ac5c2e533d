"""NePS by its ask-and-tell interface; its brackets pause trials and promote them later."""

import logging
import random
from typing import Any

import neps
import numpy as np
import torch

from benchmarks.rival_searchers.rival import Asked, Contender, Grid, over_depth

FIDELITY = "level"
SYNCHRONOUS = 200
"""Suggestions of a search whose rungs wait until they are full: for each, NePS makes all brackets
anew from all trials, and with repeats that teach nothing they would be thousands.
"""


class Neps:
    """NePS's optimizer behind the interface of `Package`."""

    def __init__(self, grid: Grid, optimizer: Any, levels: int) -> None:
        self._grid, self._levels = grid, levels
        self._neps = neps.AskAndTell(optimizer=optimizer)
        self._live: dict[str, Any] = {}

    def ask(self) -> Asked | None:
        """A new configuration, or one that resumes from its last rung."""
        trial = self._neps.ask()
        handle = trial.metadata.id.partition("_")[0]
        self._live[handle] = trial
        ranks = {name: int(trial.config[name]) for name in self._grid.sides}
        return Asked(handle, self._grid.shape(**ranks))

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """Reports the loss if the bracket asked for one at this level."""
        trial = self._live[handle]
        if level < trial.config.get(FIDELITY, self._levels):
            return True
        self._neps.tell(trial, loss)
        return False

    def fail(self, handle: str, loss: float) -> None:
        """Ends a diverged trial with the worst loss so far."""
        self._neps.tell(self._live[handle], loss)


def contender(
    algorithm: str, *, grace: float = 0.0, prior: bool = False, **changes: Any
) -> Contender:
    """Returns a NePS algorithm; `grace` is its lowest fidelity, a share of the horizon."""
    options = {key: changes.pop(key) for key in ("eta", "initial_design_size") if key in changes}

    def build(grid: Grid, levels: int, seed: int) -> Neps:
        logging.getLogger("neps").setLevel(logging.ERROR)
        # It draws from the generators of the process.
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        torch.manual_seed(seed)
        fidelity = None if algorithm == "bayesian_optimization" else max(1, round(grace * levels))
        space = _space(grid, levels, fidelity, prior)
        return Neps(grid, getattr(neps.algorithms, algorithm)(space, **options), levels)

    settings = [f"{key} {value}" for key, value in options.items()]
    settings += [f"grace {grace:.2g}"] if grace else []
    # Its brackets ask for many more trials than a budget has shapes, most of them known already.
    limits = {"patience": 100, "share": 0.25, "levels": 81}
    if algorithm in ("successive_halving", "hyperband", "priorband"):
        limits["suggestions"] = SYNCHRONOUS
    return Contender(name=" ".join(["NePS", algorithm, *settings]), build=build, **limits | changes)


def _space(grid: Grid, levels: int, first: int | None, prior: bool) -> Any:
    """NePS's search space: ranks of depth and ratio; a prior favours the middle."""
    sides: dict[str, Any] = {}
    for name, side in grid.sides.items():
        wish = {"prior": side // 2, "prior_confidence": "low"} if prior else {}
        sides[name] = neps.Integer(lower=0, upper=side - 1, **wish)
    if first is not None:
        sides[FIDELITY] = neps.IntegerFidelity(lower=first, upper=levels)
    return type("Space", (neps.PipelineSpace,), sides)()


HYPERBAND = contender("hyperband", grace=0.12)
CONTENDERS = (
    contender("asha"),
    contender("asha", grace=0.06, eta=4),
    contender("successive_halving", share=0.05),
    contender("successive_halving", grace=0.12),
    contender("hyperband", share=0.05),
    HYPERBAND,
    over_depth(HYPERBAND),
    contender("hyperband", grace=0.06, eta=2),
    contender("async_hb"),
    contender("async_hb", grace=0.12),
    contender("priorband", grace=0.12, prior=True),
    contender("bayesian_optimization", patience=12, share=0.05),
)
"""NePS algorithms that need no download, at their defaults and with the best first rung found."""
