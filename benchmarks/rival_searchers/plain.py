"""Searches that need no package: ladders and random draws."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.rival_searchers.rival import Asked, Contender, Grid, Reading, over_depth
from fathom.models.shape import Shape

SHORT = (16, 8, 4)
"""Inverse shares of the horizon at which a short ladder stops all its trials."""


class Listed:
    """Trains trials in a given order, all to the same level."""

    def __init__(self, order: Iterator[Shape], until: int) -> None:
        self._order = enumerate(order)
        self._until = until

    def ask(self) -> Asked | None:
        """The next trial of the list."""
        return next((Asked(str(number), shape) for number, shape in self._order), None)

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """True below the common last level, for any loss."""
        return level < self._until

    def fail(self, handle: str, loss: float) -> None:
        """Ignore the divergence: the order of trials does not depend on it."""


class Abreast:
    """Trains trials in a given order; all reach twice the tokens before any continues."""

    def __init__(self, order: Iterator[Shape], levels: int) -> None:
        self._levels = levels
        self._shapes = {str(number): shape for number, shape in enumerate(order)}
        self._done = dict.fromkeys(self._shapes, 0)
        self._away: set[str] = set()

    def ask(self) -> Asked | None:
        """A waiting trial of those with the fewest tokens; None while all of these train."""
        left = [h for h, done in self._done.items() if done < self._levels]
        behind = min((self._done[h] for h in left), default=0)
        free = [h for h in left if h not in self._away and self._done[h] == behind]
        if not free:
            return None
        self._away.add(free[0])
        return Asked(free[0], self._shapes[free[0]])

    def tell(self, handle: str, level: int, loss: float) -> bool:
        """Pause at powers of two and at the end."""
        if level & (level - 1) and level < self._levels:
            return True
        self._done[handle] = level
        self._away.discard(handle)
        return False

    def fail(self, handle: str, loss: float) -> None:
        """Take the diverged trial out of the order."""
        self._done[handle] = self._levels
        self._away.discard(handle)


Order = Callable[[Grid, int], Iterator[Shape]]


def by_depth(grid: Grid, seed: int) -> Iterator[Shape]:
    """Every shape with every seed, from the shallowest shape to the deepest."""
    return itertools.chain.from_iterable([shape] * grid.seeds for shape in grid.shapes)


def shuffled(grid: Grid, seed: int) -> Iterator[Shape]:
    """Every shape in random order, then every shape with another seed."""
    generator = np.random.default_rng(seed)
    for _ in range(grid.seeds):
        yield from (grid.shapes[i] for i in generator.permutation(len(grid.shapes)))


def drawn(grid: Grid, seed: int) -> Iterator[Shape]:
    """Yields uniformly random feasible shapes without end."""
    generator = np.random.default_rng(seed)
    return (grid.shapes[generator.integers(len(grid.shapes))] for _ in itertools.count())


def _contender(
    name: str, order: Order, *, share: int = 1, reading: Reading = Reading.SEEDS, **changes: Any
) -> Contender:
    def build(grid: Grid, levels: int, seed: int) -> Listed | Abreast:
        if reading is Reading.ABREAST:
            return Abreast(order(grid, seed), levels)
        return Listed(order(grid, seed), max(1, levels // share))

    return Contender(name=name, build=build, reading=reading, levels=64, **changes)


LADDER = _contender("ladder shuffled", shuffled)
ABREAST = _contender("ladder abreast", shuffled, reading=Reading.ABREAST)
CONTENDERS = (
    _contender("ladder by depth", by_depth),
    LADDER,
    ABREAST,
    *(_contender(f"ladder to 1/{share}", shuffled, share=share) for share in SHORT),
    over_depth(LADDER),
    over_depth(ABREAST),
    _contender("random search", drawn),
)
