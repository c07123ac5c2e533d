"""The choice of a depth where it is served: losses and times together, and limits.

Losses come from the posterior, so that a difference between two depths has its whole distribution.
They are not added to times: the choice is the fastest depth among those that cost next to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.search.analysis.posterior import Posterior
from fathom.search.analysis.verdict import PLATEAU_WIDTH

SURE = 0.95
"""Probability of costing at most `PLATEAU_WIDTH` from which on a depth may be named the fastest
that is as good."""
ERRORS = 1.645
"""Standard errors by which a time must lie below its limit: it is met with a probability of 95 %.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDepth:
    """What a depth takes to answer."""

    depth: int
    token_seconds: float
    token_error: float
    """Standard error of `token_seconds`; likewise below."""
    prefill_seconds: float
    prefill_error: float
    weight_bytes: int
    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer may take at most; infinite without a limit."""

    token_seconds: float = float("inf")
    prefill_seconds: float = float("inf")
    weight_bytes: float = float("inf")
    cache_bytes: float = float("inf")

    def met_by(self, served: ServedDepth) -> bool:
        """True if the depth takes no more, times with a probability of 95 %."""
        return (
            served.token_seconds + ERRORS * served.token_error <= self.token_seconds
            and served.prefill_seconds + ERRORS * served.prefill_error <= self.prefill_seconds
            and served.weight_bytes <= self.weight_bytes
            and served.cache_bytes <= self.cache_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDepth:
    """A depth that meets the limits, with what it costs against the best of these."""

    served: ServedDepth
    cost: float
    """Expected nats above the best depth on offer."""
    cost_interval: tuple[float, float]
    """95 % interval of the difference, nats."""
    as_good: float
    """Probability of costing at most `PLATEAU_WIDTH`."""
    on_front: bool
    """True if every faster depth is expected to have a higher loss."""

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.served.depth


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingChoice:
    """The depths that meet the limits, and the two that are named."""

    offered: tuple[OfferedDepth, ...]
    """By ascending depth."""
    best: int | None
    """The depth with the lowest expected loss; None if none meets the limits."""
    fastest: int | None
    """The fastest depth that costs at most `PLATEAU_WIDTH` with a probability of 95 %; None where
    the losses are too uncertain to name one."""


def choose_served(
    posterior: Posterior, served: Sequence[ServedDepth], limits: Limits = Limits()
) -> ServingChoice:
    """Returns the choice among depths that lie in the range of the posterior."""
    allowed = sorted((s for s in served if limits.met_by(s)), key=lambda each: each.depth)
    if not allowed:
        return ServingChoice(offered=(), best=None, fastest=None)
    losses = posterior.losses[:, [each.depth - int(posterior.depths[0]) for each in allowed]]
    costs = losses - losses.min(axis=1, keepdims=True)
    expected = costs.mean(axis=0)
    best = allowed[int(expected.argmin())].depth
    ends = np.quantile(losses - losses[:, [int(expected.argmin())]], [0.025, 0.975], axis=0)
    as_good = (costs <= PLATEAU_WIDTH).mean(axis=0)
    times = np.array([each.token_seconds for each in allowed])
    offered = tuple(
        OfferedDepth(
            served=each,
            cost=float(expected[i]),
            cost_interval=(float(ends[0, i]), float(ends[1, i])),
            as_good=float(as_good[i]),
            on_front=bool(expected[i] <= expected[times <= times[i]].min()),
        )
        for i, each in enumerate(allowed)
    )
    good = [each for each in offered if each.as_good >= SURE]
    fastest = min(good, key=lambda each: each.served.token_seconds, default=None)
    return ServingChoice(offered=offered, best=best, fastest=fastest.depth if fastest else None)
