"""The best loss of a search with its interval, and the difference of those of two searches.

The best of several depths is the luckiest of them too. So the interval holds for the lowest of the
true losses: each depth has its own, wide enough for all of them to hold together (Bonferroni), and
the lowest of their ends are the interval's.
"""

from dataclasses import dataclass
from math import hypot

from scipy.special import stdtrit

from fathom.search.analysis.depth_estimates import KNOWN_NOISE, DepthEstimates


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLoss:
    """The lowest loss over the trained depths of a budget, nats, with an interval."""

    depth: int
    loss: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDifference:
    """One best loss minus another, nats, with an interval."""

    difference: float
    low: float
    high: float

    @property
    def is_settled(self) -> bool:
        """True if the interval does not hold 0."""
        return self.low > 0 or self.high < 0


def best_loss(estimates: DepthEstimates, *, confidence: float = 0.95) -> BestLoss | None:
    """The best loss of a budget; None without a whole training."""
    depths = estimates.depths
    if not depths:
        return None
    freedom = max(estimates.degrees_of_freedom, KNOWN_NOISE)
    errors = float(stdtrit(freedom, 1 - (1 - confidence) / (2 * len(depths))))
    best = min(depths, key=lambda estimate: estimate.loss)
    return BestLoss(
        depth=best.depth,
        loss=best.loss,
        low=min(estimate.loss - errors * estimate.standard_error for estimate in depths),
        high=min(estimate.loss + errors * estimate.standard_error for estimate in depths),
    )


def loss_difference(first: BestLoss, other: BestLoss) -> LossDifference:
    """The difference of two best losses of independent searches, from their own intervals (the
    method of variance estimates recovery, Zou & Donner 2008)."""
    difference = first.loss - other.loss
    return LossDifference(
        difference=difference,
        low=difference - hypot(first.loss - first.low, other.high - other.loss),
        high=difference + hypot(first.high - first.loss, other.loss - other.low),
    )
