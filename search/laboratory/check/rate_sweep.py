"""Sweep of learning rates on one shape, by short trainings at rates a factor of 2 apart.

Rates are given as log2 factors: 0 is the study's own rate, 1 is twice that rate, -1 half of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from fathom.models.shape import Shape

REACH = 4
"""Largest log2 factor of a rate that is tried: x1/16 to x16 of the study's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """Losses of one shape at one learning rate."""

    log2_factor: int
    losses: tuple[float, ...]
    """Final held-out loss of each seed, in nats per token."""

    @property
    def loss(self) -> float:
        """Mean loss over the seeds."""
        return fmean(self.losses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Losses of one shape at all learning rates tried."""

    shape: Shape
    points: tuple[RatePoint, ...]
    """Points by log2 factor, without gaps."""

    @property
    def lowest(self) -> RatePoint:
        """The point with the lowest mean loss."""
        return min(self.points, key=lambda point: point.loss)

    @property
    def enclosed(self) -> bool:
        """True if the rates on both sides of the best one are worse."""
        return self.lowest not in (self.points[0], self.points[-1])

    @property
    def best_log2_factor(self) -> float:
        """Log2 factor at the lowest point of the parabola through the best rate and its neighbours.

        If the best rate is at an end of the sweep, this is that end; the true best lies at least as
        far.
        """
        if not self.enclosed:
            return float(self.lowest.log2_factor)
        left, middle, right = (point.loss for point in self._bracket)
        return self.lowest.log2_factor + (left - right) / (2 * (left - 2 * middle + right))

    @property
    def error(self) -> float:
        """Standard error of the best log2 factor, from the differences between seeds; 0 with one
        seed, or if the best rate is at an end."""
        seeds = len(self.lowest.losses)
        if seeds < 2 or not self.enclosed:
            return 0.0
        losses = [point.losses for point in self._bracket]
        left, middle, right = map(fmean, losses)
        # The difference of the sides decides where the parabola turns; two losses are in it.
        sides = math.sqrt(2 * noise_variance(losses) / seeds)
        return sides / (2 * (left - 2 * middle + right))

    @property
    def _bracket(self) -> tuple[RatePoint, RatePoint, RatePoint]:
        at = self.points.index(self.lowest)
        left, middle, right = self.points[at - 1 : at + 2]
        return left, middle, right


def sweep(shape: Shape, train_at: Callable[[int], RatePoint], *, centre: int) -> Sweep:
    """The sweep of a shape: starts at three neighbouring rates and goes downhill until the best one
    is enclosed."""
    points: dict[int, RatePoint] = {}
    waiting = [centre - 1, centre, centre + 1]
    while waiting:
        points |= {log2: train_at(log2) for log2 in waiting}
        found = Sweep(shape=shape, points=tuple(points[log2] for log2 in sorted(points)))
        waiting = [] if found.enclosed else _further(found)
    return found


def _further(found: Sweep) -> list[int]:
    edge = found.lowest.log2_factor
    further = edge - 1 if found.lowest == found.points[0] else edge + 1
    return [further] if abs(further) <= REACH else []


def noise_variance(losses: Sequence[Sequence[float]]) -> float:
    """Variance of the losses (rates, seeds) that the effects of rate and of seed do not explain."""
    of_seed = [fmean(column) for column in zip(*losses, strict=True)]
    residuals = [
        loss - fmean(row) - seed + fmean(of_seed)
        for row in losses
        for loss, seed in zip(row, of_seed, strict=True)
    ]
    return sum(r * r for r in residuals) / ((len(losses) - 1) * (len(of_seed) - 1))
