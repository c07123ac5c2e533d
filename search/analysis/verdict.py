"""The verdict on a budget: a word with a reason in one sentence."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log2

from scipy.special import stdtrit

from fathom.search.analysis.curve_check import one_loss_fits
from fathom.search.analysis.curve_fit import points_of
from fathom.search.analysis.depth_estimates import KNOWN_NOISE, DepthEstimates
from fathom.search.records import Outcome, TrialRecord

PLATEAU_WIDTH = 0.005
"""Width of a plateau, nats: losses closer than this are the same for practical purposes."""
MOST_SEEDS = 12
"""Most confirmation seeds that are advised: beyond them a longer horizon separates depths for less.
"""
CERTAIN = 0.998
"""Probability of being worse from which on the interval excludes a depth. Higher than for the
optimum itself, since a wrong exclusion costs coverage."""
HIDDEN = 6 * PLATEAU_WIDTH
"""Difference, nats, that must be ruled out before a range is called flat."""
MOSTLY_LEVEL = 0.8
"""Share of the range, in ln depth, that the plateau of a flat range covers."""
TOO_WIDE = 3
"""Factor between the ends of an interval, in whole depths, from which on no depth is identified;
likewise between the tested depths next to an interval that holds none."""
EDGE_SHARE = 0.25
"""The optimum may lie beyond an end of the range where this share of the draws is lowest."""


class Verdict(StrEnum):
    """The verdict on a budget; the last three say what to run next."""

    IDENTIFIED = "identified"
    PLATEAU = "plateau"
    EDGE = "edge"
    INSUFFICIENT = "insufficient"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The lowest point of the curve, with its interval."""

    depth: int
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    minimum: float
    """Depth where the curve is lowest, before rounding."""
    minimum_interval: tuple[float, float]
    """95 % interval of it, before rounding."""
    shallow_share: float
    """Share of the draws that are lowest at the shallow end of the tested range."""
    deep_share: float
    difference: float
    """Nats by which the worst depth of the plateau may be worse than the best (95 %)."""
    interval_difference: float
    """Nats by which the worst depth of the interval may be worse than the best (95 %)."""
    tested: Sequence[int]
    """The depths that finished, ascending, and those beyond them that forecasts rule out."""


def judge(
    records: Sequence[TrialRecord],
    estimates: DepthEstimates,
    location: Location | None,
    plateau: Sequence[int],
) -> tuple[Verdict, str]:
    """Returns the verdict on one budget and its reason; no location means fewer than three depths.

    Flat comes before edge, because the ends of a flat range win by chance.
    """
    if location is None:
        return Verdict.INSUFFICIENT, _too_few([own.depth for own in estimates.depths])
    if estimates.degrees_of_freedom < KNOWN_NOISE:
        return Verdict.INSUFFICIENT, _unknown_noise(estimates.degrees_of_freedom)
    tested, least = location.tested, records[0].spec.shape.least_depth
    level = _log2_span(plateau) / _log2_span(tested)
    if level >= MOSTLY_LEVEL or (level >= 0.5 and _flat(estimates)):
        return _flat_or_noisy(estimates, location, plateau)
    low, high = location.interval
    whole = location.interval == (tested[0], tested[-1])
    cut = [] if whole else open_ends(location.interval, tested, least)
    ends = {location.depth, *cut}
    if tested[0] in ends or (tested[0] > least and location.shallow_share >= EDGE_SHARE):
        return Verdict.EDGE, _go_below(records, tested[0], least)
    if tested[-1] in ends or location.deep_share >= EDGE_SHARE:
        return Verdict.EDGE, _go_above(records, tested[-1])
    if whole or high >= TOO_WIDE * low:
        return _wide(estimates, location)
    below, above = _around(location)
    if above >= TOO_WIDE * below:
        return Verdict.INSUFFICIENT, _train_between(location, below, above)
    return Verdict.IDENTIFIED, (
        f"the 95 % interval, {both_ends(location.interval)}, spans less than a factor of "
        f"{TOO_WIDE} and ends inside the range of depths that finished, {tested[0]} to {tested[-1]}"
    )


def open_ends(interval: tuple[int, int], tested: Sequence[int], least: int) -> list[int]:
    """The ends of an interval at which the tested depths end and the best depth may lie beyond:
    there is none below `least`, the fewest layers that such a model can have."""
    return [end for end in (tested[0], tested[-1]) if end in interval and end > least]


def _log2_span(depths: Sequence[int]) -> float:
    return log2(depths[-1] / depths[0])


def _flat(estimates: DepthEstimates) -> bool:
    """True if one loss for all depths explains the measurements, and no depth is certainly worse
    than the best.

    With few degrees of freedom the test of all depths at once overlooks a single one.
    """
    points = points_of(estimates)
    certain = float(stdtrit(estimates.degrees_of_freedom, CERTAIN))
    return not points.height(certain).any() and one_loss_fits(points, estimates.degrees_of_freedom)


def no_curve(estimates: DepthEstimates, lowest: int, telling: Sequence[int]) -> tuple[Verdict, str]:
    """The verdict where no curve fits; the `telling` depths would show the shape of the losses."""
    remedy = "raise `confirm.seeds`"
    if telling:
        remedy = _train_too(telling, [own.depth for own in estimates.depths])
    return Verdict.INSUFFICIENT, (
        "more than one hump or a step: no curve fits the measured losses, of which that of depth "
        f"{lowest} is the lowest; {remedy}"
    )


def _train_too(depths: Sequence[int], tested: Sequence[int]) -> str:
    """The remedy that trains these depths beside those that are tested."""
    return (
        f"train depth{'' if len(depths) == 1 else 's'} {', '.join(map(str, depths))} too, by "
        f"`sampler: ladder` and `space.depth: {sorted({*depths, *tested})}`"
    )


def _around(location: Location) -> tuple[int, int]:
    """The tested depths next to the interval; one depth twice where the interval holds a tested
    one."""
    low, high = location.interval
    inside = next((depth for depth in location.tested if low <= depth <= high), None)
    if inside is not None:
        return inside, inside
    above = bisect(location.tested, high)
    return location.tested[above - 1], location.tested[above]


def _train_between(location: Location, below: int, above: int) -> str:
    """The reason where only the curve says that the optimum lies between two tested depths."""
    return (
        f"no depth of the 95 % interval, {both_ends(location.interval)}, was trained to the end, "
        f"nor any other between {below} and {above}; "
        f"{_train_too([location.depth], location.tested)}"
    )


def both_ends(interval: tuple[int, int]) -> str:
    """Returns both ends of an interval, `3 to 5`, or `3` where they are the same."""
    low, high = interval
    return f"{low} to {high}" if low < high else str(low)


def _flat_or_noisy(
    estimates: DepthEstimates, location: Location, plateau: Sequence[int]
) -> tuple[Verdict, str]:
    """The verdict on a flat range: insufficient where the noise may hide a large difference."""
    if location.difference > HIDDEN:
        return Verdict.INSUFFICIENT, _more_seeds(estimates)
    return Verdict.PLATEAU, (
        f"depths {plateau[0]} to {plateau[-1]} can't be told apart by {PLATEAU_WIDTH} nats, and "
        f"none of them is worse than the best by more than {location.difference:.3f} (95 %); "
        f"the shallowest, {plateau[0]}, is the cheapest to serve"
    )


def _wide(estimates: DepthEstimates, location: Location) -> tuple[Verdict, str]:
    """The verdict where the interval is too wide to name a depth: a plateau where all of its depths
    are nearly as good."""
    if location.interval_difference > HIDDEN:
        return Verdict.INSUFFICIENT, _more_seeds(estimates)
    low, high = location.interval
    return Verdict.PLATEAU, (
        f"the 95 % interval, {low} to {high}, is too wide to name a depth, and none of its depths "
        f"is worse than the best by more than {location.interval_difference:.3f} nats (95 %)"
    )


def seeds_to_resolve(noise: float) -> int:
    """Number of seeds after which two standard errors of a depth are as wide as a plateau."""
    return ceil((2 * noise / PLATEAU_WIDTH) ** 2)


def _more_seeds(estimates: DepthEstimates) -> str:
    seeds = max(3, seeds_to_resolve(estimates.noise))
    if seeds <= max(own.trials for own in estimates.depths):
        return (
            "underpowered: the feed-forward ratio changes the loss by as much as depth does; "
            "raise `trials`"
        )
    remedy = (
        f"set `confirm.seeds: {seeds}`"
        if seeds <= MOST_SEEDS
        else f"about {seeds} seeds would be needed, so raise `tokens`"
    )
    noise = f"{estimates.noise:.4f} nats"
    return f"underpowered: seeds differ by {noise}, which hides the effect of depth; {remedy}"


def _unknown_noise(freedom: int) -> str:
    repeats = f"only {freedom} trials repeat" if freedom else "no trial repeats"
    return (
        f"{repeats} a shape with another seed, so depth can't be told from noise; "
        "set `confirm.seeds: 3`"
    )


def _too_few(tested: Sequence[int]) -> str:
    finished = ", ".join(map(str, tested)) or "none"
    return (
        f"a curve needs three depths that finished, got {finished}; "
        "raise `confirm.depths` or widen `space.depth`"
    )


def _go_below(records: Sequence[TrialRecord], end: int, least: int) -> str:
    """Reason for an edge at the shallowest tested depth, with the range to try next."""
    if end <= least:
        return f"depth {end} is best and no shallower model exists; raise `budgets` or `tokens`"
    beyond = [record for record in records if record.spec.shape.depth < end]
    return _unfinished(beyond, end) or (
        f"the best depth may lie below the shallowest tested, {end}; "
        f"set `space.depth: [{max(least, end // 4)}, {2 * end}]`"
    )


def _go_above(records: Sequence[TrialRecord], end: int) -> str:
    """Reason for an edge at the deepest tested depth, with the range to try next."""
    beyond = [record for record in records if record.spec.shape.depth > end]
    return _unfinished(beyond, end) or (
        f"the best depth may lie above the deepest tested, {end}; "
        f"set `space.depth: [{max(1, end // 2)}, {4 * end}]`"
    )


def _unfinished(beyond: Sequence[TrialRecord], end: int) -> str:
    """Reason why the depths beyond an end give no loss, if they were tried; else empty."""
    outcomes = Counter(record.outcome for record in beyond if record.outcome)
    if not outcomes:
        return ""
    ended = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    remedy = (
        "raise `confirm.depths`"
        if outcomes[Outcome.STOPPED]
        else "see the reasons of those trials, or lower `train.learning_rate`"
    )
    return f"the best depth may lie beyond {end}, where no trial finished ({ended}); {remedy}"
