"""The confirmation stage of a budget: its best depths, trained to the end with fresh seeds.

It goes in batches. Each is planned from all records and adds what the answer still lacks: a depth
beyond the lowest one, or another seed of those in question. The stage ends when its depths enclose
the optimum with as many seeds as the noise asks for, or when more could not change the verdict.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fathom.models.shape import Shape
from fathom.search.analysis.depth_estimates import (
    KNOWN_NOISE,
    DepthEstimate,
    combine_shapes,
    seed_noise,
)
from fathom.search.analysis.forecast import forecasts
from fathom.search.analysis.joint_curve import incumbent_depth
from fathom.search.analysis.optimum import Optimum, find_optimum
from fathom.search.analysis.verdict import Verdict, seeds_to_resolve
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.study.groups import ConfirmConfig

FIRST_DEPTHS = 3
"""Depths of the first batch: the fewest that can show an optimum between them."""
FIRST_SEEDS = 2
"""Seeds of the first batch: the fewest that show the noise."""
WORSE = 3
"""Standard errors of a difference from which on a depth gets no more seeds."""
STEP = 2
"""Confirmed depths lie about this factor apart. By a lesser one their losses differ by less than
seeds do, by a larger one no curve holds between them: `python -m benchmarks.answers.coverage`."""
DEPTH_COUNTS = 3
"""Weight of depth against ratio in the distance of shapes: 10 % in depth equals 30 % in ratio."""
SPACING = 1.2
"""Confirmed depths are at least this factor apart: closer ones can't be told apart anyway, and a
fit through them would say nothing of the curve."""
FRESH_SEEDS_FROM = 1000
"""Seeds below this number explore, so that no confirming trial repeats a run that got it chosen."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A trial to run: shape, number of the seed, multiple of the learning rate."""

    shape: Shape
    seed: int
    rate_scale: float


def next_confirmations(
    config: ConfirmConfig, shapes: tuple[Shape, ...], records: Sequence[TrialRecord]
) -> tuple[Choice, ...]:
    """The next batch of confirming trials of a budget; empty once it is settled.

    First depths that enclose the optimum, then the bracket of rates where it matters, then seeds of
    what can't be told apart. All depths share seeds, hence data in the same order.
    """
    confirming = [r for r in records if r.spec.stage is Stage.CONFIRM]
    tried = sorted({r.spec.shape for r in confirming}, key=lambda shape: shape.depth)
    if not tried:
        first = leading_shapes(min(FIRST_DEPTHS, config.depths), shapes, records)
        return _choices(first, range(min(FIRST_SEEDS, config.seeds)))
    done = {r.spec.shape for r in confirming if r.outcome is Outcome.FINISHED}
    finished = [shape for shape in tried if shape in done]
    optimum = find_optimum(records, seed=0)
    seeds = 1 + max(r.spec.seed for r in confirming) - FRESH_SEEDS_FROM
    beyond = _beyond(optimum, shapes, tried, finished) if len(tried) < config.depths else None
    if beyond:
        return _choices([beyond], range(seeds))
    contenders = _contenders(optimum, finished)
    bracket = _bracket(config, contenders, tried, confirming)
    if bracket:
        return bracket
    known = seed_noise(confirming)[1] >= KNOWN_NOISE
    if not known and seeds < config.seeds:
        return _choices(finished, [seeds])
    if len(contenders) < 2 or _settled(optimum) or seeds >= enough_seeds(optimum.noise, config):
        return ()
    return _choices(contenders, [seeds])


def ladder_confirmations(
    config: ConfirmConfig, records: Sequence[TrialRecord]
) -> tuple[Choice, ...]:
    """Every seed and rate of the best explored shapes, all at once."""
    ranked = sorted(forecasts(records), key=lambda own: own.loss)
    best = list(dict.fromkeys(own.shape for own in ranked))[: config.depths]
    best.sort(key=lambda shape: shape.depth)
    return _choices(best, range(config.seeds)) + _other_rates(config, best)


def enough_seeds(noise: float, config: ConfirmConfig) -> int:
    """Seeds that tell depths apart by the width of a plateau, within the limit of the study."""
    return min(config.seeds, max(FIRST_SEEDS, seeds_to_resolve(noise)))


def leading_shapes(
    depths: int, shapes: tuple[Shape, ...], records: Sequence[TrialRecord]
) -> tuple[Shape, ...]:
    """The shapes of the incumbent depth and of depths a step away, by depth; empty when no trial
    gave a loss.

    All have one feed-forward ratio, the best that the trials support: a depth would seem poor at a
    poor ratio.
    """
    centre = incumbent_depth(records)
    if centre is None:
        return ()
    ratio = combine_shapes(forecasts(records)).best_ratio
    nearest = min((shape.depth for shape in shapes), key=lambda d: abs(math.log(d / centre)))
    around = [shape for shape in shapes if not _apart(shape.depth, nearest)]
    middle = min(around, key=lambda shape: _off(shape, centre, ratio) + _alone(shape, shapes))
    chosen = [middle]
    for shape in _steps(middle, shapes):
        if len(chosen) < depths and all(_apart(shape.depth, other.depth) for other in chosen):
            chosen.append(shape)
    return tuple(sorted(chosen, key=lambda shape: shape.depth))


def _steps(middle: Shape, shapes: tuple[Shape, ...]) -> list[Shape]:
    """Shapes 1, 2, ... steps away from `middle` on either side, each of nearly its ratio."""
    low, high = (f(shape.depth for shape in shapes) / middle.depth for f in (min, max))
    sides = range(math.floor(math.log(low, STEP)), math.ceil(math.log(high, STEP)) + 1)
    ordered = sorted((step for step in sides if step), key=lambda step: (abs(step), step))
    return [_comparable(shapes, middle.depth * STEP**step, middle.ff_ratio) for step in ordered]


def _alone(middle: Shape, shapes: tuple[Shape, ...]) -> float:
    """Mean |ln ratio| distance from `middle` of the shapes one or more depth steps away."""
    others = _steps(middle, shapes) or [middle]
    return statistics.fmean(_off(other, other.depth, middle.ff_ratio) for other in others)


def _comparable(shapes: tuple[Shape, ...], depth: float, ratio: float) -> Shape:
    """The shape nearest to a depth and a ratio; the ratio weighs more than its share of the loss,
    since its effect is known too little to compare depths across ratios."""
    return min(shapes, key=lambda shape: _off(shape, depth, ratio))


def _off(shape: Shape, depth: float, ratio: float) -> float:
    return DEPTH_COUNTS * abs(math.log(shape.depth / depth)) + shape.off_ratio(ratio)


def _choices(shapes: Sequence[Shape], seeds: Iterable[int]) -> tuple[Choice, ...]:
    return tuple(Choice(shape, FRESH_SEEDS_FROM + n, 1.0) for n in seeds for shape in shapes)


def _bracket(
    config: ConfirmConfig,
    contenders: Sequence[Shape],
    tried: Sequence[Shape],
    confirming: Sequence[TrialRecord],
) -> tuple[Choice, ...]:
    """The other rates of the depths that may be the best and of their neighbours, not yet run.

    On the first seed only: the gain it finds belongs to the shape, and rates cost as much as seeds.
    """
    near = {at + k for at in map(tried.index, contenders) for k in (-1, 0, 1)}
    shapes = [shape for index, shape in enumerate(tried) if index in near]
    started = {(record.spec.shape, record.spec.rate_scale) for record in confirming}
    others = _other_rates(config, shapes)
    return tuple(choice for choice in others if (choice.shape, choice.rate_scale) not in started)


def _other_rates(config: ConfirmConfig, shapes: Sequence[Shape]) -> tuple[Choice, ...]:
    rates = [rate for rate in config.rates if rate != 1.0]
    return tuple(Choice(shape, FRESH_SEEDS_FROM, rate) for rate in rates for shape in shapes)


def _beyond(
    optimum: Optimum, shapes: tuple[Shape, ...], tried: Sequence[Shape], finished: Sequence[Shape]
) -> Shape | None:
    """A shape without which the confirmed ones do not enclose the optimum; None when they do.

    An end of the confirmed depths encloses it if that depth is certainly worse than the best, if a
    trained depth not far beyond it is, or if no shape lies beyond it. An end at which no trial
    finished counts as enclosing: what is deeper than a diverging model diverges too.
    """
    losses = {own.depth: own.loss for own in optimum.depths}
    possible = _possible(optimum.depths)
    worse = set(losses) - possible
    ratio = math.exp(statistics.fmean(shape.ln_ff_ratio for shape in tried))
    ends = {tried[0], tried[-1]}.intersection(finished)
    for end in sorted(ends, key=lambda shape: losses[shape.depth]):
        shallow = end == tried[0]
        low, high = sorted((end.depth, end.depth / STEP if shallow else end.depth * STEP))
        beyond = _comparable(shapes, low if shallow else high, ratio)
        outside = beyond.depth < end.depth if shallow else beyond.depth > end.depth
        enclosed = end.depth not in possible or any(low <= depth <= high for depth in worse)
        if not enclosed and outside and _apart(beyond.depth, end.depth):
            return beyond
    return None


def _contenders(optimum: Optimum, finished: Sequence[Shape]) -> list[Shape]:
    """The confirmed shapes whose depth may still be the best, by depth."""
    confirmed = {shape.depth for shape in finished}
    possible = _possible([own for own in optimum.depths if own.depth in confirmed])
    return [shape for shape in finished if shape.depth in possible]


def _possible(depths: Sequence[DepthEstimate]) -> set[int]:
    """The depths that are not certainly worse than the best of them."""
    best = min(depths, key=lambda own: own.loss, default=None)
    return {
        own.depth
        for own in depths
        if best
        and own.loss - best.loss <= WORSE * math.hypot(own.standard_error, best.standard_error)
    }


def _settled(optimum: Optimum) -> bool:
    """True if more seeds could not change the verdict: one depth is left, or all are as good."""
    one_left = optimum.interval is not None and optimum.interval[0] == optimum.interval[1]
    return optimum.verdict is Verdict.PLATEAU or (
        optimum.verdict is Verdict.IDENTIFIED and one_left
    )


def _apart(depth: int, other: int) -> bool:
    return max(depth, other) / min(depth, other) >= SPACING
