"""Finds the optimum of one budget: the verdict and, if it can be located, the best depth with its
interval and plateau.

It needs only records: `depth_estimates.py` estimates the loss of each depth, `posterior.py` draws
possible losses of all depths, `judging.py` turns the result into a verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fathom.models.shape import Shape
from fathom.search.analysis.answer.joint_answer import find_tuned
from fathom.search.analysis.answer.located import (
    ENOUGH_DEPTHS,
    curve_points,
    located,
    not_located,
    with_tokens_of_shape,
)
from fathom.search.analysis.answer.optimum import Located, NotLocated, Optimum
from fathom.search.analysis.answer.verdict import (
    PLATEAU_WIDTH,
    BelowMeasured,
    Kind,
    TheseDepths,
    TooFewSizes,
    Verdict,
)
from fathom.search.analysis.curve.posterior import DRAWS, Posterior, find_posterior
from fathom.search.analysis.losses.depth_estimates import NO_ERRORS, estimate_depths
from fathom.search.records import TrialRecord, by_budget, in_order_of_names

MOST_FALL = 0.25
"""Largest fall of the expected loss below the lowest measured loss, as a share of the range of
measured losses: twice that of a parabola through three evenly spaced depths, two of them equally
low."""


def find_optima(
    records: Sequence[TrialRecord], *, seed: int, noise: float | None = None
) -> tuple[Optimum, ...]:
    """Returns the optimum of each budget, in order of budgets; `noise` is as in `find_optimum`."""
    budgets = by_budget(records).values()
    return tuple(find_optimum(trials, seed=seed, noise=noise) for trials in budgets)


def find_optimum(
    records: Sequence[TrialRecord], *, seed: int, draws: int = DRAWS, noise: float | None = None,
    errors: Mapping[Shape, float] = NO_ERRORS, trained: bool = True,
) -> Optimum:  # fmt: skip
    """Returns the optimum of the only budget of the records; it depends on the seed, not on the
    order of the records.

    `noise` between seeds, nats, is measured if None; `errors` are further standard errors of the
    losses of shapes, nats. If `trained`, only a depth that finished can be the answer.

    Raises:
        ValueError: when the records are of no budget or of several.
    """
    return find_with_posterior(
        records, seed=seed, draws=draws, noise=noise, errors=errors, trained=trained
    )[0]


def find_with_posterior(
    records: Sequence[TrialRecord], *, seed: int, draws: int = DRAWS, noise: float | None = None,
    errors: Mapping[Shape, float] = NO_ERRORS, trained: bool = True,
) -> tuple[Optimum, Posterior | None]:  # fmt: skip
    """Returns the optimum and its posterior; no posterior with fewer than three finished depths."""
    spec = _only_budget(records).spec
    budget, records = spec.budget, in_order_of_names(records)
    if spec.count.frees_size:
        found = find_tuned(records, seed=seed, draws=draws, noise=noise)
        if found:
            return found.optimum, found.surface.by_depth.posterior
        return _without_surface(
            records, not_located(records, estimate_depths(records, noise))
        ), None
    estimates = estimate_depths(records, noise, errors)
    points = curve_points(records, estimates)
    if points is None:
        return with_tokens_of_shape(not_located(records, estimates), records), None
    generator = np.random.default_rng([seed, budget])
    posterior = find_posterior(points, estimates.repeats, generator, draws=draws)
    posterior = posterior.in_steps(records[0].spec.shape.depth_step)
    possible = np.array([estimate.depth for estimate in estimates.depths])
    optimum = located(
        records, estimates, points, posterior, possible if trained else posterior.depths
    )
    if optimum.kind is not Kind.INSUFFICIENT and (cause := _below_measured(optimum)):
        remedy = TheseDepths((cause.depth,), tuple(points.depths.tolist()))
        lowest = replace(
            not_located(records, estimates), verdict=Verdict(Kind.INSUFFICIENT, cause, remedy)
        )
        return with_tokens_of_shape(lowest, records), None
    return with_tokens_of_shape(optimum, records), posterior


def _without_surface(records: Sequence[TrialRecord], optimum: NotLocated) -> NotLocated:
    """The optimum of a budget whose size is free, but whose trials don't determine the loss over
    size and depth; its cause is that too few depths, or too few sizes, finished."""
    if len(optimum.depths) < ENOUGH_DEPTHS:
        return optimum
    sizes = sorted({r.spec.shape.params_total for r in records if r.loss is not None})
    return replace(optimum, verdict=replace(optimum.verdict, cause=TooFewSizes(tuple(sizes))))


def _below_measured(optimum: Located) -> BelowMeasured | None:
    """The verdict's cause if the expected loss lies implausibly far below the lowest measured loss;
    None if it does not."""
    losses = [estimate.loss for estimate in optimum.depths]
    fall, error = min(losses) - optimum.expected_loss, max(e.standard_error for e in optimum.depths)
    if fall <= max(MOST_FALL * (max(losses) - min(losses)), PLATEAU_WIDTH, 2 * error):
        return None
    return BelowMeasured(optimum.expected_depth, optimum.expected_loss, min(losses))


def _only_budget(records: Sequence[TrialRecord]) -> TrialRecord:
    budgets = list(by_budget(records))
    if len(budgets) != 1:
        remedy = "use `find_optima`" if budgets else "run the study first"
        raise ValueError(f"trials must be of one budget, got budgets {budgets}; {remedy}")
    return records[0]
