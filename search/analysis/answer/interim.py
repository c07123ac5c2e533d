"""The interim answer of a budget while its search runs: the incumbent depth and its interval."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.curve.joint_curve import (
    finished_depths,
    fit_joint_curve,
    incumbent_depth,
)
from fathom.search.analysis.curve_families import PowerCurve
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.records import Outcome, TrialRecord


@dataclass(frozen=True, slots=True)
class DepthLoss:
    """The loss of one depth at the horizon, as far as it is known."""

    depth: int
    loss: float
    """Nats per token."""
    error: float
    """Standard error of `loss`, nats."""
    finished: bool
    """Whether a trial finished; the losses of other depths are forecasts."""


@dataclass(frozen=True, slots=True)
class DepthLosses:
    """The losses of the depths of one budget, ascending in depth, and the curve through them."""

    losses: tuple[DepthLoss, ...]
    curve: PowerCurve


ENOUGH_DEPTHS = 3
"""Number of confirmed depths from which the answer is computed as at the end."""


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
    """Shallow end of its 95 % interval, in whole depths; None before enough depths are confirmed.
    """
    high: int | None
    """Deep end of the interval."""
    verdict: Kind | None
    """The verdict on the trials so far; None without an interval, as long as the search runs."""
    loss: float | None
    """Loss at the best depth, as in the report; None without a verdict."""
    lowest_loss: float
    """The lowest held-out loss that any trial has had."""
    trials: dict[str, int]
    """Outcome, or `running` -> number of trials; every key is present."""


def interim_answer(
    records: Sequence[TrialRecord], *, seed: int, done: bool = False
) -> InterimAnswer | None:
    """Interim answer from the trials of one budget; None before any trial has a loss that counts,
    and for a budget that is done without a finished trial.

    Once enough depths are confirmed, or the budget is done, it is computed as the final answer is.
    """
    evaluated = [record for record in records if record.curve]
    depth = incumbent_depth(records)
    if depth is None:
        return None
    enough = done or len(finished_depths(records)) >= ENOUGH_DEPTHS
    optimum = find_optimum(records, seed=seed) if enough else None
    if optimum and optimum.lowest_depth is None:
        return None  # nothing finished
    low, high = (optimum and optimum.interval) or (None, None)
    outcomes = Counter(record.outcome for record in records)
    return InterimAnswer(
        budget=evaluated[0].spec.budget,
        tokens=sum(record.tokens for record in evaluated),
        time=max(record.curve[-1].time for record in evaluated),
        depth=(optimum and (optimum.optimal_depth or optimum.lowest_depth)) or depth,
        low=low,
        high=high,
        verdict=optimum.kind if optimum else None,
        loss=optimum.loss if optimum else None,
        lowest_loss=min(point.loss for record in evaluated for point in record.curve),
        trials={outcome.value: outcomes[outcome] for outcome in Outcome}
        | {"running": outcomes[None]},
    )


def depth_losses(records: Sequence[TrialRecord]) -> DepthLosses | None:
    """The losses of the depths so far, measured or forecast; None with fewer than three depths."""
    fitted = fit_joint_curve(records, estimate_depths(records))
    if fitted is None:
        return None
    done, points = finished_depths(records), fitted.points
    rows = zip(points.depths, points.losses, points.errors, fitted.certain, strict=True)
    losses = {
        int(depth): DepthLoss(int(depth), float(loss), float(error), int(depth) in done)
        for depth, loss, error, certain in rows
        if certain or int(depth) not in done
    }
    return DepthLosses(tuple(losses.values()), fitted.power)
