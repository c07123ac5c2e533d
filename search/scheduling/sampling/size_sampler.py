"""The shapes of exploring trials of a budget whose size is free: first spread over sizes and
depths, then where the surface of the loss may be lowest.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Shape
from fathom.search.analysis.surface.surface import find_surface
from fathom.search.records import TrialRecord

SPREAD = 10
"""Number of shapes that are tried first: the corners of sizes and depths, and some between them."""
SAME_RATIO = 0.35
"""Difference of ln feed-forward ratios up to which two shapes can be compared."""
DRAWS = 64
"""Number of draws of the surface, of which one decides what is tried."""


class SizeSampler:
    """Draws the shapes of one budget; a draw depends only on its index and on earlier results."""

    def __init__(self, shapes: Sequence[Shape], *, trials: int, seed: int) -> None:
        self._shapes, self._seed, self.at_once = list(shapes), seed, min(SPREAD, trials // 2)

    def draw(self, index: int, visible: Sequence[TrialRecord]) -> Shape:
        """The shape of exploring trial `index`, from 0. `visible` has the trials before it, in
        order, with the results that may be used. The shape is the lowest cell of one draw of the
        surface through them (Thompson sampling, 1933)."""
        if index < self.at_once:
            return self.spread[index]
        generator = np.random.default_rng([self._seed, index])
        surface = find_surface(visible, generator, draws=DRAWS)
        tried = {record.spec.shape for record in visible}
        new = [shape for shape in self._comparable if shape not in tried] or self._comparable
        if surface is None:
            return new[int(generator.integers(len(new)))]
        cell = surface.best[int(generator.integers(DRAWS))]
        wanted = np.log([surface.size_at(surface.places[cell]), surface.depths[cell]])
        return new[int(_apart(_places(new), wanted).argmin())]

    @cached_property
    def spread(self) -> list[Shape]:
        """The first shapes: the middle one, then each time the shape furthest from those already
        chosen."""
        places = _places(self._comparable)
        chosen = [int(_apart(places, (places.min(axis=0) + places.max(axis=0)) / 2).argmin())]
        while len(chosen) < self.at_once:
            away = np.min([_apart(places, places[at]) for at in chosen], axis=0)
            chosen.append(int(away.argmax()))
        return [self._comparable[at] for at in chosen]

    @cached_property
    def _comparable(self) -> list[Shape]:
        """The shapes of about the usual ratio: one for each pair of size and depth that has such a
        shape."""
        ratio = float(np.exp(np.median([shape.ln_ff_ratio for shape in self._shapes])))
        return [shape for shape in self._shapes if shape.off_ratio(ratio) <= SAME_RATIO]


def _places(shapes: Sequence[Shape]) -> NDArray[np.float64]:
    """ln size and ln depth of each shape, (shapes, 2)."""
    return np.log([[shape.params_total, shape.depth] for shape in shapes])


def _apart(places: NDArray[np.float64], place: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of each of `places` from `place`, (shapes,); differences in ln size count half."""
    found: NDArray[np.float64] = np.hypot((places[:, 0] - place[0]) / 2, places[:, 1] - place[1])
    return found
