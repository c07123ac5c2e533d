"""The best depth of one budget, located with its interval and plateau or not, and the verdict.

From records alone: `depth_estimates.py` estimates the loss of each depth, `posterior.py` draws what
the losses of all depths may be, `verdict.py` turns the result into a verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Count, Shape
from fathom.models.spend import Spend
from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer.verdict import (
    PLATEAU_WIDTH,
    BelowMeasured,
    Kind,
    Location,
    TheseDepths,
    Verdict,
    between_tested,
    judge,
    too_few_depths,
)
from fathom.search.analysis.curve.curve_fit import Fit, fit, points_of
from fathom.search.analysis.curve.joint_curve import fit_joint_curve, with_ruled_out_ends
from fathom.search.analysis.curve.posterior import DRAWS, Posterior, find_posterior
from fathom.search.analysis.curve_families import DepthPoints, Parabola, PowerCurve
from fathom.search.analysis.losses.depth_estimates import (
    NO_ERRORS,
    DepthEstimate,
    DepthEstimates,
    estimate_depths,
)
from fathom.search.analysis.surface.surface import Profile, SizeSurface, find_surface
from fathom.search.records import Outcome, TrialRecord, by_budget, in_order_of_names

PLATEAU_PROBABILITY = 0.1
"""Smallest probability of lying within `PLATEAU_WIDTH` of the best at which a depth belongs to the
plateau."""
MOST_FALL = 0.25
"""Share of the range of the measured losses by which the expected loss may lie below the lowest:
twice that of a parabola through three depths as far apart, of which two are equally low."""
ENOUGH_DEPTHS = 3
"""Depths from which on a curve can be fitted."""
MENTIONED = 0.01
"""Smallest probability of being the best at which a depth is listed with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The likeliest curve of each family through the losses of the depths."""

    power: PowerCurve
    """`a L^-p + b L^q + c`, which decides."""
    parabola: Parabola


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthCost:
    """Cost of a depth compared with the best one, nats."""

    depth: int
    nats: float
    """Expected loss above that of the best depth."""
    interval: tuple[float, float]
    """95 % interval of `nats`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSize:
    """The best size at an amount that all models spend."""

    spend: Spend
    unit: Unit
    sizes: tuple[int, int]
    """The smallest and the largest size that was trained so long."""
    size: int | None
    """Of the lowest expected loss; None with fewer than three sizes."""
    loss: float | None
    """Expected loss at `size`, nats."""
    interval: tuple[int, int] | None
    """95 % interval of the best size."""
    plateau: tuple[int, int] | None
    """The smallest and the largest size that can't be told from the best."""
    verdict: Verdict
    costs: tuple[DepthCost, ...]
    """What half and twice the size cost, as far as trained; its size stands for the depth."""
    noise: float
    """Standard deviation of the loss between seeds, nats."""
    region: tuple[tuple[int, int], ...] = ()
    """Pairs of size and depth that hold the best of both with a probability of 95 %, the likeliest
    first; empty for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAnswer:
    """Answer from the trials of one budget after `tokens` of training, located or not."""

    budget: int
    count: Count
    tokens: int
    """Training tokens of a trial that runs to the end; where they depend on the shape, of one of
    `shape`."""
    shared_spend: Spend | None = None
    """What each trial that runs to the end has spent, the same for all; None if that is `tokens`. A
    table may have steps, or not say it."""
    verdict: Verdict
    shape: Shape | None
    """The best finished shape of the answered depth, or for a table of another one where none of
    this depth is in it; None where no trial finished."""
    depths: tuple[DepthEstimate, ...]
    """Estimates of the depths, ascending."""
    noise: float
    """Standard deviation of the loss between seeds, nats per token."""
    params_slope: float
    """Slope by which losses were corrected for size, nats for each unit of ln(parameters)."""
    best_ff_ratio: float | None
    """Feed-forward ratio with the lowest loss, among those that finished; None without branches."""
    trials: dict[str, int]
    """Outcome -> number of trials, every outcome present."""
    unit: Unit = NATS
    """Unit in which the losses, which are in nats here, are told."""
    best_size: BestSize | None = None
    """The best size, where the budget leaves it free."""

    @property
    def spend(self) -> Spend:
        """Spend of each trial that runs to the end, the same for all."""
        return self.shared_spend or Spend(self.tokens)

    @property
    def kind(self) -> Kind:
        """The kind of the verdict."""
        return self.verdict.kind

    @property
    def least_depth(self) -> int:
        """The fewest layers that such a model can have."""
        return self.shape.least_depth if self.shape else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Located(BudgetAnswer):
    """The best depth of a budget with three finished depths or more."""

    optimal_depth: int
    """The depth that is expected to cost least against the best: of a search, of the plateau's
    depths that finished, or of all that did where none of these has; of a table, of all depths."""
    lowest_depth: int
    """The tested depth with the lowest measured loss."""
    loss: float
    """Expected loss at `optimal_depth`, nats per token."""
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    probabilities: tuple[tuple[int, float], ...]
    """Depths with their probability to be the best, the likeliest first, from `MENTIONED` on."""
    chance_of_cost: float
    """Probability that `optimal_depth` costs more than `PLATEAU_WIDTH` against the best."""
    curve_minimum: float
    """Depth where the curve is lowest, before rounding."""
    curve_minimum_interval: tuple[float, float]
    """95 % interval of `curve_minimum`, before rounding."""
    plateau: tuple[int, ...]
    """Every whole depth of the tested range that can not be distinguished from the best."""
    curves: Curves
    family_disagreement: float
    """Factor, at least 1, between the depths that the two families call best."""
    costs: tuple[DepthCost, ...]
    """What each other whole depth of the tested range costs, ascending."""
    share_without_minimum: float
    """Probability that the loss has no lowest point inside the tested range, but falls on to an
    end of it."""

    @property
    def curvature(self) -> float | None:
        """Nats that a unit of ln depth away from the best costs; None where the parabola has no
        lowest point."""
        c2 = self.curves.parabola.c2
        return c2 if c2 > 0 else None

    @property
    def better(self) -> DepthCost | None:
        """The depth that is expected to cost least, if it is not the answer: it did not finish."""
        least = min(self.costs, key=lambda cost: cost.nats, default=None)
        return least if least and least.nats < 0 else None

    @property
    def expected_depth(self) -> int:
        """The depth that is expected to cost least, whether it finished or not."""
        return self.better.depth if self.better else self.optimal_depth

    @property
    def expected_loss(self) -> float:
        """Expected loss at `expected_depth`, nats per token."""
        return self.loss + (self.better.nats if self.better else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLocated(BudgetAnswer):
    """A budget with fewer than three finished depths, or whose curve falls far below the measured
    losses."""

    lowest_depth: int | None
    """The tested depth with the lowest measured loss; None when no trial finished."""
    curves: ClassVar[None] = None
    """A curve takes three depths; likewise below, where a value is read off one."""
    interval: ClassVar[None] = None
    probabilities: ClassVar[tuple[tuple[int, float], ...]] = ()
    chance_of_cost: ClassVar[None] = None
    curve_minimum: ClassVar[None] = None
    curve_minimum_interval: ClassVar[None] = None
    family_disagreement: ClassVar[None] = None
    costs: ClassVar[tuple[DepthCost, ...]] = ()
    share_without_minimum: ClassVar[None] = None

    @property
    def optimal_depth(self) -> int | None:
        """The best of fewer than three depths; None where none finished."""
        return self.lowest_depth

    @property
    def loss(self) -> float | None:
        """Mean loss at `lowest_depth`, nats per token."""
        lowest = (known.loss for known in self.depths if known.depth == self.lowest_depth)
        return next(lowest, None)

    @property
    def plateau(self) -> tuple[int, ...]:
        """The best depth, if there is one."""
        return (self.optimal_depth,) if self.optimal_depth else ()

    @property
    def expected_depth(self) -> int | None:
        """The answer: without a curve, no other depth is expected to cost less."""
        return self.optimal_depth


Optimum = Located | NotLocated
"""The optimum of one budget."""


def find_optima(
    records: Sequence[TrialRecord], *, seed: int, noise: float | None = None
) -> tuple[Optimum, ...]:
    """Returns the optimum of each budget, by budget; `noise` is that of `find_optimum`."""
    budgets = by_budget(records).values()
    return tuple(find_optimum(trials, seed=seed, noise=noise) for trials in budgets)


def find_optimum(
    records: Sequence[TrialRecord], *, seed: int, draws: int = DRAWS, noise: float | None = None,
    errors: Mapping[Shape, float] = NO_ERRORS, trained: bool = True,
) -> Optimum:  # fmt: skip
    """Returns the optimum of the one budget that the records are of; the same for the same seed,
    whatever the order of the records.

    `noise` between seeds, nats, is measured unless it is stated; `errors` are standard errors,
    nats, that losses of shapes have besides. Only a depth that finished is the answer, unless
    `trained` is False.

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
    """Returns the optimum, and the posterior from which it is read: None with fewer than three
    finished depths."""
    spec = _only_budget(records).spec
    budget, records = spec.budget, in_order_of_names(records)
    if spec.count.frees_size:
        found = find_tuned(records, seed=seed, draws=draws, noise=noise)
        return (found.optimum, found.surface.by_depth.posterior) if found else (
            _not_located(records, estimate_depths(records, noise)), None
        )  # fmt: skip
    estimates = estimate_depths(records, noise, errors)
    points = _points(records, estimates)
    if points is None:
        return _with_tokens_of_shape(_not_located(records, estimates), records), None
    generator = np.random.default_rng([seed, budget])
    posterior = find_posterior(points, estimates.repeats, generator, draws=draws)
    posterior = posterior.in_steps(records[0].spec.shape.depth_step)
    possible = np.array([estimate.depth for estimate in estimates.depths])
    optimum = _located(
        records, estimates, points, posterior, possible if trained else posterior.depths
    )
    if optimum.kind is not Kind.INSUFFICIENT and (cause := _below_measured(optimum)):
        remedy = TheseDepths((cause.depth,), tuple(points.depths.tolist()))
        lowest = replace(
            _not_located(records, estimates), verdict=Verdict(Kind.INSUFFICIENT, cause, remedy)
        )
        return _with_tokens_of_shape(lowest, records), None
    return _with_tokens_of_shape(optimum, records), posterior


@dataclass(frozen=True, kw_only=True)
class JointAnswer:
    """The answer of a budget whose size is free, with the optima and the surface behind it."""

    optimum: Located
    """The best depth with the size tuned, and the best size."""
    by_size: Located
    """The best size with the depth tuned; places of sizes stand for depths."""
    surface: SizeSurface


def find_tuned(
    records: Sequence[TrialRecord], *, seed: int, draws: int = DRAWS, noise: float | None = None
) -> JointAnswer | None:
    """The best size and depth of the one budget that the records are of; None with too few
    finished depths or sizes."""
    generator = np.random.default_rng([seed, records[0].spec.budget])
    surface = find_surface(records, generator, noise=noise, draws=draws)
    if surface is None:
        return None
    depth, size = surface.by_depth, surface.by_size
    if min(len(depth.estimates.depths), len(size.estimates.depths)) < ENOUGH_DEPTHS:
        return None
    of_depths = _of_profile(records, depth, depth.possible)
    # A size between trained ones may be named, which no depth may: its shape is to be exported.
    of_sizes = _of_profile(_standing(records, surface), size, size.posterior.depths)
    sizes = [r.spec.shape.params_total for r in records if r.loss is not None]
    best = best_size_of(of_sizes, of_depths.spend, surface.size_at, (min(sizes), max(sizes)))
    ends = (of_sizes.plateau[0], of_sizes.plateau[-1])
    best = replace(
        best, interval=surface.ends_of(of_sizes.interval), plateau=surface.ends_of(ends),
        region=surface.region,
    )  # fmt: skip
    optimum = _with_tokens_of_shape(replace(of_depths, best_size=best), records)
    assert isinstance(optimum, Located), "it was"
    return JointAnswer(optimum=optimum, by_size=of_sizes, surface=surface)


def _of_profile(
    records: Sequence[TrialRecord], profile: Profile, possible: NDArray[np.int64]
) -> Located:
    """The optimum of one of the two profiles of a surface, one of the `possible` values."""
    posterior = profile.posterior
    return _located(records, profile.estimates, posterior.points, posterior, possible)


def _standing(records: Sequence[TrialRecord], surface: SizeSurface) -> list[TrialRecord]:
    """The records with the index of each shape's size in place of its depth."""
    shapes = {record.spec.shape: surface.place_of(record.spec.shape) for record in records}
    specs = [
        replace(r.spec, shape=replace(r.spec.shape, depth=shapes[r.spec.shape])) for r in records
    ]
    return [replace(record, spec=spec) for record, spec in zip(records, specs, strict=True)]


def best_size_of(
    found: Optimum, spend: Spend, size_of: Callable[[float], int], sizes: tuple[int, int]
) -> BestSize:
    """The best size, from an optimum whose depths stand for sizes; `size_of` maps a depth to its
    size."""
    ends = (found.interval, (found.plateau[0], found.plateau[-1])) if found.interval else None
    best = found.optimal_depth
    tried = [cost.depth for cost in found.costs]
    beside = {
        min(tried, key=lambda place: abs(place - best * factor))
        for factor in (sqrt(0.5), sqrt(2))
        if best and tried and tried[0] <= round(best * factor) <= tried[-1]
    }
    costs = [replace(cost, depth=size_of(cost.depth)) for cost in found.costs
             if cost.depth in beside]  # fmt: skip
    return BestSize(
        spend=spend,
        unit=found.unit,
        sizes=sizes,
        size=size_of(best) if best else None,
        loss=found.loss,
        interval=None if ends is None else (size_of(ends[0][0]), size_of(ends[0][1])),
        plateau=None if ends is None else (size_of(ends[1][0]), size_of(ends[1][1])),
        verdict=found.verdict,
        costs=tuple(costs),
        noise=found.noise,
    )


def optimum_of(
    records: Sequence[TrialRecord], estimates: DepthEstimates, posterior: Posterior
) -> Optimum:
    """Returns the optimum of one budget by a posterior from elsewhere, such as a model of many
    settings, with its estimates of the depths; `records` has one trial for each estimate."""
    points = posterior.points
    if len(points.depths) < ENOUGH_DEPTHS:
        return _not_located(records, estimates)
    return _located(records, estimates, points, posterior, posterior.depths)


def _below_measured(optimum: Located) -> BelowMeasured | None:
    """The cause of a verdict that the expected loss lies implausibly far below the lowest measured
    one; None if it does not."""
    losses = [estimate.loss for estimate in optimum.depths]
    fall, error = min(losses) - optimum.expected_loss, max(e.standard_error for e in optimum.depths)
    if fall <= max(MOST_FALL * (max(losses) - min(losses)), PLATEAU_WIDTH, 2 * error):
        return None
    return BelowMeasured(optimum.expected_depth, optimum.expected_loss, min(losses))


def _with_tokens_of_shape(optimum: Optimum, records: Sequence[TrialRecord]) -> Optimum:
    """The answer with the tokens that its shape trains on."""
    tokens = (r.spec.horizon_tokens for r in records if r.spec.shape == optimum.shape)
    return replace(optimum, tokens=next(tokens, optimum.tokens))


def _located(
    records: Sequence[TrialRecord],
    estimates: DepthEstimates,
    points: DepthPoints,
    posterior: Posterior,
    possible: NDArray[np.int64],
) -> Located:
    """The answer that a posterior gives, one of the `possible` depths."""
    shapes = {estimate.depth: estimate.shape for estimate in estimates.depths}
    finished = np.array(list(shapes))
    location = _locate(points, posterior, possible)
    curves, depth = fit(points), location.answer
    return Located(
        **_measured(records, estimates),
        verdict=judge(records, estimates, location),
        optimal_depth=depth,
        lowest_depth=int(points.depths[points.best]),
        loss=posterior.mean_loss(depth),
        shape=shapes.get(depth) or shapes[posterior.cheapest(finished)],
        interval=location.interval,
        probabilities=_likeliest_first(posterior),
        chance_of_cost=location.chance_for_answer,
        **_lowest_point(posterior),
        plateau=location.plateau,
        curves=Curves(power=curves.power, parabola=curves.parabola),
        family_disagreement=_disagreement(curves),
        costs=_costs(posterior, depth),
        share_without_minimum=location.shallow_share + location.deep_share,
    )


def _points(records: Sequence[TrialRecord], estimates: DepthEstimates) -> DepthPoints | None:
    """The finished depths, and those beyond them that forecasts rule out; None with fewer than
    three finished ones."""
    measured, joint = points_of(estimates), fit_joint_curve(records, estimates)
    if joint is None or len(measured.depths) < ENOUGH_DEPTHS:
        return None
    return with_ruled_out_ends(measured, joint)


def _measured(records: Sequence[TrialRecord], estimates: DepthEstimates) -> dict[str, Any]:
    """The fields of an answer that need no curve."""
    spec = records[0].spec
    branches = any(estimate.shape.d_ff for estimate in estimates.depths)
    return {
        "budget": spec.budget,
        "count": spec.count,
        "tokens": spec.horizon_tokens,
        "shared_spend": spec.shared_spend,
        "depths": estimates.depths,
        "noise": estimates.noise,
        "params_slope": estimates.params_slope,
        "best_ff_ratio": estimates.best_ratio if branches else None,
        "trials": {o.value: sum(record.outcome is o for record in records) for o in Outcome},
    }


def _not_located(records: Sequence[TrialRecord], estimates: DepthEstimates) -> NotLocated:
    best = min(estimates.depths, key=lambda estimate: estimate.loss, default=None)
    return NotLocated(
        **_measured(records, estimates),
        verdict=too_few_depths(estimates),
        shape=best.shape if best else None,
        lowest_depth=best.depth if best else None,
    )


def _locate(points: DepthPoints, posterior: Posterior, possible: NDArray[np.int64]) -> Location:
    """The best depth with its interval, what choosing it may cost, and the answer, which is one of
    the `possible` depths."""
    depth = posterior.cheapest(posterior.depths)
    interval, plateau = _interval(posterior, depth), _plateau(posterior, depth)
    ends = points.depths[[0, -1]]
    shallow, deep = (float(np.isclose(posterior.lowest, end).mean()) for end in ends)
    near = possible[np.isin(possible, plateau)]
    answer = posterior.cheapest(near if near.size else possible)
    tested = points.depths.tolist()
    return Location(
        depth=depth,
        answer=answer,
        shallowest=min(near.tolist(), default=answer),
        interval=interval,
        plateau=plateau,
        shallow_share=shallow,
        deep_share=deep,
        difference=posterior.worst(*between_tested(plateau, tested)),
        interval_difference=posterior.worst(*between_tested(interval, tested)),
        chance_of_cost=posterior.chance_of_cost(depth, PLATEAU_WIDTH),
        answer_cost=posterior.mean_loss(answer) - posterior.mean_loss(depth),
        chance_for_answer=posterior.chance_of_cost(answer, PLATEAU_WIDTH),
        rivals=posterior.rivals(answer, PLATEAU_WIDTH),
        tested=tested,
    )


def _interval(posterior: Posterior, depth: int) -> tuple[int, int]:
    """The central 95 % of the best whole depths, widened to hold `depth`."""
    low, high = np.quantile(posterior.best, [0.025, 0.975], method="inverted_cdf").tolist()
    return min(low, depth), max(high, depth)


def _plateau(posterior: Posterior, depth: int) -> tuple[int, ...]:
    """The depths around `depth`, without a gap, that lie within `PLATEAU_WIDTH` of the best with
    `PLATEAU_PROBABILITY` or more."""
    close = posterior.closeness(PLATEAU_WIDTH) >= PLATEAU_PROBABILITY
    first = last = int(posterior.at(depth))
    while first > 0 and close[first - 1]:
        first -= 1
    while last < len(close) - 1 and close[last + 1]:
        last += 1
    return tuple(posterior.depths[first : last + 1].tolist())


def _lowest_point(posterior: Posterior) -> dict[str, Any]:
    """The depth where the curve is lowest, with its interval, before rounding."""
    low, middle, high = np.quantile(posterior.lowest, [0.025, 0.5, 0.975]).tolist()
    return {"curve_minimum": middle, "curve_minimum_interval": (low, high)}


def _likeliest_first(posterior: Posterior) -> tuple[tuple[int, float], ...]:
    pairs = zip(posterior.depths.tolist(), posterior.probabilities.tolist(), strict=True)
    listed = [(depth, share) for depth, share in pairs if share >= MENTIONED]
    return tuple(sorted(listed, key=lambda pair: -pair[1]))


def _costs(posterior: Posterior, best: int) -> tuple[DepthCost, ...]:
    """Cost of each depth of the range compared with the best one."""
    above = posterior.losses - posterior.losses[:, [posterior.at(best)]]
    lows, highs = np.quantile(above, [0.025, 0.975], axis=0).tolist()
    rows = zip(posterior.depths.tolist(), above.mean(axis=0).tolist(), lows, highs, strict=True)
    return tuple(
        DepthCost(depth=depth, nats=nats, interval=(low, high))
        for depth, nats, low, high in rows
        if depth != best
    )


def _disagreement(curves: Fit) -> float:
    """Factor, at least 1, between the depths that the two families call best."""
    ratio = curves.optimum / curves.parabola_optimum
    return max(ratio, 1 / ratio)


def _only_budget(records: Sequence[TrialRecord]) -> TrialRecord:
    budgets = list(by_budget(records))
    if len(budgets) != 1:
        remedy = "use `find_optima`" if budgets else "run the study first"
        got = f"got budgets {budgets}; {remedy}"
        raise ValueError(f"an optimum is of the trials of one budget, {got}")
    return records[0]
