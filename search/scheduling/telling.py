"""The next trials of a budget: those from which its answer is expected to gain most."""

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.curve.curve_fit import fit
from fathom.search.analysis.curve.posterior import FEWEST, Posterior, find_posterior
from fathom.search.analysis.curve_families import Array

WORTH = 0.05
"""Share of the doubt's variance that a trial must be expected to remove."""
LIKELY = 0.05
"""A depth may be the best if the other depths alone give that more than this probability."""
UNUSUAL = 0.025
"""A trial may have stalled if the other depths alone give its loss, or a higher one, less than this
probability."""
NEAR = 0.03
"""Nats above the best loss within which a depth off the curve leaves the best depth in doubt."""
NARROW = 0.24
"""Width of an interval, in ln depth, below which no more trials follow: about a quarter of the
depth itself."""
DRAWS_WITHOUT = 500
"""Number of draws of a depth's loss from a curve through the other depths alone."""
OUTCOMES = 9
"""Number of possible results of a trial that are considered: evenly spread quantiles of its
loss."""


def most_telling(
    posterior: Posterior, doubt: Array, candidates: Sequence[int], number: int
) -> list[int]:
    """At most `number` of the candidate depths: those whose trials reduce the doubt most, each by
    at least the share `WORTH` as expected.

    `doubt` is the value, (draws,), whose variance is to be reduced. All are chosen from the same
    posterior; each choice treats the results of the earlier ones as known.
    """
    weights = np.full((1, len(doubt)), 1 / len(doubt))
    chosen: list[int] = []
    while len(chosen) < number:
        before = _variance(weights, doubt)
        after = {
            depth: _variance(_outcomes(posterior, depth, weights), doubt)
            for depth in candidates
            if depth not in chosen
        }
        best = min(after, key=lambda depth: after[depth], default=None)
        if best is None or after[best] > (1 - WORTH) * before:
            break
        chosen.append(best)
        weights = _outcomes(posterior, best, weights)
        weights = weights[:: max(1, len(weights) // OUTCOMES)]  # the middle rows stand for all
    return chosen


def is_wide(optimum: Located) -> bool:
    """True if the interval still has several depths that are far apart."""
    low, high = optimum.curve_minimum_interval
    return optimum.interval[0] != optimum.interval[1] and log(high / low) > NARROW


def doubt_of(posterior: Posterior, optimum: Located) -> Array:
    """The quantity in doubt about an answer, (draws,): ln of the best depth or, if the interval is
    narrow, the nats by which the depth of least expected loss exceeds the lowest loss of the
    draw."""
    if is_wide(optimum):
        spread: Array = np.log(posterior.lowest)
        return spread
    regrets: Array = posterior.regrets[:, posterior.at(optimum.expected_depth)]
    return regrets


def doubt_left(posterior: Posterior, doubt: Array, depth: int) -> float:
    """Share of the doubt's variance that is expected to remain after a trial of a depth in the
    posterior's range; `doubt` has one value per draw, (draws,)."""
    weights = np.full((1, len(doubt)), 1 / len(doubt))
    before = _variance(weights, doubt)
    if before <= 0:
        return 1.0
    return min(1.0, _variance(_outcomes(posterior, depth, weights), doubt) / before)


def may_have_stalled(posterior: Posterior, depth: int, *, settled: bool) -> bool:
    """True if the loss of a trained depth is unusually high, given the other depths, and this
    matters: the depth lies near the best, or may be the best where the answer is `settled`."""
    points = posterior.points
    others = points.at(np.flatnonzero(points.depths != depth))
    if len(others.depths) < FEWEST or not others.depths[0] < depth < others.depths[-1]:
        return False
    (measured,), (error,) = (v[points.depths == depth] for v in (points.losses, points.errors))
    if measured - fit(others).loss_at(depth) < max(error, PLATEAU_WIDTH):
        return False
    generator = np.random.default_rng(depth)
    found = find_posterior(others, posterior.repeats, generator, draws=DRAWS_WITHOUT)
    place = depth - int(found.depths[0])
    expected = found.losses[:, place] + error * generator.standard_normal(DRAWS_WITHOUT)
    if (expected >= measured).mean() > UNUSUAL:
        return False
    likely = found.probabilities if settled else found.closeness(NEAR)
    return bool(likely[place] >= LIKELY)


def _outcomes(posterior: Posterior, depth: int, weights: Array) -> Array:
    """The weights of the draws after each of `OUTCOMES` results of a trial at a depth, for each row
    of the given weights; (rows * outcomes, draws)."""
    losses, error = posterior.losses[:, posterior.at(depth)], _error(posterior, depth)
    order = np.argsort(losses, kind="stable")
    shares = (np.arange(OUTCOMES) + 0.5) / OUTCOMES
    found = []
    for row in weights:
        places = np.searchsorted(np.cumsum(row[order]), shares * row.sum())
        results = losses[order[np.minimum(places, len(order) - 1)]]
        off = (results[:, None] - losses) / error
        found.append(row * np.exp(-(off**2) / 2))
    weighted = np.concatenate(found)
    normal: Array = weighted / weighted.sum(axis=1, keepdims=True)
    return normal


def _error(posterior: Posterior, depth: int) -> float:
    """Standard error, in nats, of the loss of a depth as one more trial measures it.

    A further seed of a trained shape makes only the mean over its seeds more precise: it does not
    show how the shape differs from other shapes of its depth.
    """
    points, noise = posterior.points, posterior.noise
    assert points.by_seeds is not None, "a posterior of trainings"
    by_seeds = np.diag(points.by_seeds)
    between = np.maximum(0.0, np.diag(points.covariance) - points.noise**2 * by_seeds)
    trained = np.flatnonzero((points.depths == depth) & (by_seeds > 0))
    if not len(trained):
        return sqrt(noise**2 + float(np.median(between[by_seeds > 0])))
    place = trained[0]
    now = between[place] + noise**2 * by_seeds[place]
    then = between[place] + noise**2 / (1 / by_seeds[place] + 1)
    return sqrt(1 / (1 / then - 1 / now))


def _variance(weights: Array, values: Array) -> float:
    """The weighted variance of the values, as a mean over the rows of weights."""
    means = weights @ values
    return float((weights @ values**2 - means**2).mean())
