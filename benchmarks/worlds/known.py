"""A budget all of whose learning curves are known, so that searching it trains nothing.

From a table of real curves, one budget for each class of sizes, or planted. Losses of a table are
those that its shapes would have at exactly one size, and what is searched are its shapes alone.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.random import Generator

from benchmarks.worlds.curve_tables import corrected, size_class
from benchmarks.worlds.planted import World
from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.formatting import format_count
from fathom.search.tables.grouped.sizes import WIDTH, size_classes, size_slope, sized_shape
from fathom.search.tables.runs import Array, Run

NOISE = 0.004
"""Nats between seeds, assumed where a table has one: single evaluations of the Gemstones models
scatter by 0.001 to 0.005 about their trend."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Every shape of one budget with the learning curves of its seeds."""

    title: str
    params: int
    tokens: Array
    """Tokens of the evaluations, ascending; the last is the horizon."""
    curves: Mapping[Shape, Array]
    """(seeds, evaluations) losses of each shape, by depth."""
    seconds_per_token: Mapping[Shape, float]
    truth: Mapping[int, float]
    """Depth -> loss of its best shape at the horizon."""
    blur: float
    """Largest difference between two depths, in nats, that the table can't distinguish from
    noise."""

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of the budget, by depth and width."""
        return tuple(sorted(self.curves, key=lambda shape: (shape.depth, shape.d_model)))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depths of the budget, ascending."""
        return tuple(sorted(self.truth))

    @property
    def seeds(self) -> int:
        """Number of seeds that every shape has: the minimum over shapes."""
        return min(len(seeds) for seeds in self.curves.values())

    @property
    def horizon(self) -> float:
        """Tokens of a trial that goes to the end."""
        return float(self.tokens[-1])

    @property
    def ladder_tokens(self) -> float:
        """Tokens of training every shape with every seed to the end."""
        return self.horizon * sum(len(seeds) for seeds in self.curves.values())

    @property
    def plateau(self) -> tuple[int, ...]:
        """Depths as good as the best, as far as the table can tell, and those between them."""
        close = [d for d in self.depths if self.regret(d) <= max(PLATEAU_WIDTH, self.blur)]
        return tuple(d for d in self.depths if close[0] <= d <= close[-1])

    def regret(self, depth: int) -> float:
        """Nats by which a depth's best shape ends above the best of all."""
        return self.truth[depth] - min(self.truth.values())

    def loss(self, shape: Shape, seed: int, tokens: float) -> float:
        """Returns the held-out loss after `tokens`; seeds that the table lacks repeat its own."""
        seeds = self.curves[shape]
        return float(np.interp(np.log(tokens), np.log(self.tokens), seeds[seed % len(seeds)]))


def known_budgets(runs: Sequence[Run], count: Count, width: float = WIDTH) -> list[Known]:
    """Returns one budget for each class of sizes, at the median size of the class."""
    return [_from_class(runs, some, count) for some in size_classes(runs, count, width)]


def _from_class(runs: Sequence[Run], members: Sequence[Run], count: Count) -> Known:
    some = size_class(members)
    slope, _ = size_slope(runs, some.runs, some.horizon, count)
    some = corrected(some, count, slope)
    size = int(np.median([run.params(count) for run in some.runs]))
    seeds: dict[Shape, list[Array]] = defaultdict(list)
    pace: dict[Shape, float] = {}
    for run, losses in zip(some.runs, some.losses, strict=True):
        shape = sized_shape(run, size, count)
        seeds[shape].append(losses)
        pace[shape] = run.seconds_per_step
    curves = {shape: np.array(found) for shape, found in seeds.items()}
    truth, blur = _truth(curves)
    return Known(
        title=f"{format_count(size)}, {len(curves)} shapes",
        params=size,
        tokens=some.tokens,
        curves=curves,
        seconds_per_token=pace,
        truth=truth,
        blur=blur,
    )


def _truth(curves: Mapping[Shape, Array]) -> tuple[dict[int, float], float]:
    """Loss of each depth's best shape, and the standard error of the difference of two shapes."""
    ends = {shape: losses[:, -1] for shape, losses in curves.items()}
    by_depth: dict[int, list[float]] = defaultdict(list)
    for shape, finals in ends.items():
        by_depth[shape.depth].append(float(finals.mean()))
    repeated = [finals for finals in ends.values() if len(finals) > 1]
    variance = (
        float(np.mean([finals.var(ddof=1) / len(finals) for finals in repeated]))
        if repeated
        else NOISE**2
    )
    return {depth: min(means) for depth, means in by_depth.items()}, sqrt(2 * variance)


def planted_budget(
    world: World, generator: Generator, *, depths: Sequence[int], ratios: Sequence[float],
    seeds: int, evaluations: int = 64,
) -> Known:  # fmt: skip
    """The known budget of a planted world, with some shapes and several seeds of each."""
    shares = np.arange(1, evaluations + 1) / evaluations
    curves: dict[Shape, Array] = {}
    for depth in depths:
        for ratio in ratios:
            shape = world.shape(depth, ratio)
            curves[shape] = np.array(
                [world.losses(shape, shares.tolist(), generator) for _ in range(seeds)]
            )
    truth: dict[int, float] = {}
    for shape in curves:
        expected = world.expected_loss(shape)
        truth[shape.depth] = min(expected, truth.get(shape.depth, expected))
    return Known(
        title="planted",
        params=world.budget,
        tokens=shares * world.horizon,
        curves=curves,
        seconds_per_token={shape: 1e-6 * shape.depth for shape in curves},
        truth=truth,
        blur=0.0,
    )
