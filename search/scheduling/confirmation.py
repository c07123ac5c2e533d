"""The confirming stage of a budget: trials that run to the end, chosen to tell most about the best
depth.

The stage has batches. Each is planned from all records and asks for what the answer still lacks: a
paused depth that may be the best, a depth beyond the lowest one, other learning rates, a repeat
that shows the noise, and then the training that narrows the interval most. When the interval is
narrow enough, its untrained depths are trained; when all depths are equally good, the depth that is
expected to cost least is trained, so that it can be the answer. The stage ends there, or at the
limits of the study.
"""

import math
from collections.abc import Sequence

from fathom.search.analysis.answer.interim import ENOUGH_DEPTHS
from fathom.search.analysis.curve.joint_curve import finished_depths, incumbent_depth
from fathom.search.analysis.losses.depth_estimates import combine_shapes
from fathom.search.analysis.losses.forecast import forecastable, forecasts
from fathom.search.analysis.losses.rates import Factor
from fathom.search.records import UNSCALED, Outcome, Stage, TrialRecord
from fathom.search.scheduling.trained_depths import (
    FRESH_SEEDS_FROM,
    Choice,
    TrainedDepths,
    choice_of,
    possible_depths,
    usual_ratio,
)
from fathom.search.study.keys.groups import ConfirmConfig

CURVE_DEPTHS = 3
"""Number of depths that are trained to the end together, the best so far among them: as many as a
curve needs."""
OTHER_RATIO = 0.5
"""Difference of ln feed-forward ratios above which shapes of two depths can't be compared."""


def next_confirmations(trained: TrainedDepths) -> tuple[Choice, ...]:
    """The next batch of confirming trials of a budget; empty once it is settled."""
    records, config = trained.records, trained.limits.confirm
    resumed = _may_be_best(records) or _for_a_curve(config, records)
    if resumed or not trained.losses:
        return resumed
    steps = (
        trained.beyond,
        trained.rates,
        trained.repeats,
        trained.better_ratio,
        trained.unlucky,
        trained.telling,
    )
    wanted: dict[Choice, None] = {}
    for step in steps:
        wanted |= dict.fromkeys(choice for choice in step() if choice not in trained.spent)
        if len(wanted) >= config.together:
            break
    return tuple(wanted) or trained.asked()


def ladder_confirmations(trained: TrainedDepths) -> tuple[Choice, ...]:
    """Trials of the best explored shapes with every seed, learning rate and weight decay, in one
    batch; empty once there are confirming trials."""
    records, config = trained.records, trained.limits.confirm
    if any(record.spec.stage is Stage.CONFIRM for record in records):
        return ()
    ranked = sorted(forecasts(records), key=lambda forecast: forecast.loss)
    best = list(dict.fromkeys(forecast.shape for forecast in ranked))[: config.depths]
    best.sort(key=lambda shape: shape.depth)
    seeds = [FRESH_SEEDS_FROM + number for number in range(config.seeds)]
    scales = [
        *(Factor.RATE.scale(rate) for rate in config.rates),
        *(Factor.DECAY.scale(decay) for decay in config.decays),
    ]
    return tuple(Choice(shape, seed, 1.0) for seed in seeds for shape in best) + tuple(
        Choice(shape, FRESH_SEEDS_FROM, *scale)
        for scale in scales
        if scale != UNSCALED
        for shape in best
    )


def _may_be_best(records: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """The paused trials to resume: those of the best depth so far and its neighbours; without any,
    those of the depth with the best forecast; without any, the nearest one if fewer depths have
    finished than a curve needs."""
    comparable = _comparable(records)
    finished = finished_depths(comparable)
    paused = {
        record.spec.shape.depth: record
        for record in sorted(comparable, key=lambda record: record.shared_tokens)
        if record.outcome is Outcome.STOPPED and record.spec.shape.depth not in finished
    }
    centre = incumbent_depth(records)
    if not paused or centre is None:
        return ()
    estimates = combine_shapes(forecasts(forecastable(records))).depths
    tried = [estimate.depth for estimate in estimates]
    nearest = sorted(tried, key=lambda depth: abs(math.log(depth / centre)))
    around = set(_window(tried, nearest[0]))
    leading = possible_depths(estimates, 0)
    chosen = around.intersection(paused) or leading.intersection(paused)
    if not chosen and len(finished) < CURVE_DEPTHS:
        chosen = {next(depth for depth in nearest if depth in paused)}
    return tuple(choice_of(paused[depth]) for depth in sorted(chosen))


def _for_a_curve(config: ConfirmConfig, records: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """The paused trial nearest to the best depth so far, whatever its feed-forward ratio, while
    fewer depths have finished than a curve needs and the study allows."""
    finished = finished_depths(records)
    if len(finished) >= min(ENOUGH_DEPTHS, config.depths):
        return ()
    paused = [
        record
        for record in records
        if record.outcome is Outcome.STOPPED and record.spec.shape.depth not in finished
    ]
    centre = incumbent_depth(records)
    if not paused or centre is None:
        return ()
    nearest = min(paused, key=lambda record: abs(math.log(record.spec.shape.depth / centre)))
    return (choice_of(nearest),)


def _comparable(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The records with about the usual feed-forward ratio, so that their depths can be compared."""
    ratio = usual_ratio(records)
    return [record for record in records if record.spec.shape.off_ratio(ratio) <= OTHER_RATIO]


def _window(depths: Sequence[int], best: int) -> Sequence[int]:
    """As many neighbouring depths as a curve needs, with `best` in their middle if there are depths
    on both sides; `depths` must ascend."""
    first = depths.index(best) - CURVE_DEPTHS // 2
    first = max(0, min(first, len(depths) - CURVE_DEPTHS))
    return depths[first : first + CURVE_DEPTHS]
