"""Importance of each setting of a search's table, and whether the best depth depends on it."""

from dataclasses import dataclass

import numpy as np

from fathom.search.tables.searches.axes import SIZE, TOKENS
from fathom.search.tables.searches.surface import Array
from fathom.search.tables.searches.tuning import DRAWS, Tuned

ENDS = (0.1, 0.9)
"""Quantiles of a setting's numbers at which the best depth is compared."""
CERTAIN = 0.98
"""Probability that two values have different best depths, from which on depth depends on the
setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """Importance of a setting when all others are at their best."""

    setting: str
    """The table's name of the column, or `depth`, `size` or `learning_rate`."""
    nats: float
    """Average cost of the values that were tried, compared with the best of them, in nats."""
    best: str
    """The value that is expected to be best."""
    best_depths: tuple[tuple[str, int], ...] = ()
    """Two values of the setting, each with its best depth, if the best depth depends on the
    setting; otherwise empty."""


def importances(tuned: Tuned, best: int, generator: np.random.Generator) -> tuple[Importance, ...]:
    """The importance of each setting, including depth, largest first; `best` is the index of the
    best depth."""
    base, drawn = tuned.points[best], tuned.drawn
    found = []
    for place, axis in enumerate(drawn.axes):
        if axis.name == TOKENS or (axis.name == SIZE and tuned.size is not None):
            continue
        values = drawn.rows[:, place]
        if axis.name == SIZE:
            values = np.clip(values, *tuned.sizes[best])
        points = np.tile(base, (len(values), 1))
        points[:, place] = values
        depths = np.full(len(values), float(tuned.depths[best]))
        if place == 0:
            depths = drawn.depths.clip(tuned.depths[0], tuned.depths[-1])
        losses = tuned.surface.warp.back(tuned.surface.expected(points, depths))
        found.append(
            Importance(
                setting=axis.name,
                nats=float(losses.mean() - losses.min()),
                best=axis.text(base[place]),
                best_depths=_best_depths(tuned, place, generator) if place else (),
            )
        )
    return tuple(sorted(found, key=lambda importance: -importance.nats))


def _best_depths(
    tuned: Tuned, place: int, generator: np.random.Generator
) -> tuple[tuple[str, int], ...]:
    """Two values of a setting, each with its best depth; empty if the best depth may be the
    same."""
    axis = tuned.drawn.axes[place]
    values = tuned.drawn.rows[:, place]
    values = values[~np.isnan(values)]
    tried: Array = np.unique(values) if axis.categories else np.quantile(values, ENDS)
    stacked = []
    for value in tried:
        points = tuned.points.copy()
        points[:, place] = value
        stacked.append(tuned.moved(points))
    count = len(tuned.depths)
    losses = tuned.surface.draws(
        np.concatenate(stacked), np.tile(tuned.depths, len(tried)), DRAWS, generator
    )
    best: Array = tuned.depths[losses.reshape(DRAWS, len(tried), count).argmin(axis=2)]
    means = best.mean(axis=0)
    low, high = int(means.argmin()), int(means.argmax())
    if (best[:, high] > best[:, low]).mean() < CERTAIN:
        return ()
    return tuple((axis.text(tried[i]), int(np.median(best[:, i]))) for i in sorted((low, high)))
