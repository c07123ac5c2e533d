"""Planted laws of loss over depth and tokens, whose answers at equal spending are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from benchmarks.worlds.planted import World, symmetric
from fathom.models.shape import Shape
from fathom.search.records import Stage, TrialRecord

DEPTHS = (2, 3, 4, 6, 8, 12)
COOLED = 0.15
"""Nats that a cool-down gains."""


@dataclass(frozen=True)
class Surface:
    """A planted loss: a curve over depth, and a fall with tokens; and the seconds of a token."""

    best: float = 5.0
    noise: float = 0.003
    fall: float = 0.2
    """Height of the loss above its floor at the horizon, nats."""
    seconds: Callable[[int], float] = lambda depth: 1e-6 * depth**0.5
    uneven: float = 0.0
    device: str = "one GPU"

    @property
    def world(self) -> World:
        return World(curve=symmetric(self.best, 0.06), noise=self.noise, params_slope=0.0)

    def final(self, depth: int, tokens: float) -> float:
        """Loss after a training of these tokens with its cool-down."""
        share = 0.8 * tokens / self.world.horizon
        return 1.6 + symmetric(self.best, 0.06)(depth) + self.fall / sqrt(share) - COOLED

    def record(self, shape: Shape, seed: int, generator: np.random.Generator) -> TrialRecord:
        """A whole training: losses at a constant rate, and lower ones in the cool-down."""
        world, off = self.world, float(generator.normal(0, self.noise))
        record = world.record(world.spec(shape, seed=seed, stage=Stage.CONFIRM), generator)
        token = self.seconds(shape.depth) * float(np.exp(generator.normal(0, self.uneven)))
        curve = tuple(
            replace(
                point, loss=self._loss(shape.depth, point.tokens / world.horizon) + off,
                train_seconds=token * point.tokens,
            )
            for point in record.curve
        )  # fmt: skip
        return replace(record, curve=curve, device=self.device, rungs={})

    def _loss(self, depth: int, share: float) -> float:
        whole = 1.6 + symmetric(self.best, 0.06)(depth)
        if share <= 0.8:
            return whole + self.fall / sqrt(share)
        return whole + self.fall / sqrt(0.8) - COOLED * (share - 0.8) / 0.2

    def records(
        self, depths: Sequence[int] = DEPTHS, *, seed: int = 0, seeds: int = 3
    ) -> list[TrialRecord]:
        generator = np.random.default_rng(seed)
        shapes = [self.world.shape(depth) for depth in depths]
        return [
            self.record(shape, number, generator) for shape in shapes for number in range(seeds)
        ]

    def best_at_equal(self, price: Callable[[int], float]) -> int:
        """The depth with the lowest planted loss where each spends what the cheapest spends."""
        least = min(map(price, DEPTHS))
        depths = range(DEPTHS[0], DEPTHS[-1] + 1)
        tokens = {depth: self.world.horizon * least / price(depth) for depth in depths}
        return min(depths, key=lambda depth: self.final(depth, tokens[depth]))

    def flops(self, depth: int) -> float:
        return self.world.shape(depth).train_flops_per_token
