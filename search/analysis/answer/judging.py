"""The rules that give a budget its verdict."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np
from scipy.special import fdtrc, stdtrit

from fathom.search.analysis.answer.optimum import DepthCost
from fathom.search.analysis.answer.verdict import (
    PLATEAU_WIDTH,
    Advice,
    BestAtEnd,
    BetweenTested,
    Depths,
    Flat,
    FlatInterval,
    FlatRange,
    Kind,
    Larger,
    MayCostMore,
    MoreTokens,
    NarrowInterval,
    NoiseHidesDepth,
    NoiseUnknown,
    NoneFinishedBeyond,
    NothingShallower,
    RatioHidesDepth,
    Seeds,
    TheseDepths,
    TooFewDepths,
    Verdict,
)
from fathom.search.analysis.curve.curve_fit import points_of
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.depth_estimates import KNOWN_NOISE, DepthEstimates
from fathom.search.analysis.losses.stalls import SeedApart, find_stalls
from fathom.search.records import Outcome, TrialRecord

CHANCE_OF_COST = 0.05
"""Largest probability of costing more than `PLATEAU_WIDTH` at which a depth can be identified."""
FEWEST_SEEDS = 3
"""Fewest confirmation seeds that are advised."""
MOST_SEEDS = 12
"""Most confirmation seeds that are advised: beyond, a longer horizon separates depths at lower
cost."""
CERTAIN = 0.998
"""Confidence of the test, in `_flat`, that a depth is worse than the best."""
HIDDEN = 6 * PLATEAU_WIDTH
"""Difference, nats, that must be ruled out before a range is called flat."""
MOSTLY_LEVEL = 0.8
"""Share of the tested range, in ln depth, that the plateau must cover for the range to be flat."""
TOO_WIDE = 3
"""Factor between the ends of an interval, in whole depths, from which on no depth is identified.
For an interval without a tested depth, the tested depths next to it count as its ends."""
CHANCE_OF_FLAT = 0.01
"""Significance level of the test for an effect of depth."""
EDGE_SHARE = 0.25
"""Share of draws that are lowest at an end of the range, from which on the optimum may lie
beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The best depth of a budget by its posterior, with its interval and its possible cost."""

    depth: int
    """The depth that is expected to cost least, whether it finished or not."""
    answer: int
    """The finished depth that is named as the best; it is in the plateau if any depth there
    finished."""
    shallowest: int
    """The shallowest finished depth of the plateau; `answer` if none finished there."""
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    plateau: tuple[int, ...]
    """Whole depths that can not be distinguished from the best."""
    shallow_share: float
    """Probability that the loss falls on to the shallow end of the tested range."""
    deep_share: float
    difference: float
    """Upper 95 % bound, nats, on how much worse than the best any depth of the plateau is, between
    the plateau's outermost tested depths."""
    interval_difference: float
    """The same bound for the depths of the interval."""
    chance_of_cost: float
    """Probability that `depth` costs over `PLATEAU_WIDTH` more than the best."""
    answer_cost: float
    """Expected loss at `answer` above that at `depth`, nats."""
    chance_for_answer: float
    """Probability that `answer` costs over `PLATEAU_WIDTH` more than the best."""
    rivals: tuple[int, ...]
    """Depths that would be the best if `answer` cost more than `PLATEAU_WIDTH`, the likeliest
    first."""
    tested: Sequence[int]
    """The depths that finished, and depths beyond them that forecasts rule out, ascending."""
    costs: tuple[DepthCost, ...] = ()
    """Costs of the other depths compared with `answer`."""


def judge(records: Sequence[TrialRecord], estimates: DepthEstimates, location: Location) -> Verdict:
    """Returns the verdict on a budget with three finished depths or more.

    If the noise between seeds is unknown, only an edge can be recognised, by the usual noise and by
    how smoothly the losses vary with depth.
    """
    verdict = _judged(records, estimates, location)
    if verdict.kind is not Kind.EDGE and (apart := _deciding_seed(records, estimates)):
        return Verdict(Kind.INSUFFICIENT, apart, Seeds(max(FEWEST_SEEDS, apart.seeds + 1)))
    if estimates.repeats.degrees_of_freedom or verdict.kind is Kind.EDGE:
        return verdict
    return Verdict(Kind.INSUFFICIENT, NoiseUnknown(), Seeds(FEWEST_SEEDS))


def _judged(
    records: Sequence[TrialRecord], estimates: DepthEstimates, location: Location
) -> Verdict:
    """The verdict with the noise between seeds that is measured, or else with the usual noise.

    Flat comes before edge, because the ends of a flat range win by chance. A range of less than a
    factor `TOO_WIDE` is too short to be called flat.
    """
    tested, plateau, least = location.tested, location.plateau, records[0].spec.shape.least_depth
    level = _log2_span(plateau) / _log2_span(tested) if is_broad(tested) else 0.0
    if level >= MOSTLY_LEVEL or (level >= 0.5 and _flat(estimates)):
        return _flat_or_noisy(estimates, location)
    wide, all_tested = is_broad(location.interval), (tested[0], tested[-1])
    spans = location.interval == all_tested and (wide or location.depth not in all_tested)
    little = location.interval_difference <= HIDDEN and location.chance_of_cost <= CHANCE_OF_COST
    cut = [] if spans or (wide and little) else open_ends(location.interval, tested, least)
    ends = {location.depth, *cut}
    falls_on = tested[0] > least and location.shallow_share >= EDGE_SHARE
    if location.depth != tested[-1] and (tested[0] in ends or falls_on):
        return _edge_below(records, tested[0], least)
    if tested[-1] in ends or location.deep_share >= EDGE_SHARE:
        return _edge_above(records, tested[-1])
    if wide or spans or location.chance_of_cost > CHANCE_OF_COST:
        if location.interval_difference > HIDDEN:
            return _may_cost_more(estimates, location)
        return _plateau(FlatInterval, location, location.interval)
    below, above = _around(location)
    remedy = TheseDepths((location.depth,), tuple(tested))
    if above >= TOO_WIDE * below:
        cause = BetweenTested(location.interval, below, above)
        return Verdict(Kind.INSUFFICIENT, cause, remedy)
    if location.answer_cost > PLATEAU_WIDTH:
        return Verdict(Kind.INSUFFICIENT, _cost_of(location), remedy)
    return Verdict(Kind.IDENTIFIED, NarrowInterval(location.interval, (tested[0], tested[-1])))


def _deciding_seed(records: Sequence[TrialRecord], estimates: DepthEstimates) -> SeedApart | None:
    """The seed, far below the others of its shape, that alone makes its depth about the best; None
    without such a seed."""
    for apart in find_stalls(records).undecided:
        rivals = [estimate.loss for estimate in estimates.depths if estimate.depth != apart.depth]
        if apart.loss < min(rivals) + PLATEAU_WIDTH < apart.others:
            return apart
    return None


def too_few_depths(estimates: DepthEstimates) -> Verdict:
    """Returns the verdict on a budget with fewer than three finished depths."""
    depths = tuple(estimate.depth for estimate in estimates.depths)
    return Verdict(Kind.INSUFFICIENT, TooFewDepths(depths), Advice.MORE_DEPTHS)


def between_tested(depths: Sequence[int], tested: Sequence[int]) -> tuple[int, int]:
    """The shallowest and the deepest tested depth within `depths`; the ends of `depths` if none
    there was tested."""
    inside = [depth for depth in tested if depths[0] <= depth <= depths[-1]] or depths
    return inside[0], inside[-1]


def is_broad(depths: Sequence[int]) -> bool:
    """True if the ends of a range of depths are too far apart for a depth to be identified."""
    return depths[-1] >= TOO_WIDE * depths[0]


def open_ends(interval: tuple[int, int], tested: Sequence[int], least: int) -> list[int]:
    """The ends of the tested depths that are also ends of the interval, so that the best depth may
    lie beyond; without `least`, the fewest layers that such a model can have."""
    return [end for end in (tested[0], tested[-1]) if end in interval and end > least]


def seeds_to_resolve(noise: float) -> int:
    """Number of seeds at which two standard errors of a depth's loss equal the width of a
    plateau."""
    return ceil((2 * noise / PLATEAU_WIDTH) ** 2)


def _log2_span(depths: Sequence[int]) -> float:
    return log2(depths[-1] / depths[0])


def _flat(estimates: DepthEstimates) -> bool:
    """True if two tests, with the noise that repeated seeds measure, both find no difference: an
    F test that all depths have one loss, and a test of each depth against the best.

    The second test is needed since with few repeats the first overlooks a single worse depth. The
    degrees of freedom are at least `KNOWN_NOISE`, as in `best_loss`: with few repeats the usual
    noise counts more than the measured one, and at one degree of freedom both tests would always
    pass.
    """
    points, freedom = points_of(estimates), estimates.repeats.degrees_of_freedom
    if not freedom:
        return False
    freedom = max(freedom, KNOWN_NOISE)
    certain = float(stdtrit(freedom, CERTAIN))
    return not points.height(certain).any() and _one_loss_fits(points, freedom)


def _one_loss_fits(points: DepthPoints, degrees_of_freedom: int) -> bool:
    """True if one loss for all depths explains the measurements (generalised F test)."""
    precision = np.linalg.inv(points.covariance)
    around = points.losses - precision.sum(axis=0) @ points.losses / precision.sum()
    spare = len(points.losses) - 1
    squares = float(around @ precision @ around)
    return float(fdtrc(spare, degrees_of_freedom, squares / spare)) > CHANCE_OF_FLAT


def _around(location: Location) -> tuple[int, int]:
    """The nearest tested depths below and above the interval or, if tested depths lie inside it,
    the shallowest of these twice."""
    low, high = location.interval
    inside = next((depth for depth in location.tested if low <= depth <= high), None)
    if inside is not None:
        return inside, inside
    above = bisect(location.tested, high)
    return location.tested[above - 1], location.tested[above]


def _may_cost_more(estimates: DepthEstimates, location: Location) -> Verdict:
    """The verdict if the answer may cost too much compared with other depths."""
    cause = _cost_of(location)
    trained = {estimate.depth: estimate.trials for estimate in estimates.depths}
    new = tuple(sorted({location.depth, *location.rivals} - set(trained)))
    if new:
        return Verdict(Kind.INSUFFICIENT, cause, TheseDepths(new, tuple(trained)))
    seeds = max(FEWEST_SEEDS, 1 + max(trained[depth] for depth in location.rivals))
    remedy = Seeds(seeds) if seeds <= MOST_SEEDS else MoreTokens(seeds)
    return Verdict(Kind.INSUFFICIENT, cause, remedy)


def _cost_of(location: Location) -> MayCostMore:
    return MayCostMore(location.answer, location.chance_for_answer, location.rivals)


def _plateau(cause: type[Flat], location: Location, depths: tuple[int, ...]) -> Verdict:
    """A plateau verdict whose cause names the outermost tested ones of these depths."""
    first, last = between_tested(depths, location.tested)
    most = max((c.interval[1] for c in location.costs if first <= c.depth <= last), default=0.0)
    flat = cause((first, last), most, location.answer, location.shallowest)
    return Verdict(Kind.PLATEAU, flat)


def _flat_or_noisy(estimates: DepthEstimates, location: Location) -> Verdict:
    """A plateau verdict, or an insufficient one if the noise may hide a large difference."""
    if location.difference <= HIDDEN:
        return _plateau(FlatRange, location, location.plateau)
    seeds = max(FEWEST_SEEDS, seeds_to_resolve(estimates.noise))
    if seeds <= max(estimate.trials for estimate in estimates.depths):
        return Verdict(Kind.INSUFFICIENT, RatioHidesDepth(), Advice.MORE_SHAPES)
    remedy = Seeds(seeds) if seeds <= MOST_SEEDS else MoreTokens(seeds)
    return Verdict(Kind.INSUFFICIENT, NoiseHidesDepth(estimates.noise), remedy)


def _edge_below(records: Sequence[TrialRecord], end: int, least: int) -> Verdict:
    """An edge verdict: the best depth may be shallower than `end`, the shallowest tested depth."""
    if end <= least:
        spec = records[0].spec
        larger = Larger(None if spec.count.frees_size else spec.spend.coin)
        return Verdict(Kind.EDGE, NothingShallower(end), larger)
    beyond = [record for record in records if record.spec.shape.depth < end]
    remedy = Depths(max(least, end // 4), 2 * end)
    return _none_finished(beyond, end) or Verdict(Kind.EDGE, BestAtEnd(end, deeper=False), remedy)


def _edge_above(records: Sequence[TrialRecord], end: int) -> Verdict:
    """An edge verdict: the best depth may be deeper than `end`, the deepest tested depth."""
    beyond = [record for record in records if record.spec.shape.depth > end]
    remedy = Depths(max(1, end // 2), 4 * end)
    return _none_finished(beyond, end) or Verdict(Kind.EDGE, BestAtEnd(end, deeper=True), remedy)


def _none_finished(beyond: Sequence[TrialRecord], end: int) -> Verdict | None:
    """An edge verdict if depths beyond `end` were tried but none finished; None if none was
    tried."""
    outcomes = Counter(record.outcome for record in beyond if record.outcome)
    if not outcomes:
        return None
    stopped = outcomes[Outcome.STOPPED]
    remedy = Advice.TRAIN_TO_THE_END if stopped else Advice.LOWER_LEARNING_RATE
    return Verdict(Kind.EDGE, NoneFinishedBeyond(end, tuple(outcomes.items())), remedy)
