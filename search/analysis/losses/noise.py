"""The noise between seeds of a shape: its prior, and its estimate from repeats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

USUAL_NOISE = (0.006, 0.9)
"""Prior of the noise between seeds: its median, nats, and the standard deviation of its ln. Models
of 20k to 80k parameters showed 0.010 to 0.016, models of 100M 0.001 to 0.005."""
STATED_NOISE = 1000
"""Degrees of freedom of a noise that a person states, which is taken as known."""
SMALLEST_NOISE = 1e-6
"""Smallest noise, nats, so that weights stay finite when repeats are exactly equal."""
MOST_DECIMALS = 6
"""Decimals of losses from which on rounding does not matter."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Repeats of shapes with other seeds, from which the noise between seeds is estimated."""

    noise: float
    """Pooled standard deviation between the seeds of a shape, nats."""
    degrees_of_freedom: int
    """Degrees of freedom of `noise`; 0 where nothing was repeated."""

    @property
    def ln_noise(self) -> tuple[float, float]:
        """Posterior mean and standard deviation of ln noise, by the repeats and the prior."""
        prior, known = USUAL_NOISE[1] ** -2, 2.0 * self.degrees_of_freedom
        measured = log(max(self.noise, SMALLEST_NOISE))
        mean = (prior * log(USUAL_NOISE[0]) + known * measured) / (prior + known)
        return mean, 1 / sqrt(prior + known)

    @property
    def likely_noise(self) -> float:
        """The likeliest noise, nats, by the repeats and the prior, or as a person stated it."""
        return self.noise if self.degrees_of_freedom >= STATED_NOISE else exp(self.ln_noise[0])


def rounding_error(losses: Sequence[float]) -> float:
    """Returns the standard deviation of rounding, nats, by the decimals of the losses; repeats that
    look equal may differ by that much."""
    for decimals in range(MOST_DECIMALS):
        if all(round(loss, decimals) == loss for loss in losses):
            return float(10**-decimals / sqrt(12))
    return 0.0


UNKNOWN = Repeats(0.0, 0)
"""No repeats."""


def pooled(groups: Iterable[Sequence[float]]) -> Repeats:
    """Returns the noise between seeds, pooled over groups of losses, nats, that each differ only in
    the seed; unknown where no group has two losses."""
    squares, freedom = 0.0, 0
    for losses in groups:
        if len(losses) > 1:
            squares += float(np.var(losses)) * len(losses)
            freedom += len(losses) - 1
    return Repeats(sqrt(squares / freedom), freedom) if freedom else UNKNOWN
