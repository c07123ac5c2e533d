"""Which trials settle a budget: the leading depths, trained to the end with fresh seeds."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.shape import Shape
from search.config import ConfirmConfig
from search.optimum import find_optimum
from search.records import Outcome, TrialRecord
from search.space import nearest_shape

SPACING = 1.2
"""Confirmed depths are at least this factor apart: closer ones can't be told apart anyway, and a
fit through them would say nothing of the curve."""
FRESH_SEEDS_FROM = 1000
"""Seeds below this number explore, so that no confirming trial repeats a run that got it chosen."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One trial to run."""

    shape: Shape
    seed: int
    rate_scale: float


def plan_confirmation(
    config: ConfirmConfig, shapes: tuple[Shape, ...], records: Sequence[TrialRecord]
) -> tuple[Choice, ...]:
    """Every trial of the confirming stage, given a budget's exploring trials.

    All depths share seeds, hence data in the same order. The bracket of rates is run on the first
    seed only: the gain it finds belongs to the shape, and rates cost as much as seeds.
    """
    finalists = leading_shapes(config.depths, shapes, records)
    return tuple(
        Choice(shape, seed, rate) for seed, rate in _repeats(config) for shape in finalists
    )


def leading_shapes(
    depths: int, shapes: tuple[Shape, ...], records: Sequence[TrialRecord]
) -> tuple[Shape, ...]:
    """The best shape of each leading depth, by depth.

    First the optimum of all explored depths, then its neighbours on both sides, without which no
    optimum can be located, then the best of the rest. Empty when no trial was good for anything.
    """
    ranked = sorted((r for r in records if _usable(r)), key=_rank)
    if not ranked:
        return ()
    best = ranked[0].spec.shape
    known: dict[int, Shape] = {}
    for record in ranked:
        known.setdefault(record.spec.shape.depth, record.spec.shape)
    feasible = sorted({shape.depth for shape in shapes})
    centre = _lowest(records, feasible) or best.depth
    chosen: list[int] = []
    for depth in [centre, *_neighbours(centre, feasible), *known, *feasible]:
        if len(chosen) < depths and all(_apart(depth, other) for other in chosen):
            chosen.append(depth)
    return tuple(
        known.get(depth) or nearest_shape(shapes, depth=depth, ff_ratio=best.ff_ratio)
        for depth in sorted(chosen)
    )


def _repeats(config: ConfirmConfig) -> Iterator[tuple[int, float]]:
    for seed in range(config.seeds):
        rates = sorted(config.rates, key=lambda rate: rate != 1.0) if seed == 0 else (1.0,)
        for rate in rates:
            yield FRESH_SEEDS_FROM + seed, rate


def _usable(record: TrialRecord) -> bool:
    return record.outcome in (Outcome.FINISHED, Outcome.STOPPED) and bool(record.curve)


def _rank(record: TrialRecord) -> tuple[float, float]:
    """Finished trials by loss, then stopped ones by how far they came and how well they stood."""
    if record.loss is not None:
        return -math.inf, record.loss
    reached = max(record.rungs, default=0)
    return -reached, record.rungs.get(reached, math.inf)


def _apart(depth: int, other: int) -> bool:
    return max(depth, other) / min(depth, other) >= SPACING


def _lowest(records: Sequence[TrialRecord], feasible: Sequence[int]) -> int | None:
    """The feasible depth nearest to the optimum so far; None before any trial has finished."""
    depth = find_optimum(records, seed=0).optimal_depth
    return depth and min(feasible, key=lambda other: abs(math.log(other / depth)))


def _neighbours(depth: int, feasible: Sequence[int]) -> list[int]:
    """The nearest depth on either side that is far enough away, where there is one."""
    below = [other for other in feasible if other < depth and _apart(depth, other)]
    above = [other for other in feasible if other > depth and _apart(depth, other)]
    return below[-1:] + above[:1]
