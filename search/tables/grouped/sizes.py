"""Sizes of a table's runs: classes of nearly equal size, and the gain in loss from size."""

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
"""Squared correlation of ln depth and ln size from which on one counts as following from the
other."""
WIDTH = 0.1
"""Relative half-width of a size class."""
FEWEST_SHAPES = 3
"""Fewest shapes of a size class, by default."""
SHORT = 0.5
"""Runs with fewer tokens than this share of the horizon's, or of the longest run's, are left
out."""
ENOUGH_SHAPES = 8
"""Fewest shapes for a fit of a line in size and a parabola in depth."""
MANY_SIZES = 0.7
"""Range of ln(parameters), a factor of two, beyond which the fit has a term for a flattening
gain."""
SAME_SIZE = 0.01
"""Relative difference in size below which losses are not corrected, by less than 0.004 nats."""
NEARBY = 0.4
"""Largest difference in ln(parameters) of the shapes from which `shape_scatter` is estimated."""
FEWEST_SPARE = 3
"""Fewest degrees of freedom to estimate the scatter between shapes."""
SIGNIFICANT = 0.05
"""Largest p-value at which a scatter between shapes counts as real."""
RATIO = 4
"""Assumed d_ff / d_model if the table has no d_ff."""


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
        """Parameters as counted, minus the embedding if it was counted."""
        return self.counted - self.embedding


def sized_shape(run: Run, size: int, count: str) -> SizedShape:
    """The shape of a run, as if it had exactly `size` parameters by the counting rule `count`."""
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
    most different `kind`s is taken out first, then the next, until none has `fewest`.
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
    """The runs whose size differs from `size` by at most the share `width` of `size`."""
    return tuple(run for run in runs if abs(run.params(count) / size - 1) <= width)


def follow(sizes: ArrayLike, depths: ArrayLike) -> bool:
    """True if sizes follow from depths by one rule, so that the effects of the two can't be
    separated."""
    return bool(np.corrcoef(np.log(sizes), np.log(depths))[0, 1] ** 2 >= ONE_RULE)


def size_slope(
    runs: Sequence[Run], near: Sequence[Run], horizon: float, count: str
) -> tuple[float, float]:
    """Slope of the loss, nats per unit of ln parameters, at the size of the runs `near`, and its
    standard error.

    One fit over all sizes of a table, of parabolas in ln parameters and in ln depth, as size and
    depth are too entangled within one class. If `near` has one size, both are 0; if the table has
    too few shapes, the slope is 0 and the error infinite.
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
    """Standard deviation, nats, between shapes of a depth that their sizes and the `variances` of
    their losses do not explain, but heads, rounded layers or anything else may.

    Estimated from shapes near the size `params`, by a fit of a level for each depth and a slope in
    size; 0 if they show no such deviation.
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
