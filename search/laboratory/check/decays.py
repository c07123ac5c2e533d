"""Comparison of weight decays on a shallow and a deep shape, where a study's trainings repeat their
data."""

import math
from dataclasses import dataclass
from statistics import fmean

from fathom.models.shape import Shape
from fathom.objectives.contract import Batch
from fathom.objectives.wrapped import Wrapped
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.laboratory.check.rate_sweep import noise_variance

MULTIPLES = (0.25, 1.0, 4.0)
"""Multiples of the study's weight decay that are compared."""
BESIDE_NONE = (0.0, 0.1)
"""Decays that are compared for a study without weight decay: none, and the usual one."""
CERTAIN = 2
"""Standard errors above which a difference between decays counts."""


def decays_to_compare(own: float) -> tuple[float, ...]:
    """The weight decays to compare for a study whose decay is `own`, ascending."""
    return tuple(own * multiple for multiple in MULTIPLES) if own else BESIDE_NONE


@dataclass(frozen=True)
class Repeated(Wrapped):
    """An objective that repeats its first batches, so that a short training repeats its data as
    often as a long one."""

    steps: int
    """Number of steps after which the batches repeat."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """The training batch of the step, modulo `steps`."""
        return self.objective.batch(seed=seed, step=step % self.steps, batch_size=batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayPoint:
    """Losses of one shape at one weight decay."""

    decay: float
    """Decay in the units of `train.weight_decay`."""
    losses: tuple[float, ...]
    """Final held-out loss of each seed, nats."""

    @property
    def loss(self) -> float:
        """Mean loss over the seeds."""
        return fmean(self.losses)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecaySweep:
    """Losses of one shape at each decay, at the best learning rate of the shape."""

    shape: Shape
    points: tuple[DecayPoint, ...]

    @property
    def best(self) -> DecayPoint:
        """The point of the lowest mean loss."""
        return min(self.points, key=lambda point: point.loss)

    def cost(self, decay: float) -> float:
        """Loss at a decay minus the loss at the best decay, nats."""
        (point,) = (point for point in self.points if point.decay == decay)
        return point.loss - self.best.loss


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayCheck:
    """Comparison of weight decays on a shallow and a deep shape."""

    own: float
    """The study's decay."""
    epochs: float
    """Least number of epochs of the study's longest training."""
    shallow: DecaySweep
    deep: DecaySweep
    guess: float
    """Loss of an untrained guess, nats."""

    @property
    def sweeps(self) -> tuple[DecaySweep, DecaySweep]:
        """Both shapes' losses."""
        return self.shallow, self.deep

    @property
    def learnt(self) -> bool:
        """True if both shapes are better than a guess at some decay; otherwise decays can't be
        compared."""
        return all(sweep.best.loss < self.guess for sweep in self.sweeps)

    @property
    def decays(self) -> tuple[float, ...]:
        """The decays compared, ascending."""
        return tuple(point.decay for point in self.shallow.points)

    @property
    def common(self) -> float:
        """The decay with the lowest `cost`."""
        return min(self.decays, key=self.cost)

    def cost(self, decay: float) -> float:
        """Loss at a decay minus the loss at the shape's best decay, nats, for the shape where it is
        greater."""
        return max(self.shallow.cost(decay), self.deep.cost(decay))

    @property
    def error(self) -> float:
        """Standard error of the difference in loss between two decays, nats; 0 with one seed."""
        seeds = len(self.shallow.points[0].losses)
        if seeds < 2:
            return 0.0
        variances = [
            noise_variance([point.losses for point in sweep.points]) for sweep in self.sweeps
        ]
        return math.sqrt(2 * fmean(variances) / seeds)

    @property
    def one_suits_both(self) -> bool:
        """True if the best common decay costs neither shape a loss that matters."""
        return self.learnt and not self._counts(self.common)

    @property
    def own_suits_both(self) -> bool:
        """True if the study's own decay costs neither shape a loss that matters."""
        return self.learnt and not self._counts(self.own)

    def _counts(self, decay: float) -> bool:
        return self.cost(decay) > max(PLATEAU_WIDTH, CERTAIN * self.error)
