"""The depth that a task of some difficulty requires, and the difficulty gained with each layer.

A depth is enough when the mean over its trials passes a limit. The difficulty is the number at the
end of a metric's name, such as `error/k8`; or it is one number for each study, such as its number
of blocks. In theory, the required depth is a straight line in log2(difficulty) or in the difficulty
itself: for hops floor(log2 k) + 2 (Sanford et al. 2024), for k blocks k - 2 (Yang et al. 2025).
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt

import numpy as np
from numpy.random import Generator
from scipy.special import stdtrit

from fathom.search.analysis.losses.metric_trials import metric_trials
from fathom.search.records import TrialRecord, by_budget

NAMED = re.compile(r"(?P<metric>(?P<kind>\w+)/[a-z]+)(?P<difficulty>\d+)")
"""Pattern of a metric with a difficulty, such as `error/k8`."""
ROUNDING = 1 / sqrt(12)
"""Standard deviation, in layers, of the rounding of a depth to whole layers."""
FEWEST = 3
"""Fewest difficulties for a line: two parameters pass through any two."""
DRAWS = 500

Measured = Mapping[int, Mapping[int, Sequence[float]]]
"""The value of each trial, by difficulty and then by depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRule:
    """The rule by which a depth is enough."""

    limit: float
    at_most: bool
    """True if `limit` is the highest value that passes, False if the lowest."""
    doubling: bool
    """True if depth is fitted against log2(difficulty), False if against the difficulty."""

    def passes(self, value: float) -> bool:
        """True if a value is good enough; NaN never is."""
        return value <= self.limit if self.at_most else value >= self.limit

    def scaled(self, difficulty: int) -> float:
        """The difficulty, or its log2, against which the line is fitted."""
        return log2(difficulty) if self.doubling else float(difficulty)


RULES = {
    "error": DepthRule(limit=0.05, at_most=True, doubling=True),
    "exact_match": DepthRule(limit=0.95, at_most=False, doubling=False),
}
"""Rule of each kind of metric; 5 % as in Sanford et al. 2024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyDepth:
    """The depth that one difficulty requires; None where no tested depth is enough."""

    difficulty: int
    depth: int | None
    """Smallest depth whose mean over trials passes."""
    soonest: int | None
    """Smallest depth at which a trial passes."""
    surest: int | None
    """Smallest depth at which every trial passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredDepth:
    """The required depth of every difficulty for one metric."""

    budget: int
    metric: str
    rule: DepthRule
    depths: tuple[int, ...]
    """Tested depths, ascending."""
    trials: int
    """Number of trials of the depth with the fewest."""
    needs: tuple[DifficultyDepth, ...]
    """Required depth of each difficulty, ascending."""
    gained: float | None
    """Gain of log2(difficulty), or of the difficulty, with each layer; None when no line can be
    fitted, which takes three difficulties. Of those that the shallowest depth meets, only the
    hardest counts, since fewer layers than were tried may be enough for the others."""
    gained_interval: tuple[float, float | None] | None
    """95 % interval of the gain; without an upper end if depth may not matter."""


FORM = tuple[RequiredDepth, ...]
"""Return type of `find`."""


def find(records: Sequence[TrialRecord], *, seed: int) -> tuple[RequiredDepth, ...]:
    """The required depths of each budget and metric; empty for fewer than two depths or
    difficulties."""
    found = []
    for budget, of_budget in by_budget(records).items():
        trials = metric_trials(of_budget)
        for metric, measured in _by_metric(trials).items():
            if len(measured) > 1 and len(trials) > 1:
                rule = RULES[metric.split("/")[0]]
                need = fit_required_depth(measured, rule, metric=metric, budget=budget, seed=seed)
                found.append(need)
    return tuple(found)


def fit_required_depth(
    measured: Measured, rule: DepthRule, *, metric: str, budget: int, seed: int
) -> RequiredDepth:
    """The required depth of every difficulty and the line through them; the same seed gives the
    same result."""
    needs = tuple(_need(difficulty, by_depth, rule) for difficulty, by_depth in measured.items())
    gained, interval = _slope(measured, rule, needs, np.random.default_rng([seed, budget]))
    return RequiredDepth(
        budget=budget,
        metric=metric,
        rule=rule,
        depths=tuple(sorted({depth for by_depth in measured.values() for depth in by_depth})),
        trials=min(len(values) for by_depth in measured.values() for values in by_depth.values()),
        needs=needs,
        gained=gained,
        gained_interval=interval,
    )


def _by_metric(
    trials: Mapping[int, Sequence[TrialRecord]],
) -> dict[str, dict[int, dict[int, list[float]]]]:
    """Returns last values by metric, such as `error/k`, then by difficulty, ascending, then by
    depth; difficulty 0 is left out."""
    found: dict[str, dict[int, dict[int, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for depth, of_depth in trials.items():
        for record in of_depth:
            for name, value in record.curve[-1].metrics.items():
                match = NAMED.fullmatch(name)
                if match and match["kind"] in RULES and int(match["difficulty"]):
                    found[match["metric"]][int(match["difficulty"])][depth].append(value)
    return {metric: dict(sorted(column.items())) for metric, column in sorted(found.items())}


def _need(
    difficulty: int, by_depth: Mapping[int, Sequence[float]], rule: DepthRule
) -> DifficultyDepth:
    passed = {depth: list(map(rule.passes, by_depth[depth])) for depth in sorted(by_depth)}
    means = (depth for depth in passed if rule.passes(float(np.mean(by_depth[depth]))))
    return DifficultyDepth(
        difficulty=difficulty,
        depth=next(means, None),
        soonest=next((depth for depth, each in passed.items() if any(each)), None),
        surest=next((depth for depth, each in passed.items() if all(each)), None),
    )


def _slope(
    measured: Measured, rule: DepthRule, needs: Sequence[DifficultyDepth], generator: Generator
) -> tuple[float | None, tuple[float, float | None] | None]:
    """Returns the difficulty gained with each layer and its interval, as the inverse of the layers
    that a unit of difficulty takes.

    The interval covers errors of the required depths: at least rounding, their distances from the
    line, and the noise of seeds (by drawing trials again).
    """
    points = _usable([(need.difficulty, need.depth) for need in needs])
    layers = _line(points, rule)
    if layers is None or layers[0] <= 0:
        return None, None
    slope, misses, spread = layers
    drawn = [_line(points_drawn, rule) for points_drawn in _redrawn(measured, rule, generator)]
    seeds = float(np.std([line[0] for line in drawn if line])) if any(drawn) else 0.0
    freedom = len(points) - 2
    off = max(ROUNDING, sqrt(misses / freedom)) / spread
    half = float(stdtrit(freedom, 0.975)) * sqrt(off**2 + seeds**2)
    return 1 / slope, (1 / (slope + half), 1 / (slope - half) if slope > half else None)


def _usable(needs: Sequence[tuple[int, int | None]]) -> list[tuple[int, int]]:
    """The (difficulty, depth) pairs that were met; of those at the shallowest depth only the
    hardest."""
    met = [(difficulty, depth) for difficulty, depth in needs if depth is not None]
    shallowest = min((depth for _, depth in met), default=0)
    hardest = max((difficulty for difficulty, depth in met if depth == shallowest), default=0)
    return [point for point in met if point[1] > shallowest or point[0] == hardest]


def _line(points: Sequence[tuple[int, int]], rule: DepthRule) -> tuple[float, float, float] | None:
    """Returns the layers for each unit of difficulty by least squares, the sum of squared
    residuals, and the root of the sum of squares of x."""
    if len(points) < FEWEST:
        return None
    x = np.array([rule.scaled(difficulty) for difficulty, _ in points])
    y = np.array([depth for _, depth in points], dtype=np.float64)
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y / (x @ x))
    return slope, float(np.sum((y - slope * x) ** 2)), sqrt(float(x @ x))


def _redrawn(
    measured: Measured, rule: DepthRule, generator: Generator
) -> list[list[tuple[int, int]]]:
    """Returns the usable points of each draw of the trials, with replacement."""
    met: list[list[tuple[int, int | None]]] = [[] for _ in range(DRAWS)]
    for difficulty, by_depth in measured.items():
        depths = sorted(by_depth)
        trials = [by_depth[depth] for depth in depths]
        means = [generator.choice(values, (DRAWS, len(values))).mean(1) for values in trials]
        for draw, values in zip(met, np.stack(means, axis=1).tolist(), strict=True):
            enough = (d for d, value in zip(depths, values, strict=True) if rule.passes(value))
            draw.append((difficulty, next(enough, None)))
    return [_usable(draw) for draw in met]
