"""Sizes of a table's runs: classes of about one size, the gain from size, shapes of one size."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from fathom.models.shape import Shape
from fathom.search.tables.runs import Run

ONE_RULE = 0.95
"""Squared correlation of the logarithms of depths and sizes above which one follows from the
other."""
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
NEARBY = 0.4
"""Difference in ln(parameters) up to which shapes show how far shapes of a depth scatter."""
FEWEST_SPARE = 3
"""Fewest degrees of freedom of a scatter between shapes."""
SIGNIFICANT = 0.05
"""Chance of such a scatter without any difference between shapes, above which there is none."""
RATIO = 4
"""Assumed d_ff / d_model of shapes whose table lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedShape(Shape):
    """A shape of a table, with the number of parameters that the table states."""

    counted: int
    embedding: int
    """Parameters of the embedding, which `counted` includes."""

    @property
    def params_total(self) -> int:
        """Parameters as counted."""
        return self.counted

    @property
    def params_non_embedding(self) -> int:
        """Parameters as counted, less the embedding where it was counted."""
        return self.counted - self.embedding


def sized_shape(run: Run, size: int, count: str) -> SizedShape:
    """The shape of a run, at exactly this size by a counting rule."""
    return SizedShape(
        depth=run.depth,
        d_model=run.d_model,
        d_ff=run.d_ff or RATIO * run.d_model,
        n_heads=1,
        head_dim=2,
        vocab_size=256,
        context=128,
        counted=size,
        embedding=run.params(count) - run.params_non_embedding,
    )


def size_classes(
    runs: Sequence[Run], count: str, width: float, *, fewest: int = FEWEST_SHAPES,
    kind: Callable[[Run], object] = attrgetter("shape"),
) -> list[tuple[Run, ...]]:  # fmt: skip
    """Disjoint classes of runs of nearly one size, ascending by size.

    Sizes, by `count`, lie within the share `width` of the middle of their class. The class with the
    most different `kind`s is taken out first, and so on until none has `fewest`.
    """
    classes = []
    left = sorted(runs, key=lambda run: run.params(count))
    while left:
        sizes = np.array([run.params(count) for run in left])
        ends = np.searchsorted(sizes, sizes * (1 + width) / (1 - width), side="right").tolist()
        starts = np.flatnonzero(np.diff(sizes, prepend=-1)).tolist()
        numbers = [len({kind(run) for run in left[start : ends[start]]}) for start in starts]
        most = max(numbers)
        if most < fewest:
            break
        start = starts[numbers.index(most)]
        chosen = {id(run) for run in left[start : ends[start]]}
        classes.append(tuple(run for run in runs if id(run) in chosen))
        left = left[:start] + left[ends[start] :]
    return sorted(classes, key=lambda some: min(run.params(count) for run in some))


def runs_near(runs: Iterable[Run], size: float, count: str, width: float) -> tuple[Run, ...]:
    """The runs whose size differs from `size` by at most the share `width` of it."""
    return tuple(run for run in runs if abs(run.params(count) / size - 1) <= width)


def follow(sizes: ArrayLike, depths: ArrayLike) -> bool:
    """True if sizes follow from depths by one rule, so that depth is not shown apart from size."""
    return bool(np.corrcoef(np.log(sizes), np.log(depths))[0, 1] ** 2 >= ONE_RULE)


def size_slope(
    runs: Sequence[Run], near: Sequence[Run], horizon: float, count: str
) -> tuple[float, float]:
    """Nats per unit of ln parameters at the size of the runs `near` it, and its standard error.

    One fit over all sizes of a table: parabolas in ln parameters and in ln depth. Within a class
    size and depth are too entangled to tell apart. 0 where the class has one size; the error is
    infinite, and the slope 0, where the table has too few shapes.
    """
    sizes = np.log([run.params(count) for run in near])
    there = [run for run in runs if run.tokens[-1] >= SHORT * horizon]
    if np.ptp(sizes) < SAME_SIZE:
        return 0.0, 0.0
    if len({run.shape for run in there}) < ENOUGH_SHAPES:
        return 0.0, inf
    middle = float(np.median(sizes))
    size = np.log([run.params(count) for run in there]) - middle
    depth = np.log([run.depth for run in there])
    ends = np.array([np.interp(horizon, run.tokens, run.losses) for run in there])
    columns = [np.ones_like(size), size, depth, depth**2]
    if np.ptp(size) > MANY_SIZES:
        columns.append(size**2)
    design = np.stack(columns, axis=1)
    fitted = np.linalg.lstsq(design, ends, rcond=None)[0]
    squares = float(((ends - design @ fitted) ** 2).sum())
    spare = len(ends) - np.linalg.matrix_rank(design)
    if spare < 1 or np.linalg.matrix_rank(design) < len(columns):
        return float(fitted[1]), inf
    covariance = np.linalg.inv(design.T @ design)
    return float(fitted[1]), sqrt(squares / spare * float(covariance[1, 1]))


def shape_scatter(
    runs: Sequence[Run], losses: Sequence[float], variances: Sequence[float], params: float,
    count: str,
) -> float:  # fmt: skip
    """Standard deviation, nats, between shapes of a depth beyond the effect of their sizes and the
    `variances` of their losses: from heads, rounded layers, or anything else.

    From the shapes of about the size `params`, by a level for each depth and the gain from size;
    0 where they show none.
    """
    sizes = np.log([run.params(count) / params for run in runs])
    near = np.flatnonzero(np.abs(sizes) <= NEARBY).tolist()
    depths = [runs[index].depth for index in near]
    levels = [[float(depth == other) for other in sorted(set(depths))] for depth in depths]
    spare = len(near) - len(set(depths)) - 1
    if spare < FEWEST_SPARE or np.ptp(sizes[near]) < SAME_SIZE:
        return 0.0
    design = np.column_stack([np.array(levels), sizes[near]])
    ends = np.array(losses)[near]
    missed = ends - design @ np.linalg.lstsq(design, ends, rcond=None)[0]
    expected, squares = float(np.mean(np.array(variances)[near])), float(missed @ missed)
    if chdtrc(spare, squares / expected) > SIGNIFICANT:
        return 0.0
    return sqrt(squares / spare - expected)
