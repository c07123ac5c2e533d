"""Studies with planted crossings, required depths and generalisation beyond the loss."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, log

import numpy as np
from scipy.special import wrightomega

from benchmarks.worlds.planted import World, asymmetric, finished, flat
from fathom.models.shape import Count
from fathom.search.analysis.losses.depth_metrics import find_depth_metrics
from fathom.search.conclusion.published import find_papers
from fathom.search.records import Stage, TrialRecord
from fathom.search.report.words.metrics import metric_text

A, B = 5.0, 0.12
"""So wide that shapes meet their budget at nearly one ratio: losses need little correction."""


BUDGETS = (650_000, 1_600_000, 4_000_000, 10_000_000, 25_000_000)


DEPTHS = (2, 3, 4, 6, 8)


Excess = Callable[[int], Callable[[float], float]]
"""Budget to its curve: depth to loss above the best, nats."""


def best_depth(budget: int) -> float:
    """The depth L that solves 12 L exp(2a + 2bL) = budget."""
    return float(wrightomega(log(budget / 12 * 2 * B) - 2 * A).real / (2 * B))


def levine(budget: int) -> Callable[[float], float]:
    """Losses that are parabolas in ln depth, lowest at the law's depth."""
    best = best_depth(budget)
    return lambda depth: 0.05 * log(depth / best) ** 2


def crossing_records(
    excess: Excess = levine, *, budgets: Sequence[int] = BUDGETS, depths: Sequence[int] = DEPTHS,
    seed: int = 0, noise: float = 0.003, seeds: int = 3, count: Count = Count.NON_EMBEDDING,
) -> list[TrialRecord]:  # fmt: skip
    """Records of every depth at every budget, with fresh seeds."""
    generator = np.random.default_rng(seed)
    records = []
    for budget in budgets:
        world = World(
            curve=excess(budget), budget=budget, noise=noise, count=count, ratio_effect=0.0
        )
        records += [
            world.record(world.spec(world.shape(depth), seed=s, stage=Stage.CONFIRM), generator)
            for depth in depths
            for s in range(seeds)
        ]
    return records


HOP_WORLD = World(curve=flat, budget=100_000)


DIFFICULTIES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)


def sanford(difficulty: int) -> int:
    """Depth that is enough for a number of hops."""
    return math.floor(math.log2(difficulty)) + 2


def measured_trial(
    depth: int, seed: int, metrics: Mapping[str, float], *, loss: float = 1.0
) -> TrialRecord:
    """A finished trial that measured this at its end."""
    spec = HOP_WORLD.spec(HOP_WORLD.shape(depth), seed=seed, stage=Stage.CONFIRM)
    record = finished(spec, loss)
    *before, last = record.curve
    return replace(record, curve=(*before, replace(last, metrics=dict(metrics))))


def hop_records(
    needed: Callable[[int], float] = sanford, *, depths: Sequence[int] = (1, 2, 3, 4, 5, 6),
    seeds: int = 3, noise: float = 0.0, seed: int = 0,
) -> list[TrialRecord]:  # fmt: skip
    """Errors of 1 % where a depth is enough, of 50 % where not; seeds differ in what is enough."""
    generator = np.random.default_rng(seed)
    return [
        measured_trial(
            depth,
            number,
            {f"error/k{k}": 0.01 if depth >= needed(k) + luck else 0.5 for k in DIFFICULTIES}
            | {"error/k0": 0.0, "solved/k": 3.0, "gain/k4": 1.0},
        )
        for depth in depths
        for number in range(seeds)
        for luck in [noise * generator.normal()]
    ]


MATCHED_WORLD = World(curve=asymmetric(8, scale=0.1), budget=1_000_000)


GEN, DEV = "exact_match/gen/all", "exact_match/dev/all"


def matched_trials(
    depth: int, *, beyond: float, seeds: int = 4, noise: float = 0.005, seed: int = 0
) -> list[TrialRecord]:
    """Both metrics follow the loss; generalisation gains `beyond` for each unit of ln depth."""
    generator = np.random.default_rng([seed, depth])
    made = []
    for number in range(seeds):
        spec = MATCHED_WORLD.spec(MATCHED_WORLD.shape(depth), seed=number, stage=Stage.CONFIRM)
        final = MATCHED_WORLD.expected_loss(spec.shape) + 0.01 * generator.normal()
        record = finished(spec, final, lag=0.4)
        more = beyond * log(depth) + noise * generator.normal()
        points = []
        for point in record.curve:
            match = exp(-(point.loss - 1.3))
            metrics = {DEV: match, GEN: 0.6 * match + more, "bits_per_byte": 1.0}
            points.append(replace(point, metrics=metrics))
        made.append(replace(record, curve=tuple(points)))
    return made


def matched_records(
    *, beyond: float, depths: Sequence[int] = (2, 4), seed: int = 0
) -> list[TrialRecord]:
    return [r for depth in depths for r in matched_trials(depth, beyond=beyond, seed=seed)]


def lines_on(records: Sequence[TrialRecord]) -> list[str]:
    """The lines of a terminal on metrics by depth and published analyses."""
    metrics = find_depth_metrics(records)
    return [*map(metric_text, metrics), *find_papers(records, seed=0).lines(metrics)]
