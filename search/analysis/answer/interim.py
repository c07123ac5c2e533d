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
    """The loss of one depth at the horizon, measured or forecast."""

    depth: int
    loss: float
    """Nats per token."""
    error: float
    """Standard error of `loss`, nats."""
    finished: bool
    """True if a trial of the depth finished; otherwise the loss is a forecast."""


@dataclass(frozen=True, slots=True)
class DepthLosses:
    """The losses of the depths of one budget, ascending in depth, and the curve through them."""

    losses: tuple[DepthLoss, ...]
    curve: PowerCurve


ENOUGH_DEPTHS = 3
"""Fewest finished depths at which the answer is computed as at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnswer:
    """The answer of one budget at some point of its search."""

    budget: int
    tokens: int
    """Sum of the training tokens of all trials of the budget."""
    time: float
    """Unix time of the last evaluation."""
    depth: int
    """The incumbent depth."""
    low: int | None
    """Shallow end of the best depth's 95 % interval; None before enough depths finished.
    """
    high: int | None
    """Deep end of that interval."""
    verdict: Kind | None
    """The verdict on the trials so far; None before enough depths finished."""
    loss: float | None
    """Expected loss at `depth`, nats, as in the report; None without a verdict."""
    lowest_loss: float
    """The lowest held-out loss of any evaluation of any trial."""
    trials: dict[str, int]
    """Outcome, or `running` -> number of trials; every key is present."""


def interim_answer(
    records: Sequence[TrialRecord], *, seed: int, done: bool = False
) -> InterimAnswer | None:
    """Interim answer from the trials of one budget; None before any loss can be forecast, and if
    the budget is `done` without a finished trial.

    Once enough depths finished, or the budget is `done`, it is computed like the final answer.
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
