"""The best settings of each depth, by the model of the loss of a search's table."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fathom.search.tables.searches.axes import SIZE, Drawn
from fathom.search.tables.searches.surface import Array, Surface, Terms, fit_surface

STARTS = 3
"""Number of starting points of the search for the best settings: runs with the lowest expected
loss."""
SWEEPS = 3
"""Rounds in which each setting in turn is set to its best value."""
NEAR = 1.15
"""Factor between depths within which the sizes of runs count as possible for a depth. With 1.4, the
table of a TPE search was extrapolated to shallow models of sizes that no run had, as if these were
as good as the best."""
CANDIDATES = 24
"""Largest number of depths whose best settings are tried at every other depth."""
DRAWS = 2000
ROWS = 100
"""About how many runs' settings the effect of depth is averaged over."""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The whole depths between the shallowest and the deepest, each at its best settings."""

    drawn: Drawn
    surface: Surface
    depths: NDArray[np.int64]
    size: float | None
    """Parameters that all depths have; None if each depth has its best size."""

    @cached_property
    def points(self) -> Array:
        """The best settings of each depth, (depths, axes)."""
        expected = self.surface.expected(self.drawn.rows, self.drawn.depths)
        starts = self.drawn.rows[np.argsort(expected, kind="stable")[:STARTS]]
        found = [self._descend(np.tile(start, (len(self.depths), 1))) for start in starts]
        best = np.argmin([self._expected(points) for points in found], axis=0)
        points: Array = np.stack(found)[best, np.arange(len(self.depths))]
        return points

    def moved(self, points: Array) -> Array:
        """The points with each depth in turn, and with sizes limited to those that runs of that
        depth had."""
        points = points.copy()
        axis = self.drawn.axes[0]
        points[:, 0] = [axis.place(str(depth)) for depth in self.depths]
        place = self.drawn.at(SIZE)
        if place is not None:
            points[:, place] = np.clip(points[:, place], *self.sizes.T)
        return points

    @cached_property
    def sizes(self) -> Array:
        """The lowest and highest position on the axis of size that each depth may have, (depths,
        2)."""
        place, drawn = self.drawn.at(SIZE), self.drawn
        if place is None:
            return np.zeros((len(self.depths), 2))
        if self.size is not None:
            return np.full((len(self.depths), 2), drawn.axes[place].place(f"{self.size:g}"))
        found = []
        for depth in self.depths:
            off = np.abs(np.log(drawn.depths / depth))
            near = off <= max(np.log(NEAR), off.min())
            found.append((drawn.rows[near, place].min(), drawn.rows[near, place].max()))
        return np.array(found)

    def losses(self, generator: np.random.Generator) -> Array:
        """Draws of the loss of each depth at its best settings, (draws, depths), nats: the lowest
        loss over all settings that are best at some depth.

        All losses are raised until the lowest mean is at least the lowest expected loss of a run,
        so that only differences between depths are extrapolated.
        """
        every = -(-len(self.depths) // CANDIDATES)
        tried = [self.moved(np.tile(p, (len(self.depths), 1))) for p in self.points[::every]]
        stacked = np.concatenate([self.points, *tried])
        depths = np.tile(self.depths, len(tried) + 1)
        drawn = self.surface.draws(stacked, depths, DRAWS, generator)
        lowest: Array = drawn.reshape(DRAWS, -1, len(self.depths)).min(axis=1)
        rows = self.surface.expected(self.drawn.rows, self.drawn.depths)
        level = float(self.surface.warp.back(rows).min()) - float(lowest.mean(axis=0).min())
        return lowest + max(0.0, level)

    @cached_property
    def averaged(self) -> Array:
        """Expected loss of each depth, averaged over the settings of the runs, (depths,), nats."""
        rows = self.drawn.rows[:: -(-len(self.drawn.rows) // ROWS)]
        points = np.concatenate([self.moved(np.tile(row, (len(self.depths), 1))) for row in rows])
        expected = self.surface.expected(points, np.tile(self.depths, len(rows)))
        return self.surface.warp.back(expected.reshape(len(rows), -1).mean(axis=0))

    def _expected(self, points: Array) -> Array:
        return self.surface.expected(points, self.depths.astype(np.float64))

    def _descend(self, points: Array) -> Array:
        """The settings with the lowest expected loss, found from `points` by improving one setting
        after another."""
        points = self.moved(points)
        for _ in range(SWEEPS):
            for axis in range(1, len(self.drawn.axes)):
                grid = self.drawn.grid(axis)
                tried = np.repeat(points[:, None], len(grid), axis=1)
                tried[:, :, axis] = grid
                if axis == self.drawn.at(SIZE):
                    tried[:, :, axis] = np.clip(grid, *(end[:, None] for end in self.sizes.T))
                expected = self.surface.expected(
                    tried.reshape(-1, points.shape[1]), np.repeat(self.depths, len(grid))
                )
                best = expected.reshape(len(points), -1).argmin(axis=1)
                points = tried[np.arange(len(points)), best]
        return points


def tune(drawn: Drawn, size: float | None = None) -> Tuned:
    """Every whole depth at its best settings, with `size` parameters or, if None, at its best
    size."""
    depths = np.arange(drawn.tested[0], drawn.tested[-1] + 1)
    terms = Terms(categories=[len(axis.categories) for axis in drawn.axes], depths=depths)
    surface = fit_surface(terms, drawn.rows, drawn.depths, drawn.losses)
    return Tuned(drawn=drawn, surface=surface, depths=depths, size=size)
