"""The next trainings of a budget: the depths at which they narrow the interval most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.linalg import block_diag

from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.curve_fit import draw, fit, points_of
from fathom.search.analysis.depth_estimates import KNOWN_NOISE, DepthEstimates

WORTH = 0.05
"""Share of its width by which a training must be expected to narrow the interval."""
DRAWS = 400
"""Bootstrap draws of a width: enough to compare candidates, which share their random numbers."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The points of a budget and what is known of their noise."""

    points: DepthPoints
    trials: Mapping[int, int]
    """Depth -> number of trainings."""
    noise: float
    freedom: int

    def with_one_more(self, depth: int) -> "Knowledge":
        """What is known after one more training at a depth, whose loss falls on the curve."""
        trials = {**self.trials, depth: self.trials.get(depth, 0) + 1}
        if depth in self.trials:
            points, freedom = self._repeated(depth), self.freedom + 1
        else:
            points, freedom = self._added(depth), self.freedom
        return Knowledge(points, trials, self.noise, freedom)

    def _repeated(self, depth: int) -> DepthPoints:
        place, trials = self.points.depths.tolist().index(depth), self.trials[depth]
        covariance = self.points.covariance.copy()
        covariance[place, place] -= self.noise**2 * (1 / trials - 1 / (trials + 1))
        return replace(self.points, covariance=covariance)

    def _added(self, depth: int) -> DepthPoints:
        variance = np.array([[self.noise**2]])
        both = DepthPoints(
            depths=np.append(self.points.depths, depth),
            losses=np.append(self.points.losses, fit(self.points).loss_at(depth)),
            covariance=block_diag(self.points.covariance, variance),
        )
        return both.at(np.argsort(both.depths))

    @property
    def width(self) -> float:
        """Width of the interval of the best depth, in ln depth."""
        drawn = draw(
            fit(self.points),
            np.random.default_rng(0),
            draws=DRAWS,
            degrees_of_freedom=max(self.freedom, KNOWN_NOISE),
        )
        low, high = drawn.interval
        return log(high / low)


def most_telling(estimates: DepthEstimates, candidates: Sequence[int]) -> int | None:
    """The candidate depth whose training narrows the interval most; None where no curve can be
    fitted or no training is worth it.

    A depth that was trained gets another seed.
    """
    known = Knowledge(
        points_of(estimates),
        {own.depth: own.trials for own in estimates.depths},
        estimates.noise,
        estimates.degrees_of_freedom,
    )
    if len(known.points.depths) < 3 or not candidates:
        return None
    widths = {depth: known.with_one_more(depth).width for depth in candidates}
    best = min(candidates, key=lambda depth: widths[depth])
    return best if widths[best] <= (1 - WORTH) * known.width else None
