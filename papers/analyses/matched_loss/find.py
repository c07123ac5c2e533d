"""Comparisons of the generalisation of two depths at matched loss or matched training results.

Petty et al. 2024 compare twice: at equal validation loss, and at equal results on the training
distribution. Each of these is a yardstick; the metric of a trial is interpolated where its
yardstick first reached a level. So models are compared during training, when one may have cooled
down and the other not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np
from scipy.special import stdtrit

from fathom.search.analysis.losses.depth_estimates import Array
from fathom.search.analysis.losses.metric_trials import metric_trials
from fathom.search.records import TrialRecord, by_budget

LOSS = "loss"
"""Name of the yardstick that every trial has."""
GENERALISING = re.compile(r"(exact_match|accuracy)[/_].+")
"""Pattern of the metrics that may be compared, for which higher is better; those with a part `dev`
in their names are yardsticks."""
LEVELS = 5
"""Number of levels of a yardstick at which two depths are compared, the first being the furthest
that both reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over trials with its 95 % interval, which takes at least two trials."""

    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLevel:
    """Two depths compared at one level of the yardstick, which all of their trials reached."""

    level: float
    shallow: Estimate
    deep: Estimate
    difference: Estimate
    """Mean of the deeper depth minus that of the shallower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedComparison:
    """A metric of two neighbouring depths at equal values of a yardstick."""

    budget: int
    metric: str
    yardstick: str
    shallow: int
    deep: int
    trials: tuple[int, int]
    levels: tuple[LossLevel, ...]
    """Levels compared, the furthest first; empty where the curves do not overlap."""


FORM = tuple[MatchedComparison, ...]
"""Return type of `find`."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The values of a metric where a trial improves its yardstick; `far` ascends strictly."""

    far: Array
    value: Array


def find(records: Sequence[TrialRecord], *, seed: int = 0) -> tuple[MatchedComparison, ...]:
    """Comparisons by budget, metric, yardstick and depth; empty where evaluations measured no such
    metric. Nothing is drawn, so every seed gives the same result."""
    found: list[MatchedComparison] = []
    for budget, of_budget in by_budget(records).items():
        trials = metric_trials(of_budget)
        for metric, yardstick in _questions([trial for each in trials.values() for trial in each]):
            paths = {
                depth: [_path(record, metric, yardstick) for record in of_depth]
                for depth, of_depth in trials.items()
            }
            found += [
                MatchedComparison(
                    budget=budget,
                    metric=metric,
                    yardstick=yardstick,
                    shallow=shallow,
                    deep=deep,
                    trials=(len(paths[shallow]), len(paths[deep])),
                    levels=_levels(paths[shallow], paths[deep], falls=yardstick == LOSS),
                )
                for shallow, deep in pairwise(paths)
            ]
    return tuple(found)


def _questions(trials: Sequence[TrialRecord]) -> Iterator[tuple[str, str]]:
    """Yields (metric, yardstick) pairs that all trials measured at two evaluations or more."""
    if not trials:
        return
    # The second to last evaluation and the last show what every evaluation measures.
    ends = [point.metrics.keys() for record in trials for point in record.curve[-2:]]
    measured = set(ends[0]).intersection(*ends)
    names = sorted(name for name in measured if GENERALISING.fullmatch(name))
    of_training = [name for name in names if _is_of_training(name)]
    for metric in names:
        if _is_of_training(metric):
            continue
        yield metric, LOSS
        yield from ((metric, trained) for trained in of_training if _kind(trained) == _kind(metric))


def _kind(metric: str) -> str:
    return "exact_match" if metric.startswith("exact_match") else "accuracy"


def _is_of_training(metric: str) -> bool:
    return "dev" in re.split(r"[/_]", metric)


def _path(record: TrialRecord, metric: str, yardstick: str) -> _Path:
    points = [point for point in record.curve if metric in point.metrics]
    # The larger the further: a loss counts with a minus.
    far = np.array([-p.loss if yardstick == LOSS else p.metrics[yardstick] for p in points])
    first = np.r_[True, far[1:] > np.maximum.accumulate(far)[:-1]]
    return _Path(far[first], np.array([point.metrics[metric] for point in points])[first])


def _levels(
    shallow: Sequence[_Path], deep: Sequence[_Path], *, falls: bool
) -> tuple[LossLevel, ...]:
    """The comparisons at levels of the yardstick, from the furthest that all trials reached back
    towards the beginning."""
    both = [*shallow, *deep]
    last = min(float(path.far[-1]) for path in both)
    first = max(float(path.far[0]) for path in both)
    if last < first:
        return ()
    return tuple(
        _level(far, _read(shallow, far), _read(deep, far), falls=falls)
        for far in np.linspace(last, first, LEVELS + 1)[:-1].tolist()
    )


def _read(paths: Sequence[_Path], far: float) -> Array:
    return np.array([np.interp(far, path.far, path.value) for path in paths])


def _level(far: float, shallow: Array, deep: Array, *, falls: bool) -> LossLevel:
    """The comparison at one level; trials of both depths share one variance, as seeds are few."""
    freedom = len(shallow) + len(deep) - 2
    squares = float(np.var(shallow)) * len(shallow) + float(np.var(deep)) * len(deep)
    half = float(stdtrit(freedom, 0.975)) * sqrt(squares / freedom) if freedom else None
    difference = float(deep.mean() - shallow.mean())
    return LossLevel(
        level=-far if falls else far,
        shallow=_estimate(float(shallow.mean()), half, 1 / len(shallow)),
        deep=_estimate(float(deep.mean()), half, 1 / len(deep)),
        difference=_estimate(difference, half, 1 / len(shallow) + 1 / len(deep)),
    )


def _estimate(mean: float, half: float | None, variance: float) -> Estimate:
    """The mean with its interval; `half` is the half-width of the interval of one trial."""
    if half is None:
        return Estimate(mean=mean, interval=None)
    wide = half * sqrt(variance)
    return Estimate(mean=mean, interval=(mean - wide, mean + wide))
