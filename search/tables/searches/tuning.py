"""Depths at the settings that suit each best, by the model of a table of a search."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fathom.search.tables.searches.axes import SIZE, Drawn
from fathom.search.tables.searches.surface import Array, Surface, Terms, fit_surface

STARTS = 3
"""Settings from which the best are looked for: those of the runs that are expected to be lowest."""
SWEEPS = 3
"""Times that each setting is set to its best value."""
NEAR = 1.15
"""Factor between depths whose runs show which sizes a depth can have. With 1.4, a search by TPE
was continued to shallow models of sizes that none had, which it called as good as the best."""
CANDIDATES = 24
"""Most depths whose best settings are tried at every depth."""
DRAWS = 2000
ROWS = 100
"""Runs over whose settings the effect of depth is averaged."""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The whole depths between the shallowest and the deepest, each at its best settings."""

    drawn: Drawn
    surface: Surface
    depths: NDArray[np.int64]
    size: float | None
    """Parameters that all depths have; None if the size is chosen as a setting is."""

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
        """Points moved to each of the depths, with a size that runs of that depth had."""
        points = points.copy()
        axis = self.drawn.axes[0]
        points[:, 0] = [axis.place(str(depth)) for depth in self.depths]
        place = self.drawn.at(SIZE)
        if place is not None:
            points[:, place] = np.clip(points[:, place], *self.sizes.T)
        return points

    @cached_property
    def sizes(self) -> Array:
        """The lowest and the highest place of the sizes that each depth can have, (depths, 2)."""
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
        loss over all settings that are best for some depth.

        Where no run had such settings, the level is the expected loss of the best run: only
        differences between depths go beyond what was measured.
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
        """Expected loss of each depth over the settings of all runs, (depths,), nats."""
        rows = self.drawn.rows[:: -(-len(self.drawn.rows) // ROWS)]
        points = np.concatenate([self.moved(np.tile(row, (len(self.depths), 1))) for row in rows])
        expected = self.surface.expected(points, np.tile(self.depths, len(rows)))
        return self.surface.warp.back(expected.reshape(len(rows), -1).mean(axis=0))

    def _expected(self, points: Array) -> Array:
        return self.surface.expected(points, self.depths.astype(np.float64))

    def _descend(self, points: Array) -> Array:
        """The settings with the lowest expected loss, from these on, one setting after another."""
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
    """Every whole depth at its best settings, of `size` parameters or at its best size."""
    depths = np.arange(drawn.tested[0], drawn.tested[-1] + 1)
    terms = Terms(categories=[len(axis.categories) for axis in drawn.axes], depths=depths)
    surface = fit_surface(terms, drawn.rows, drawn.depths, drawn.losses)
    return Tuned(drawn=drawn, surface=surface, depths=depths, size=size)
