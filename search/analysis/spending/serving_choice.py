"""Chooses a depth for serving by its loss, its times and memory, and limits on these.

Losses are draws of the posterior, and times have standard errors. In a draw of both, a depth is as
good as the best if it meets the limits, and its loss is within `PLATEAU_WIDTH` of the best depth
that meets them. Losses and times are never added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import ndtr

from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.curve_families import Array

SURE = 0.95
"""Probability from which on something counts as certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDepth:
    """Time and memory that a model of one depth takes to answer."""

    depth: int
    token_seconds: float
    token_error: float
    """Standard error of `token_seconds`; `prefill_error` is that of `prefill_seconds`."""
    prefill_seconds: float
    prefill_error: float
    weight_bytes: int
    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper limits on time and memory of an answer; infinite without a limit."""

    token_seconds: float = inf
    prefill_seconds: float = inf
    weight_bytes: float = inf
    cache_bytes: float = inf

    def chance(self, served: ServedDepth) -> float:
        """Probability that a depth meets these limits; bytes have no error."""
        if served.weight_bytes > self.weight_bytes or served.cache_bytes > self.cache_bytes:
            return 0.0
        token = _chance(served.token_seconds, served.token_error, self.token_seconds)
        return token * _chance(served.prefill_seconds, served.prefill_error, self.prefill_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDepth:
    """A depth that surely meets the limits, with its cost compared with the best such depth."""

    served: ServedDepth
    cost: float
    """Expected loss, nats, above that of the best offered depth."""
    cost_interval: tuple[float, float]
    """95 % interval of `cost`, nats."""
    as_good: float
    """Probability that the depth meets the limits and costs at most `PLATEAU_WIDTH` more than the
    best depth that meets them, offered or not."""
    on_front: bool
    """True if every faster depth is expected to have a higher loss."""

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.served.depth

    @property
    def is_surely_as_good(self) -> bool:
        """True if `as_good` is at least `SURE`, so that the depth may be recommended."""
        return self.as_good >= SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingChoice:
    """The depths that meet the limits, the best of them, and the fastest that is as good."""

    offered: tuple[OfferedDepth, ...] = ()
    """Depths that meet the limits with a probability of `SURE`, by ascending depth."""
    unsure: tuple[int, ...] = ()
    """Depths whose times are too uncertain to say whether they meet the limits. Depths in neither
    `offered` nor `unsure` surely exceed a limit."""
    best: int | None = None
    """The offered depth with the lowest expected loss; None if no depth is offered."""
    best_is_sure: bool = False
    """True if `best` is, with a probability of `SURE`, as good as the best depth that meets the
    limits."""
    fastest: int | None = None
    """The fastest depth that is surely as good as the best one; None where losses or times are too
    uncertain to name one."""


def choose_served(
    posterior: Posterior, served: Sequence[ServedDepth], limits: Limits = Limits()
) -> ServingChoice:
    """Returns the choice among the depths `served`, which must be in the range of the posterior."""
    served = sorted(served, key=lambda each: each.depth)
    chances = np.array([limits.chance(each) for each in served])
    unsure = tuple(
        each.depth
        for each, chance in zip(served, chances.tolist(), strict=True)
        if 1 - SURE < chance < SURE
    )
    losses = posterior.losses[:, [posterior.at(each.depth) for each in served]]
    offered = _offered(served, chances, losses)
    if not offered:
        return ServingChoice(unsure=unsure)
    best = min(offered, key=lambda each: each.cost)
    named = [each for each in offered if each.is_surely_as_good]
    fastest = min(named, key=lambda each: each.served.token_seconds, default=None)
    return ServingChoice(
        offered=offered,
        unsure=unsure,
        best=best.depth,
        best_is_sure=best.is_surely_as_good,
        fastest=fastest.depth if fastest else None,
    )


def _offered(
    served: Sequence[ServedDepth], chances: Array, losses: Array
) -> tuple[OfferedDepth, ...]:
    """The depths that surely meet the limits. `chances` are probabilities of meeting them,
    (depths,); `losses` are draws, (draws, depths)."""
    places = np.flatnonzero(chances >= SURE).tolist()
    if not places:
        return ()
    as_good, expected = _as_good(chances, losses), losses.mean(axis=0)
    best = min(places, key=lambda place: float(expected[place]))
    ends = np.quantile(losses - losses[:, [best]], [0.025, 0.975], axis=0)
    times = np.array([each.token_seconds for each in served])
    return tuple(
        OfferedDepth(
            served=served[i],
            cost=float(expected[i] - expected[best]),
            cost_interval=(float(ends[0, i]), float(ends[1, i])),
            as_good=float(as_good[i]),
            on_front=bool(expected[i] <= min(expected[j] for j in places if times[j] <= times[i])),
        )
        for i in places
    )


def _as_good(chances: Array, losses: Array) -> Array:
    """Probability that each depth meets the limits and costs at most `PLATEAU_WIDTH` more than the
    best depth that meets them, (depths,)."""
    met = np.random.default_rng(0).random(losses.shape) < chances
    lowest = np.where(met, losses, inf).min(axis=1, keepdims=True)
    as_good: Array = (met & (losses <= lowest + PLATEAU_WIDTH)).mean(axis=0)
    return as_good


def _chance(seconds: float, error: float, limit: float) -> float:
    """Probability that a time with a standard error is at most a limit."""
    if error == 0 or limit == inf:
        return float(seconds <= limit)
    return float(ndtr((limit - seconds) / error))
