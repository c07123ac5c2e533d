"""Finds the best learning rate and weight decay of a shape from trials at several values, called a
bracket, and their gains.

In a bracket of one of them, the other has the study's own value; the gains of both are added.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import product
from math import log

import numpy as np

from fathom.models.shape import Shape
from fathom.search.records import UNSCALED, Scale, TrialRecord

UNSTABLE = 0.5
"""Height above a bracket's lowest loss, nats, from which a rate counts as nearly diverging and is
left out of the parabola; losses of usual brackets span a few hundredths."""


class Factor(StrEnum):
    """Setting that a bracket varies; the value is the name of a field of `Scale`."""

    RATE = "rate"
    DECAY = "decay"

    @cache
    def scale(self, multiple: float) -> Scale:
        """The `Scale` with this multiple of the factor, and the study's own value of the other
        factor."""
        return UNSCALED._replace(**{self.value: multiple})


def losses_by_seed(records: Sequence[TrialRecord]) -> dict[Shape, dict[int, dict[Scale, float]]]:
    """Returns shape -> seed -> multiples of rate and decay -> loss of the finished trial, nats."""
    found: dict[Shape, dict[int, dict[Scale, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if (loss := record.loss) is not None:
            found[record.spec.shape][record.spec.seed][record.spec.scale] = loss
    return found


@dataclass(frozen=True, slots=True)
class Bracket:
    """The best multiple of a factor for a shape, from trials of one seed at several multiples."""

    depth: int
    best: float
    """Multiple of the study's own value at which the loss is lowest, inside the bracket."""
    gain: float
    """Gain of `best` over the study's own value, nats."""
    weight: float
    """Variance of the gain, in units of the variance between seeds."""


def brackets(records: Sequence[TrialRecord]) -> dict[Factor, list[Bracket]]:
    """Factor -> its brackets with finished trials, in order of depth."""
    found: dict[Factor, list[Bracket]] = {factor: [] for factor in Factor}
    for shape, seeds in sorted(losses_by_seed(records).items(), key=lambda item: item[0].depth):
        for seed, factor in product(seeds.values(), Factor):
            if _is_bracket(losses := along(factor, seed)):
                found[factor].append(_bracket_of(shape.depth, losses))
    return found


def along(factor: Factor, losses: Mapping[Scale, float]) -> dict[float, float]:
    """Returns multiple of the factor -> loss, for trials with the study's own value of the other
    factor."""
    multiples = ((float(getattr(scale, factor)), scale) for scale in losses)
    return {
        multiple: losses[scale] for multiple, scale in multiples if factor.scale(multiple) == scale
    }


def _bracket_of(depth: int, losses: Mapping[float, float]) -> Bracket:
    change = _change_to_best(losses)
    return Bracket(
        depth=depth,
        best=best_multiple(losses),
        gain=-sum(weight * losses[multiple] for multiple, weight in change.items()),
        weight=sum(weight**2 for weight in change.values()),
    )


def granted_gain(x: float, known: Sequence[Bracket]) -> tuple[float, float]:
    """The gain, nats, at ln depth `x`, interpolated between a factor's brackets, and its variance
    in units of the variance between seeds.

    Between two brackets the ln of the best multiple is linear in ln depth, and the gain is
    proportional to the square of that ln. Beyond the outermost bracket, its gain is used.
    """
    at = [log(bracket.depth) for bracket in known]
    best = np.log([bracket.best for bracket in known])
    gains = [bracket.gain for bracket in known]
    columns = (gains, [bracket.weight for bracket in known], best, best**2)
    gain, weight, middle, square = (float(np.interp(x, at, column)) for column in columns)
    return gain * (middle**2 / square if square else 1.0), weight


def mean_at_best(
    seeds: Sequence[Mapping[Scale, float]], depth: int, known: Mapping[Factor, Sequence[Bracket]]
) -> tuple[float, float]:
    """Returns the mean loss of a shape over seeds at its best rate and decay, and its variance in
    units of the variance between seeds; `seeds` has multiples -> loss for each seed.

    If no seed has a bracket of a factor, the gain is interpolated between the `known` brackets.
    """
    loss, weight = _mean_over_seeds(seeds)
    for factor, around in known.items():
        if around and not any(len(along(factor, losses)) > 1 for losses in seeds):
            gain, more = granted_gain(log(depth), around)
            loss, weight = loss - gain, weight + more
    return loss, weight


def _mean_over_seeds(seeds: Sequence[Mapping[Scale, float]]) -> tuple[float, float]:
    """Returns the mean loss over seeds at the best multiples by their own brackets, and the sum of
    the squared weights of the losses in it.

    A seed at several multiples measures the gain of the best one over the study's own value; seeds
    at only the study's own value get the same gain.
    """
    weights: dict[tuple[int, Scale], float] = defaultdict(float)
    for seed, losses in enumerate(seeds):
        for scale, weight in _without_gain(losses).items():
            weights[seed, scale] += weight / len(seeds)
    for factor in Factor:
        lines = [along(factor, losses) for losses in seeds]
        measured = sum(map(_is_bracket, lines))
        granted = sum(set(line) == {1.0} for line in lines)
        for seed, line in enumerate(lines):
            count = 1 + (granted / measured if _is_bracket(line) else 0)
            for multiple, change in _change_to_best(line).items():
                weights[seed, factor.scale(multiple)] += count * change / len(seeds)
    loss = sum(weight * seeds[seed][scale] for (seed, scale), weight in weights.items())
    return loss, sum(weight**2 for weight in weights.values())


def _without_gain(losses: Mapping[Scale, float]) -> dict[Scale, float]:
    """Returns multiples -> weight in a seed's loss before gains: only the study's own values if
    their trial finished, otherwise the best multiple of the trials that did."""
    if UNSCALED in losses:
        return {UNSCALED: 1.0}
    factor = next(factor for factor in Factor if along(factor, losses))
    weights = best_weights(along(factor, losses))
    return {factor.scale(multiple): weight for multiple, weight in weights.items()}


def _change_to_best(losses: Mapping[float, float]) -> dict[float, float]:
    """Returns multiple -> weight; the weighted losses add up to the loss at the best multiple minus
    that at the study's own value. Empty if the trial at the study's own value did not finish."""
    if 1.0 not in losses:
        return {}
    change = defaultdict(float, best_weights(losses))
    change[1.0] -= 1.0
    return change


def best_multiple(losses: Mapping[float, float]) -> float:
    """The best multiple of a bracket, given multiple -> loss.

    With at least three stable multiples it is the lowest point of a parabola in ln multiple,
    limited to their range; with fewer, the multiple with the lowest loss.
    """
    lowest = min(losses, key=lambda multiple: losses[multiple])
    stable = _stable(losses)
    if len(stable) < 3:
        return lowest
    x = np.log(stable)
    c2, c1, _ = np.linalg.pinv(np.vander(x, 3)) @ [losses[multiple] for multiple in stable]
    return float(np.exp(np.clip(-c1 / (2 * c2), x[0], x[-1]))) if c2 > 0 else lowest


def best_weights(losses: Mapping[float, float]) -> dict[float, float]:
    """Returns multiple -> weight; the weighted losses add up to the loss at the best multiple of
    the bracket.

    The error of the best multiple is neglected: near the lowest point, the loss hardly changes with
    the multiple.
    """
    best, stable = best_multiple(losses), _stable(losses)
    if len(stable) < 3:
        return {multiple: float(multiple == best) for multiple in losses}
    x = log(best)
    row = np.array([x**2, x, 1.0]) @ np.linalg.pinv(np.vander(np.log(stable), 3))
    return dict(zip(stable, row.tolist(), strict=True))


def _is_bracket(losses: Mapping[float, float]) -> bool:
    """True if there are losses at several multiples of a factor, including a stable one at the
    study's own value."""
    return len(losses) > 1 and 1.0 in _stable(losses)


def _stable(losses: Mapping[float, float]) -> list[float]:
    return sorted(m for m in losses if losses[m] < min(losses.values()) + UNSTABLE)
