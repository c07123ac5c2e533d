"""The verdict on a budget as values: its kind, its cause, and the remedy."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from math import ceil, log2

from scipy.special import stdtrit

from fathom.search.analysis.curve_check import one_loss_fits
from fathom.search.analysis.curve_fit import points_of
from fathom.search.analysis.depth_estimates import KNOWN_NOISE, DepthEstimates
from fathom.search.records import Outcome, TrialRecord

PLATEAU_WIDTH = 0.005
"""Width of a plateau, nats: losses closer than this are the same for practical purposes."""
FEWEST_SEEDS = 3
"""Fewest confirmation seeds that are advised."""
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


class Kind(StrEnum):
    """The kinds of verdict; the last three say what to run next."""

    IDENTIFIED = "identified"
    PLATEAU = "plateau"
    EDGE = "edge"
    INSUFFICIENT = "insufficient"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class NarrowInterval:
    """The interval names a depth and ends inside the depths that finished."""

    interval: tuple[int, int]
    tested: tuple[int, int]
    """The shallowest and the deepest depth that finished."""


@dataclass(frozen=True, slots=True)
class FlatRange:
    """The depths of the plateau differ by next to nothing."""

    plateau: tuple[int, int]
    """The shallowest and the deepest depth of the plateau."""
    difference: float
    """Nats by which the worst of them may be worse than the best (95 %)."""


@dataclass(frozen=True, slots=True)
class FlatInterval:
    """The interval is too wide to name a depth, but its depths differ by next to nothing."""

    interval: tuple[int, int]
    difference: float
    """Nats by which the worst of them may be worse than the best (95 %)."""


@dataclass(frozen=True, slots=True)
class BestAtEnd:
    """The best depth may lie beyond an end of the tested depths, where nothing was trained."""

    end: int
    deeper: bool


@dataclass(frozen=True, slots=True)
class NothingShallower:
    """The best depth is the fewest layers that such a model can have."""

    depth: int


@dataclass(frozen=True, slots=True)
class NoneFinishedBeyond:
    """The best depth may lie beyond an end of the tested depths, where no trial finished."""

    end: int
    outcomes: tuple[tuple[Outcome, int], ...]
    """How the trials there ended, with their numbers."""


@dataclass(frozen=True, slots=True)
class TooFewDepths:
    """Fewer than three depths finished."""

    finished: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoiseUnknown:
    """Too few trials repeat a shape with another seed to measure the noise."""

    repeats: int


@dataclass(frozen=True, slots=True)
class NoiseHidesDepth:
    """The noise between seeds hides the effect of depth."""

    noise: float
    """Standard deviation between seeds, nats."""


@dataclass(frozen=True, slots=True)
class RatioHidesDepth:
    """The feed-forward ratio changes the loss by as much as depth does."""


@dataclass(frozen=True, slots=True)
class NoCurveFits:
    """No curve with one lowest point fits the measured losses."""

    lowest: int
    """The depth with the lowest measured loss."""


@dataclass(frozen=True, slots=True)
class BetweenTested:
    """Only the curve says that the best depth lies between two depths that finished."""

    interval: tuple[int, int]
    below: int
    """The tested depth below the interval."""
    above: int


@dataclass(frozen=True, slots=True)
class SearchUnfinished:
    """The search of the budget has not come to its end."""

    ended: int
    """Trials that have."""


Flat = FlatRange | FlatInterval
"""Causes of a plateau."""
Edge = BestAtEnd | NothingShallower | NoneFinishedBeyond
"""Causes of an edge."""
Insufficient = (
    TooFewDepths | NoiseUnknown | NoiseHidesDepth | RatioHidesDepth | NoCurveFits | BetweenTested
)
"""Causes of an answer that is insufficient."""
Cause = NarrowInterval | Flat | Edge | Insufficient | SearchUnfinished


@dataclass(frozen=True, slots=True)
class Seeds:
    """Train so many seeds of each of the best depths."""

    number: int


@dataclass(frozen=True, slots=True)
class MoreTokens:
    """Train on more tokens, since so many seeds would be needed otherwise."""

    seeds: int
    key: str = "tokens"
    """The key that a study says its tokens by."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Set these keys of the study to these values."""

    changes: tuple[tuple[str, object], ...]


class Lack(Enum):
    """Why no change of a study's space or trials brings what its budget lacks."""

    NO_DEEPER = auto()
    NO_SHALLOWER = auto()
    NO_SUCH_DEPTH = auto()
    ALL_PLANNED = auto()


@dataclass(frozen=True, slots=True)
class NoRemedy:
    """No change of the study's space or trials helps."""

    why: Lack
    budget: int
    depths: tuple[int, ...] = ()
    """The depths that have no shape, or all that have one."""


@dataclass(frozen=True, slots=True)
class Depths:
    """Train depths of this range."""

    shallowest: int
    deepest: int


@dataclass(frozen=True, slots=True)
class TheseDepths:
    """Train these depths beside the tested ones."""

    depths: tuple[int, ...]
    tested: tuple[int, ...]


class Advice(Enum):
    """The remedies without numbers."""

    MORE_SEEDS = auto()
    MORE_DEPTHS = auto()
    TRAIN_TO_THE_END = auto()
    LOWER_LEARNING_RATE = auto()
    MORE_SHAPES = auto()
    LARGER_OR_LONGER = auto()
    RESUME = auto()


Remedy = Seeds | MoreTokens | Depths | TheseDepths | Keys | NoRemedy | Advice


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a budget: its kind, the cause, and what to change, if anything."""

    kind: Kind
    cause: Cause
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The lowest point of the curve, with its interval."""

    depth: int
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    lowest: float
    """Depth where the curve through all trials is lowest, before rounding."""
    minimum: float
    """The same, kept inside its interval."""
    minimum_interval: tuple[float, float]
    """95 % interval of it, before rounding."""
    plateau: Sequence[int]
    """Whole depths that can not be distinguished from the best."""
    shallow_share: float
    """Share of the draws that are lowest at the shallow end of the tested range."""
    deep_share: float
    difference: float
    """Nats by which the worst depth of the plateau may be worse than the best (95 %)."""
    interval_difference: float
    """Nats by which the worst depth of the interval may be worse than the best (95 %)."""
    tested: Sequence[int]
    """The depths that finished, ascending, and those beyond them that forecasts rule out."""


def judge(records: Sequence[TrialRecord], estimates: DepthEstimates, location: Location) -> Verdict:
    """Returns the verdict on a budget whose losses a curve fits.

    Flat comes before edge, because the ends of a flat range win by chance.
    """
    if (repeats := estimates.degrees_of_freedom) < KNOWN_NOISE:
        return Verdict(Kind.INSUFFICIENT, NoiseUnknown(repeats), Seeds(FEWEST_SEEDS))
    tested, plateau, least = location.tested, location.plateau, records[0].spec.shape.least_depth
    level = _log2_span(plateau) / _log2_span(tested)
    if level >= MOSTLY_LEVEL or (level >= 0.5 and _flat(estimates)):
        flat = FlatRange((plateau[0], plateau[-1]), location.difference)
        return _flat_or_noisy(estimates, flat)
    low, high = location.interval
    whole = location.interval == (tested[0], tested[-1])
    cut = [] if whole else open_ends(location.interval, tested, least)
    ends = {location.depth, *cut}
    if tested[0] in ends or (tested[0] > least and location.shallow_share >= EDGE_SHARE):
        return _edge_below(records, tested[0], least)
    if tested[-1] in ends or location.deep_share >= EDGE_SHARE:
        return _edge_above(records, tested[-1])
    if whole or high >= TOO_WIDE * low:
        flat_interval = FlatInterval(location.interval, location.interval_difference)
        return _flat_or_noisy(estimates, flat_interval)
    below, above = _around(location)
    if above >= TOO_WIDE * below:
        cause = BetweenTested(location.interval, below, above)
        remedy = TheseDepths((location.depth,), tuple(tested))
        return Verdict(Kind.INSUFFICIENT, cause, remedy)
    return Verdict(Kind.IDENTIFIED, NarrowInterval(location.interval, (tested[0], tested[-1])))


def too_few_depths(estimates: DepthEstimates) -> Verdict:
    """Returns the verdict on a budget with fewer than three finished depths."""
    depths = tuple(estimate.depth for estimate in estimates.depths)
    return Verdict(Kind.INSUFFICIENT, TooFewDepths(depths), Advice.MORE_DEPTHS)


def no_curve(estimates: DepthEstimates, lowest: int, informative: Sequence[int]) -> Verdict:
    """Returns the verdict where no curve fits; training the `informative` depths would show the
    shape of the losses."""
    tested = tuple(estimate.depth for estimate in estimates.depths)
    remedy = TheseDepths(tuple(informative), tested) if informative else Advice.MORE_SEEDS
    return Verdict(Kind.INSUFFICIENT, NoCurveFits(lowest), remedy)


def open_ends(interval: tuple[int, int], tested: Sequence[int], least: int) -> list[int]:
    """The ends of an interval at which the tested depths end and the best depth may lie beyond:
    there is none below `least`, the fewest layers that such a model can have."""
    return [end for end in (tested[0], tested[-1]) if end in interval and end > least]


def seeds_to_resolve(noise: float) -> int:
    """Number of seeds after which two standard errors of a depth are as wide as a plateau."""
    return ceil((2 * noise / PLATEAU_WIDTH) ** 2)


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


def _around(location: Location) -> tuple[int, int]:
    """The tested depths next to the interval; one depth twice where the interval holds a tested
    one."""
    low, high = location.interval
    inside = next((depth for depth in location.tested if low <= depth <= high), None)
    if inside is not None:
        return inside, inside
    above = bisect(location.tested, high)
    return location.tested[above - 1], location.tested[above]


def _flat_or_noisy(estimates: DepthEstimates, flat: Flat) -> Verdict:
    """A plateau, or insufficient where the noise may hide a large difference."""
    if flat.difference <= HIDDEN:
        return Verdict(Kind.PLATEAU, flat)
    seeds = max(FEWEST_SEEDS, seeds_to_resolve(estimates.noise))
    if seeds <= max(estimate.trials for estimate in estimates.depths):
        return Verdict(Kind.INSUFFICIENT, RatioHidesDepth(), Advice.MORE_SHAPES)
    remedy = Seeds(seeds) if seeds <= MOST_SEEDS else MoreTokens(seeds)
    return Verdict(Kind.INSUFFICIENT, NoiseHidesDepth(estimates.noise), remedy)


def _edge_below(records: Sequence[TrialRecord], end: int, least: int) -> Verdict:
    """An edge at the shallowest tested depth."""
    if end <= least:
        return Verdict(Kind.EDGE, NothingShallower(end), Advice.LARGER_OR_LONGER)
    beyond = [record for record in records if record.spec.shape.depth < end]
    remedy = Depths(max(least, end // 4), 2 * end)
    return _none_finished(beyond, end) or Verdict(Kind.EDGE, BestAtEnd(end, deeper=False), remedy)


def _edge_above(records: Sequence[TrialRecord], end: int) -> Verdict:
    """An edge at the deepest tested depth."""
    beyond = [record for record in records if record.spec.shape.depth > end]
    remedy = Depths(max(1, end // 2), 4 * end)
    return _none_finished(beyond, end) or Verdict(Kind.EDGE, BestAtEnd(end, deeper=True), remedy)


def _none_finished(beyond: Sequence[TrialRecord], end: int) -> Verdict | None:
    """An edge beyond which depths were tried without a final loss; None if none was tried."""
    outcomes = Counter(record.outcome for record in beyond if record.outcome)
    if not outcomes:
        return None
    stopped = outcomes[Outcome.STOPPED]
    remedy = Advice.TRAIN_TO_THE_END if stopped else Advice.LOWER_LEARNING_RATE
    return Verdict(Kind.EDGE, NoneFinishedBeyond(end, tuple(outcomes.items())), remedy)
