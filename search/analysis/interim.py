"""The interim answer of a budget while its search runs: the incumbent depth and its interval."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.search.analysis.curve_fit import draw, whole_depth
from fathom.search.analysis.depth_estimates import KNOWN_NOISE
from fathom.search.analysis.forecast import fit_forecasts, forecastable, forecasts
from fathom.search.analysis.joint_curve import confirmed_depths, incumbent_depth
from fathom.search.analysis.optimum import find_optimum
from fathom.search.records import Outcome, TrialRecord

DRAWS = 400
"""Bootstrap draws: enough for whole depths, in some ten milliseconds."""
ENOUGH_DEPTHS = 3
"""Number of confirmed depths from which the answer is computed from these alone, as at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnswer:
    """The answer of one budget at some point of its search."""

    budget: int
    tokens: int
    """Tokens on which all trials of the budget were trained together."""
    time: float
    """Unix time of the last evaluation."""
    depth: int
    """The incumbent depth."""
    low: int | None
    """Shallow end of its 95 % interval, in whole depths; None with fewer than three depths."""
    high: int | None
    """Deep end of the interval."""
    loss: float
    """The lowest held-out loss that any trial has had."""
    trials: dict[str, int]
    """Outcome, or `running` -> number of trials, each of them present."""


def interim_answer(records: Sequence[TrialRecord], *, seed: int) -> InterimAnswer | None:
    """The interim answer from the trials of one budget; None before any informative evaluation.

    It uses the forecast final loss of each trial until enough depths are confirmed.
    """
    evaluated = [record for record in records if record.curve]
    depth = incumbent_depth(records)
    if depth is None:
        return None
    if len(confirmed_depths(records)) >= ENOUGH_DEPTHS:
        optimum = find_optimum(records, seed=seed, draws=DRAWS)
        depth, interval = optimum.optimal_depth or depth, optimum.interval
    else:
        interval = _interval(records, depth, seed)
    outcomes = Counter(record.outcome for record in records)
    return InterimAnswer(
        budget=evaluated[0].spec.budget,
        tokens=sum(record.tokens for record in evaluated),
        time=max(record.curve[-1].time for record in evaluated),
        depth=depth,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        loss=min(point.loss for record in evaluated for point in record.curve),
        trials={own.value: outcomes[own] for own in Outcome} | {"running": outcomes[None]},
    )


def _interval(records: Sequence[TrialRecord], depth: int, seed: int) -> tuple[int, int] | None:
    """The 95 % interval over other seeds, shapes and forecasts."""
    curves = fit_forecasts(forecasts(forecastable(records)))
    if curves is None:
        return None
    generator = np.random.default_rng([seed, records[0].spec.budget])
    drawn = draw(curves, generator, draws=DRAWS, degrees_of_freedom=KNOWN_NOISE)
    low, high = map(whole_depth, drawn.interval)
    return min(low, depth), max(high, depth)
