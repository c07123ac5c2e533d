"""Planted losses over size and depth, of models that all spend the same amount."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np
from numpy.random import Generator

from fathom.models.shape import Shape
from fathom.search.records import TrialSpec, derive_seed

MIDDLE = 90_000
"""About the middle of the planted sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedSurface:
    """The loss of every size, depth and ratio at one amount; a `Loss` of a simulated search."""

    size: float
    """Parameters of the lowest point."""
    depth: float
    """Depth of the lowest point."""
    by_size: float = 0.04
    """Nats for each squared unit of ln size."""
    by_depth: float = 0.04
    """Nats for each squared unit of ln depth."""
    crossed: float = 0.0
    """Nats for each unit of ln size times ln depth: below 0 a ridge of deeper, larger models."""
    skewed: float = 0.15
    """Share by which a unit of ln size, and of ln depth, makes a side gentler."""
    by_ratio: float = 0.01
    """Nats for each squared unit of ln(ratio / 4)."""
    ratio_by_size: float = 0.0
    """Nats for each unit of ln(ratio / 4) times ln size."""
    noise: float = 0.004
    """Standard deviation between seeds, nats."""
    seed: int = 0
    luck: dict[str, float] = field(default_factory=dict)
    """Trial -> what its seed adds, nats."""

    def final(self, shape: Shape) -> float:
        """The loss of a shape at the horizon, before the noise of a seed, nats."""
        u, v = log(shape.params_total / self.size), log(shape.depth / self.depth)
        r = log(max(shape.ff_ratio, 0.1) / 4)
        side = self.by_size * u * u * (1 - self.skewed * u)
        side += self.by_depth * v * v * (1 - self.skewed * v)
        ratio = (self.by_ratio * r + self.ratio_by_size * u) * r
        return float(2 + side + self.crossed * u * v + ratio)

    def __call__(self, spec: TrialSpec, share: float) -> float:
        """The loss of a trial at a share of its spend: larger models fall later."""
        if spec.trial not in self.luck:
            generator = np.random.default_rng(derive_seed(self.seed, "planted", spec.trial))
            self.luck[spec.trial] = self.noise * float(generator.standard_normal())
        lag = 0.25 + 0.02 * log(spec.shape.depth)
        lag *= float((spec.shape.params_total / MIDDLE) ** 0.3)
        left = float(share**-0.35 - 1)
        return self.final(spec.shape) + self.luck[spec.trial] + lag * left

    def best(self, shapes: Sequence[Shape]) -> Shape:
        """The shape with the lowest loss."""
        return min(shapes, key=self.final)


def _inside(generator: Generator, **changes: Any) -> PlantedSurface:
    """A surface whose lowest point lies inside the sizes and depths that are searched."""
    drawn: dict[str, Any] = {
        "size": MIDDLE * float(np.exp(generator.uniform(-0.5, 0.5))),
        "depth": 4 * float(np.exp(generator.uniform(-0.5, 0.5))),
        "by_size": generator.uniform(0.02, 0.06),
        "by_depth": generator.uniform(0.015, 0.06),
    }
    surface = PlantedSurface(size=MIDDLE, depth=4, seed=int(generator.integers(2**31)))
    return replace(surface, **{**drawn, **changes})


SURFACES: dict[str, Callable[[Generator], PlantedSurface]] = {
    "a bowl": _inside,
    "a ridge of one aspect ratio": lambda generator: _inside(
        generator, by_size=0.03, by_depth=0.06, crossed=-0.04
    ),
    "best beyond the largest size": lambda generator: _inside(generator, size=5 * MIDDLE),
    "flat in depth": lambda generator: _inside(generator, by_depth=0.0),
    "best ratio differs by size": lambda generator: _inside(generator, ratio_by_size=0.02),
}
"""Kinds of surfaces, each drawn anew."""
