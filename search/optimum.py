"""The best depth of one budget, with what is and is not known about it.

From records alone: `evidence.py` says how good each depth is, `curve.py` draws the curve through
the depths, `verdict.py` puts into words what follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log

import numpy as np
from numpy.random import Generator

from models.shape import Count, Shape
from search.curve import (
    CLEAR,
    Array,
    LocalFit,
    Parabola,
    Points,
    draw_losses,
    draw_optima,
    fit_local,
    whole_depth,
)
from search.evidence import KNOWN_NOISE, DepthEvidence, Evidence, gather
from search.records import Outcome, TrialRecord
from search.verdict import PLATEAU_WIDTH, Location, Verdict, judge

PLATEAU_PROBABILITY = 0.1
"""A depth belongs to the plateau from this probability on of lying within `PLATEAU_WIDTH`."""


CERTAIN = 3
"""Standard errors of a difference from which on the interval leaves a depth out. More than for the
optimum itself, since a wrong exclusion costs coverage: at two errors one side errs 1 time in 44."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthLoss:
    """One depth's evidence at the horizon."""

    depth: int
    loss: float
    """Mean corrected loss, nats per token."""
    standard_error: float
    trials: int
    """Finished trials behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """How deep a model of one budget should be, after `tokens` of training."""

    budget: int
    count: Count
    tokens: int
    """The horizon."""
    optimal_depth: int | None
    """None only when nothing finished."""
    interval: tuple[int, int] | None
    """95 %, whole depths; None with fewer than three depths."""
    plateau: tuple[int, ...]
    """Every tested depth that can't be told from the best."""
    verdict: Verdict
    reason: str
    """One sentence; for `edge` and `insufficient` it names the setting to change."""
    loss: float | None
    """Fitted (or mean) loss at `optimal_depth`, nats per token."""
    shape: Shape | None
    """The best finished shape at `optimal_depth`, or at the nearest tested depth."""
    fit: Parabola | None
    """None with fewer than three depths, or when the fit does not open upwards."""
    depths: tuple[DepthLoss, ...]
    """By depth, ascending."""
    noise: float
    """Standard deviation of the loss between seeds, nats per token."""
    trials: dict[str, int]
    """Outcome -> number of trials, every outcome present."""


def find_optima(records: Sequence[TrialRecord], *, seed: int) -> tuple[Optimum, ...]:
    """One optimum a budget, by budget."""
    ordered = sorted(records, key=_budget)
    return tuple(find_optimum(list(own), seed=seed) for _, own in groupby(ordered, key=_budget))


def find_optimum(records: Sequence[TrialRecord], *, seed: int, draws: int = 2000) -> Optimum:
    """The optimum of the one budget that the records are of; the same for the same seed.

    Raises:
        ValueError: when the records are of no budget or of several.
    """
    spec = _only_budget(records).spec
    evidence = gather(records)
    points = _points(evidence)
    generator = np.random.default_rng([seed, spec.budget])
    freedom = max(evidence.degrees_of_freedom, KNOWN_NOISE)
    drawn = draw_losses(points, generator, draws=draws, degrees_of_freedom=freedom)
    fit = fit_local(points) if len(points.depths) >= 3 else None
    depth = decide(points, fit)
    location = _locate(fit, depth, drawn, generator) if fit and depth else None
    best = _nearest(evidence, depth) if depth else None
    plateau = _plateau(evidence, drawn, best) if best else ()
    verdict, reason = judge(records, evidence, location, plateau)
    return Optimum(
        budget=spec.budget,
        count=spec.count,
        tokens=spec.horizon_tokens,
        optimal_depth=depth,
        interval=location.interval if location else None,
        plateau=plateau,
        verdict=verdict,
        reason=reason,
        loss=_loss(fit, depth, best) if depth and best else None,
        shape=best.shape if best else None,
        fit=fit.parabola if fit and fit.opens_upwards else None,
        depths=tuple(
            DepthLoss(
                depth=own.depth,
                loss=own.loss,
                standard_error=own.standard_error,
                trials=own.trials,
            )
            for own in evidence.depths
        ),
        noise=evidence.noise,
        trials={own.value: sum(r.outcome is own for r in records) for own in Outcome},
    )


def decide(points: Points, fit: LocalFit | None) -> int | None:
    """The depth where the parabola is lowest, unless the losses contradict it; None without any.

    It may not lie at or beyond a tested depth that is clearly worse than the best tested one; then,
    and where there is no parabola that opens upwards, the best tested depth stands.
    """
    if not len(points.depths):
        return None
    best = int(points.depths[points.best])
    if fit is None or not fit.opens_upwards:
        return best
    turn = _turn(fit)
    shallowest, deepest = _possible(points, CLEAR)
    return turn if shallowest <= turn <= deepest else best


def _possible(points: Points, errors: float) -> tuple[int, int]:
    """Shallowest and deepest depth that can be the best, when the curve has one hump.

    Both lie short of the tested depths that are worse than the best tested one by that many
    standard errors.
    """
    best = int(points.depths[points.best])
    worse = points.depths[points.height(errors) > 0].tolist()
    below = max((depth + 1 for depth in worse if depth < best), default=int(points.depths[0]))
    above = min((depth - 1 for depth in worse if depth > best), default=int(points.depths[-1]))
    return below, above


def _turn(fit: LocalFit) -> int:
    """The whole depth at which the parabola is lowest inside the tested range."""
    low, high = fit.points.depths[[0, -1]].tolist()
    return whole_depth(min(max(fit.parabola.vertex_depth, low), high))


def _locate(fit: LocalFit, depth: int, drawn: Array, generator: Generator) -> Location:
    """The interval of the optimum, and how often it falls on an end of the range."""
    optima = draw_optima(fit, drawn, generator)
    shallowest, deepest = _possible(fit.points, CERTAIN)
    low, high = (
        min(max(whole_depth(quantile), shallowest), deepest)
        for quantile in np.quantile(optima, [0.025, 0.975])
    )
    shallow, deep = (np.isclose(optima, end).mean() for end in fit.points.depths[[0, -1]])
    return Location(
        depth=depth,
        interval=(min(low, depth), max(high, depth)),
        shallow_share=float(shallow),
        deep_share=float(deep),
    )


def _plateau(evidence: Evidence, drawn: Array, best: DepthEvidence) -> tuple[int, ...]:
    """Depths close to the best with at least `PLATEAU_PROBABILITY`, given what each measured.

    By the measured losses and not by the parabola, which says little of depths far from the best.
    On a curve of one hump nothing lies close beyond a depth that does not.
    """
    place = evidence.depths.index(best)
    close = (drawn - drawn[place] <= PLATEAU_WIDTH).mean(axis=1) >= PLATEAU_PROBABILITY
    first, last = place, place
    while first > 0 and close[first - 1]:
        first -= 1
    while last + 1 < len(close) and close[last + 1]:
        last += 1
    return tuple(own.depth for own in evidence.depths[first : last + 1])


def _loss(fit: LocalFit | None, depth: int, best: DepthEvidence) -> float:
    """By the parabola where it decided, else as measured."""
    decided = fit is not None and fit.opens_upwards and _turn(fit) == depth
    return fit.parabola(depth) if fit and decided else best.loss


def _nearest(evidence: Evidence, depth: int) -> DepthEvidence:
    """The tested depth nearest by ratio."""
    return min(evidence.depths, key=lambda own: abs(log(own.depth / depth)))


def _points(evidence: Evidence) -> Points:
    return Points(
        depths=np.array([own.depth for own in evidence.depths], dtype=np.int64),
        losses=np.array([own.loss for own in evidence.depths], dtype=np.float64),
        errors=np.array([own.standard_error for own in evidence.depths], dtype=np.float64),
    )


def _only_budget(records: Sequence[TrialRecord]) -> TrialRecord:
    budgets = sorted({_budget(record) for record in records})
    if len(budgets) != 1:
        raise ValueError(
            f"an optimum is of the trials of one budget, got budgets {budgets}; "
            + ("use `find_optima`" if budgets else "run the study first")
        )
    return records[0]


def _budget(record: TrialRecord) -> int:
    return record.spec.budget
