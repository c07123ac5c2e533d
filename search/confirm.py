"""Which trials settle a budget: the leading depths, trained to the end with fresh seeds.

In waves: each looks at all that has ended and asks for what the answer still lacks, a depth beyond
the lowest one or another seed of those in question. The stage ends when its depths enclose the
optimum with as many seeds as the noise asks for, or when more could not change the verdict.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.shape import Shape
from search.analysis.optimum import DepthLoss, Optimum, find_optimum
from search.analysis.verdict import Verdict, telling_seeds
from search.config import ConfirmConfig
from search.records import Outcome, Stage, TrialRecord
from search.space import nearest_shape

FIRST_DEPTHS = 3
"""The fewest that can show an optimum between them."""
FIRST_SEEDS = 2
"""The fewest that show the noise."""
WORSE = 3
"""Standard errors of a difference from which on a depth gets no more seeds."""
NEAR = 2
"""A depth encloses the optimum when it is worse and no more than this factor away."""
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


def next_wave(
    config: ConfirmConfig, shapes: tuple[Shape, ...], records: Sequence[TrialRecord]
) -> tuple[Choice, ...]:
    """The confirming trials that the records of a budget ask for; none when it is settled.

    All depths share seeds, hence data in the same order. The bracket of rates is run on the first
    seed only: the gain it finds belongs to the shape, and rates cost as much as seeds.
    """
    confirming = [r for r in records if r.spec.stage is Stage.CONFIRM]
    tried = sorted({r.spec.shape for r in confirming}, key=lambda shape: shape.depth)
    if not tried:
        first = leading_shapes(min(FIRST_DEPTHS, config.depths), shapes, records)
        return _choices(config, first, range(min(FIRST_SEEDS, config.seeds)))
    finished = {r.spec.shape for r in confirming if r.outcome is Outcome.FINISHED}
    optimum = find_optimum(records, seed=0)
    seeds = 1 + max(r.spec.seed for r in confirming) - FRESH_SEEDS_FROM
    beyond = _beyond(optimum, shapes, tried, finished) if len(tried) < config.depths else None
    if beyond:
        new = nearest_shape(shapes, depth=beyond, ff_ratio=_typical_ratio(tried))
        return _choices(config, [new], range(seeds))
    contenders = _contenders(optimum, finished)
    if len(contenders) < 2 or _settled(optimum) or seeds >= enough_seeds(optimum.noise, config):
        return ()
    return _choices(config, contenders, [seeds])


def whole_ladder(config: ConfirmConfig, records: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """Every seed and rate of the best explored shapes, all at once."""
    ranked = sorted((r for r in records if _usable(r)), key=_rank)
    best = list(dict.fromkeys(record.spec.shape for record in ranked))[: config.depths]
    return _choices(config, sorted(best, key=lambda shape: shape.depth), range(config.seeds))


def enough_seeds(noise: float, config: ConfirmConfig) -> int:
    """As many as tell depths apart by the width of a plateau, within what the study allows."""
    return min(config.seeds, max(FIRST_SEEDS, telling_seeds(noise)))


def leading_shapes(
    depths: int, shapes: tuple[Shape, ...], records: Sequence[TrialRecord]
) -> tuple[Shape, ...]:
    """One shape of each leading depth, by depth, all as near as can be to one ratio.

    First the optimum of all explored depths, then its neighbours on both sides, without which no
    optimum can be located, then the best of the rest. Empty when no trial was good for anything.
    One ratio for all, since a depth that is compared at a poor ratio looks poor itself; and the
    typical one of the trials that finished, not the best: a few trials with unknown noise put the
    best at one end or the other (seen at 20k and 40k parameters, with eight trials each).
    """
    ranked = sorted((r for r in records if _usable(r)), key=_rank)
    if not ranked:
        return ()
    best = ranked[0].spec.shape
    feasible = sorted({shape.depth for shape in shapes})
    centre = _lowest(records, feasible) or best.depth
    known = (record.spec.shape.depth for record in ranked)
    chosen: list[int] = []
    for depth in [centre, *_neighbours(centre, feasible), *known, *feasible]:
        if len(chosen) < depths and all(_apart(depth, other) for other in chosen):
            chosen.append(depth)
    trained = [record.spec.shape for record in ranked if record.loss is not None]
    ratio = _typical_ratio(trained or [best])
    return tuple(nearest_shape(shapes, depth=depth, ff_ratio=ratio) for depth in sorted(chosen))


def _typical_ratio(shapes: Sequence[Shape]) -> float:
    return math.exp(statistics.fmean(math.log(shape.ff_ratio) for shape in shapes))


def _choices(
    config: ConfirmConfig, shapes: Sequence[Shape], seeds: Iterable[int]
) -> tuple[Choice, ...]:
    bracket = sorted(config.rates, key=lambda rate: rate != 1.0)
    return tuple(
        Choice(shape, FRESH_SEEDS_FROM + seed, rate)
        for seed in seeds
        for rate in (bracket if seed == 0 else (1.0,))
        for shape in shapes
    )


def _beyond(
    optimum: Optimum, shapes: tuple[Shape, ...], tried: Sequence[Shape], finished: set[Shape]
) -> int | None:
    """A depth without which the confirmed ones do not enclose the optimum; None when they do.

    Not beyond an end at which no trial finished: deeper than what diverges, all diverges. Nor where
    an explored depth near the end is certainly worse, which encloses it as well.
    """
    depth, end = optimum.optimal_depth, _open_end(optimum, tried)
    if depth is None or end not in finished:
        return None

    def outside(other: int) -> bool:
        return other < end.depth if end == tried[0] else other > end.depth

    worse = {own.depth for own in optimum.depths} - _possible(optimum.depths)
    near = {other for other in worse if max(other, end.depth) <= NEAR * min(other, end.depth)}
    if not outside(depth) and any(map(outside, near)):
        return None
    feasible = {shape.depth for shape in shapes}
    beyond = [other for other in feasible if outside(other) and _apart(other, end.depth)]
    # The optimum itself where it lies beyond, else the next depth.
    aim = depth if outside(depth) else end.depth
    return min(beyond, key=lambda other: abs(math.log(other / aim)), default=None)


def _open_end(optimum: Optimum, tried: Sequence[Shape]) -> Shape | None:
    """The end of the confirmed depths at or beyond which the best may lie; None when enclosed."""
    if optimum.optimal_depth is None:
        return None
    low = high = optimum.optimal_depth
    if optimum.interval and optimum.verdict is Verdict.EDGE:
        low, high = optimum.interval
    if high >= tried[-1].depth:
        return tried[-1]
    return tried[0] if low <= tried[0].depth else None


def _contenders(optimum: Optimum, finished: set[Shape]) -> list[Shape]:
    """The confirmed shapes whose depth may still be the best, by depth."""
    confirmed = {shape.depth for shape in finished}
    possible = _possible([own for own in optimum.depths if own.depth in confirmed])
    own = [shape for shape in finished if shape.depth in possible]
    return sorted(own, key=lambda shape: shape.depth)


def _possible(depths: Sequence[DepthLoss]) -> set[int]:
    """Those of the depths that are not certainly worse than the best of them."""
    best = min(depths, key=lambda own: own.loss, default=None)
    return {
        own.depth
        for own in depths
        if best
        and own.loss - best.loss <= WORSE * math.hypot(own.standard_error, best.standard_error)
    }


def _settled(optimum: Optimum) -> bool:
    """More seeds could not change the verdict: one depth is left, or all are as good."""
    one_left = optimum.interval is not None and optimum.interval[0] == optimum.interval[1]
    return optimum.verdict is Verdict.PLATEAU or (
        optimum.verdict is Verdict.IDENTIFIED and one_left
    )


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
