"""Sizes of a table's runs: classes of about one size, the gain from size, shapes of one size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fathom.models.shape import Shape
from fathom.search.tables.runs import Run

WIDTH = 0.1
"""Relative half-width of a size class."""
FEWEST_SHAPES = 3
"""Fewest shapes of a size class: two shapes have too simple an order."""
SHORT = 0.5
"""Share of the longest run's tokens below which a run counts as broken off."""
ENOUGH_SHAPES = 8
"""Fewest shapes for a fit of a line in size and a parabola in depth."""
MANY_SIZES = 0.7
"""Range of ln(parameters), a factor of two, beyond which the gain from size flattens."""
SAME_SIZE = 0.01
"""Difference of sizes that needs no correction, since that would be below 0.004 nats."""
RATIO = 4
"""Assumed d_ff / d_model of shapes whose table lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedShape(Shape):
    """A shape of a table, which counts exactly as many parameters as it is told."""

    counted: int

    @property
    def params_total(self) -> int:
        """Parameters as counted."""
        return self.counted

    @property
    def params_non_embedding(self) -> int:
        """Parameters as counted, whichever the rule."""
        return self.counted


def sized_shape(run: Run, size: int) -> SizedShape:
    """The shape of a run, at exactly this size."""
    return SizedShape(
        depth=run.depth,
        d_model=run.d_model,
        d_ff=run.d_ff or RATIO * run.d_model,
        n_heads=1,
        head_dim=2,
        vocab_size=256,
        context=128,
        counted=size,
    )


def size_classes(runs: Sequence[Run], count: str, width: float) -> list[tuple[Run, ...]]:
    """Disjoint classes whose sizes lie within `width` of their middle, fullest first."""
    classes = []
    left = list(runs)
    while left:
        fullest = max((_around(run, left, count, width) for run in left), key=_shapes)
        if _shapes(fullest) < FEWEST_SHAPES:
            break
        classes.append(fullest)
        left = [run for run in left if run not in fullest]
    return sorted(classes, key=lambda some: some[0].params(count))


def runs_near(runs: Iterable[Run], size: float, count: str, width: float) -> tuple[Run, ...]:
    """The runs whose size differs from `size` by at most the share `width` of it."""
    return tuple(run for run in runs if abs(run.params(count) / size - 1) <= width)


def size_slope(runs: Sequence[Run], near: Sequence[Run], horizon: float, count: str) -> float:
    """Nats per unit of ln parameters at the size of the runs `near` it, from the whole table.

    One fit over all sizes: parabolas in ln parameters and in ln depth. Within a class size and
    depth are too entangled to tell apart. 0 where the class has one size or the table few shapes.
    """
    sizes = np.log([run.params(count) for run in near])
    there = [run for run in runs if run.tokens[-1] >= SHORT * horizon]
    if np.ptp(sizes) < SAME_SIZE or _shapes(there) < ENOUGH_SHAPES:
        return 0.0
    middle = float(np.median(sizes))
    size = np.log([run.params(count) for run in there]) - middle
    depth = np.log([run.depth for run in there])
    ends = [np.interp(horizon, run.tokens, run.losses) for run in there]
    columns = [np.ones_like(size), size, depth, depth**2]
    if np.ptp(size) > MANY_SIZES:
        columns.append(size**2)
    return float(np.linalg.lstsq(np.stack(columns, axis=1), np.array(ends), rcond=None)[0][1])


def _around(run: Run, runs: Sequence[Run], count: str, width: float) -> tuple[Run, ...]:
    """The runs from this one's size upwards that fit in one class."""
    low = run.params(count)
    high = low * (1 + width) / (1 - width)
    return tuple(other for other in runs if low <= other.params(count) <= high)


def _shapes(runs: Sequence[Run]) -> int:
    return len({run.shape for run in runs})
