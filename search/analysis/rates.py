"""The learning rate that suits a shape best, from trials at several rates, and what it gains."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from fathom.models.shape import Shape
from fathom.search.records import TrialRecord

UNSTABLE = 0.5
"""Loss above the lowest of a bracket, nats, from which a rate is on its way to diverging and says
nothing of the parabola near the lowest: usual brackets span a few hundredths."""


def losses_by_seed(records: Sequence[TrialRecord]) -> dict[Shape, dict[int, dict[float, float]]]:
    """Returns shape -> seed -> rate -> loss of the finished trial."""
    found: dict[Shape, dict[int, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if record.loss is not None:
            spec = record.spec
            found[spec.shape][spec.seed][spec.rate_scale] = record.loss
    return found


@dataclass(frozen=True, slots=True)
class RateBracket:
    """The best rate of a shape, from trials of one seed at several rates."""

    depth: int
    best_rate: float
    """Multiple of the study's rate at which the loss is lowest, inside the bracket."""
    gain: float
    """Gain of that rate over the study's own, nats."""
    weight: float
    """Variance of the gain, in variances between seeds."""


def rate_brackets(records: Sequence[TrialRecord]) -> list[RateBracket]:
    """The brackets of rates that finished, by depth."""
    brackets = [
        _bracket_of(shape.depth, losses)
        for shape, seeds in losses_by_seed(records).items()
        for losses in seeds.values()
        if _is_bracket(losses)
    ]
    return sorted(brackets, key=lambda bracket: bracket.depth)


def _bracket_of(depth: int, losses: Mapping[float, float]) -> RateBracket:
    weights = best_rate_weights(losses)
    change = {rate: (rate == 1.0) - weight for rate, weight in weights.items()}
    change.setdefault(1.0, 1.0)
    return RateBracket(
        depth=depth,
        best_rate=best_rate(losses),
        gain=sum(weight * losses[rate] for rate, weight in change.items()),
        weight=sum(weight**2 for weight in change.values()),
    )


def granted_gain(x: float, brackets: Sequence[RateBracket]) -> tuple[float, float]:
    """The gain at ln depth `x` between bracketed depths, nats, and its variance in variances
    between seeds.

    The ln of the best rate is linear in ln depth between two brackets, and the gain goes with its
    square. Beyond the outermost bracket the gain is that of the outermost.
    """
    at = [log(bracket.depth) for bracket in brackets]
    rates = np.log([bracket.best_rate for bracket in brackets])
    gains = [bracket.gain for bracket in brackets]
    columns = (gains, [bracket.weight for bracket in brackets], rates, rates**2)
    gain, weight, rate, square = (float(np.interp(x, at, column)) for column in columns)
    return gain * (rate**2 / square if square else 1.0), weight


def mean_at_best_rate(seeds: Sequence[Mapping[float, float]]) -> tuple[float, float]:
    """Returns the mean over seeds, each at the best rate of the shape, and the sum of the squared
    weights; `seeds` has rate -> loss for each of them.

    A seed that ran at several rates measures what the best of them gains over rate 1; the seeds
    that ran at rate 1 only are granted the same gain.
    """
    brackets = [best_rate_weights(losses) for losses in seeds]
    measured = [index for index, losses in enumerate(seeds) if _is_bracket(losses)]
    granted = sum(set(losses) == {1.0} for losses in seeds)
    weights: dict[tuple[int, float], float] = defaultdict(float)
    for seed, bracket in enumerate(brackets):
        for rate, weight in bracket.items():
            weights[seed, rate] += weight / len(seeds)
    for seed in measured:
        share = granted / len(measured) / len(seeds)
        for rate, weight in brackets[seed].items():
            weights[seed, rate] += share * (weight - (rate == 1.0))
    loss = sum(weight * seeds[seed][rate] for (seed, rate), weight in weights.items())
    return loss, sum(weight**2 for weight in weights.values())


def best_rate(losses: Mapping[float, float]) -> float:
    """The rate with the lowest loss of a bracket, rate -> loss.

    With three stable rates or more that is the lowest point of a parabola in ln rate, not beyond
    them; with fewer, the rate of the lowest loss.
    """
    lowest = min(losses, key=lambda rate: losses[rate])
    rates = _stable_rates(losses)
    if len(rates) < 3:
        return lowest
    x = np.log(rates)
    c2, c1, _ = np.linalg.pinv(np.vander(x, 3)) @ [losses[rate] for rate in rates]
    return float(np.exp(np.clip(-c1 / (2 * c2), x[0], x[-1]))) if c2 > 0 else lowest


def best_rate_weights(losses: Mapping[float, float]) -> dict[float, float]:
    """Returns rate -> weight; the weighted losses add up to the loss at the best rate of the
    bracket.

    At a lowest point the weights may be held fixed: moving along a curve that is level there
    changes nothing.
    """
    best, rates = best_rate(losses), _stable_rates(losses)
    if len(rates) < 3:
        return {rate: float(rate == best) for rate in losses}
    x = log(best)
    row = np.array([x**2, x, 1.0]) @ np.linalg.pinv(np.vander(np.log(rates), 3))
    return dict(zip(rates, row.tolist(), strict=True))


def _is_bracket(losses: Mapping[float, float]) -> bool:
    """True if several rates were tried, and the study's own is stable."""
    return len(losses) > 1 and 1.0 in _stable_rates(losses)


def _stable_rates(losses: Mapping[float, float]) -> list[float]:
    return sorted(rate for rate in losses if losses[rate] < min(losses.values()) + UNSTABLE)
