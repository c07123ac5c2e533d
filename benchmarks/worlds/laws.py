"""Worlds in which loss, and with it the best depth, follows a known law of parameters and tokens.

    loss = E + A N^-alpha + B D^-beta + k (ln depth - ln best)^2,  ln best = a + b ln N + c ln D

and tables of runs from them: shapes of several depths, sizes, horizons and seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.random import Generator

from fathom.models.spend import Coin
from fathom.search.tables.runs import Run, Runs

MIDDLE = (10_000_000, 200_000_000)
"""Parameters and tokens at which a world's best depth is drawn."""
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
WIDTHS = 12
"""Parameters of a layer over the square of its width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawWorld:
    """A known law of loss and of the best depth, and the noise between seeds."""

    floor: float
    size: tuple[float, float]
    """A and alpha."""
    data: tuple[float, float]
    """B and beta."""
    curvature: float
    depth: tuple[float, float, float]
    """a, b and c."""
    noise: float
    """Standard deviation of a loss between seeds, nats."""
    shared: float
    """Part of the variance of the noise that a training has at every horizon."""

    def best_depth(self, params: float, tokens: float) -> float:
        """The best depth of a size after some tokens."""
        a, b, c = self.depth
        return exp(a + b * log(params) + c * log(tokens))

    def lowest_loss(self, params: float, tokens: float) -> float:
        """The loss at the best depth."""
        (a, alpha), (b, beta) = self.size, self.data
        return float(self.floor + a * params**-alpha + b * tokens**-beta)

    def loss(self, params: float, tokens: float, depth: float) -> float:
        """The loss without noise."""
        missed = log(depth / self.best_depth(params, tokens))
        return self.lowest_loss(params, tokens) + self.curvature * missed**2


def draw_world(generator: Generator, *, shared: float = 0.0) -> LawWorld:
    """A world whose constants lie about those that people have published."""
    alpha, beta = generator.uniform(0.25, 0.45, 2).tolist()
    b, c = generator.uniform(0.1, 0.35), generator.uniform(0.0, 0.3)
    middle = generator.uniform(log(5), log(14))
    at_size, at_data = generator.uniform(0.3, 0.9, 2).tolist()
    return LawWorld(
        floor=generator.uniform(1.5, 2.0),
        size=(at_size * MIDDLE[0] ** alpha, alpha),
        data=(at_data * MIDDLE[1] ** beta, beta),
        curvature=exp(generator.uniform(log(0.03), log(0.15))),
        depth=(middle - b * log(MIDDLE[0]) - c * log(MIDDLE[1]), b, c),
        noise=exp(generator.uniform(log(0.002), log(0.008))),
        shared=shared,
    )


def table_of(
    world: LawWorld, generator: Generator, sizes: Sequence[int], ratios: Sequence[float], seeds: int
) -> Runs:
    """The runs of a ladder: every depth of a size within a factor of four of its best depths, at
    each of several tokens a parameter."""
    runs = tuple(_runs(world, generator, sizes, ratios, seeds))
    return Runs(runs=runs, coin=Coin.TOKENS, notes=())


def _runs(
    world: LawWorld, generator: Generator, sizes: Sequence[int], ratios: Sequence[float], seeds: int
) -> Iterator[Run]:
    for params in sizes:
        tokens = [ratio * params for ratio in ratios]
        ends = [world.best_depth(params, at) for at in (tokens[0], tokens[-1])]
        for depth in DEPTHS:
            if not min(ends) / 4 <= depth <= max(ends) * 4:
                continue
            for seed in range(seeds):
                noise = sqrt(world.shared) * generator.standard_normal() + sqrt(
                    1 - world.shared
                ) * generator.standard_normal(len(tokens))
                losses = [world.loss(params, at, depth) for at in tokens]
                yield Run(
                    d_model=round(sqrt(params / WIDTHS / depth)),
                    depth=depth,
                    d_ff=None,
                    seed=seed,
                    params_total=params,
                    params_non_embedding=params,
                    seconds_per_step=0.0,
                    tokens=np.array(tokens),
                    losses=np.array(losses) + world.noise * noise,
                )
