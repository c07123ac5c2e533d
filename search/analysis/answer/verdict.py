"""The verdict on a budget as values: its kind, its cause, and the remedy."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from math import ceil, log2

import numpy as np
from scipy.special import fdtrc, stdtrit

from fathom.models.spend import Coin
from fathom.search.analysis.curve.curve_fit import points_of
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.depth_estimates import DepthEstimates
from fathom.search.analysis.losses.stalls import SeedApart, find_stalls
from fathom.search.records import Outcome, TrialRecord

PLATEAU_WIDTH = 0.005
"""Width of a plateau, nats: losses closer than this are the same for practical purposes."""
CHANCE_OF_COST = 0.05
"""Probability that a depth costs more than `PLATEAU_WIDTH` up to which it is identified."""
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
CHANCE_OF_FLAT = 0.01
"""Significance level: below this chance of such differences without any effect of depth, depth has
an effect."""
EDGE_SHARE = 0.25
"""The optimum may lie beyond an end of the range where this share of the draws is lowest."""


class Kind(StrEnum):
    """Kind of a verdict, by how far the answer can be relied on."""

    IDENTIFIED = "identified"
    PLATEAU = "plateau"
    EDGE = "edge"
    INSUFFICIENT = "insufficient"
    UNFINISHED = "unfinished"
    BY_LAW = "by_law"
    """Read off a law of other sizes; no budget has it, nor the two below."""
    NO_ANSWER = "no_answer"
    PLANNED = "planned"

    @property
    def settled(self) -> bool:
        """True if the verdict names the best depth or depths, so that no training is needed."""
        return self in (Kind.IDENTIFIED, Kind.PLATEAU)

    @property
    def decided(self) -> bool:
        """True if the interval rules depths out: a settled answer, or an edge."""
        return self.settled or self is Kind.EDGE


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
    """The outermost tested depths of the plateau."""
    difference: float
    """Nats by which the worst depth of the plateau may be worse than the best (95 %)."""
    answer: int
    """The finished depth that is expected to cost least."""
    shallowest: int
    """The shallowest depth of the plateau that finished, the cheapest to serve."""


@dataclass(frozen=True, slots=True)
class FlatInterval:
    """No depth of the interval can be named as the best, but none is much worse than the best."""

    interval: tuple[int, int]
    """Its outermost tested depths."""
    difference: float
    """Nats by which the worst depth between these may be worse than the best (95 %)."""
    answer: int
    """The finished depth that is expected to cost least."""
    shallowest: int
    """The shallowest depth of the plateau that finished, the cheapest to serve."""


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
    """No shape has two seeds whose losses differ, so that the noise was not measured."""


@dataclass(frozen=True, slots=True)
class Confounded:
    """Another setting of the trainings goes with depth, and may be what moves the loss."""

    setting: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    """Values of the setting, each with the depths that were trained at it."""


@dataclass(frozen=True, slots=True)
class FewRuns:
    """Most runs about the size have no loss at the horizon."""

    counted: int
    runs: int


@dataclass(frozen=True, slots=True)
class UnknownSettings:
    """Runs of one depth differ by more than seeds do: by settings that nothing says."""

    within: float
    """Standard deviation between runs of a depth, nats."""
    between: float
    """Standard deviation between depths, nats."""


@dataclass(frozen=True, slots=True)
class BelowMeasured:
    """The curve falls far below the measured losses, and no measurement confirms it."""

    depth: int
    loss: float
    """Loss that the curve has at `depth`, nats."""
    lowest: float
    """Lowest measured loss of a depth, nats."""


@dataclass(frozen=True, slots=True)
class NoiseHidesDepth:
    """The noise between seeds hides the effect of depth."""

    noise: float
    """Standard deviation between seeds, nats."""


@dataclass(frozen=True, slots=True)
class RatioHidesDepth:
    """The feed-forward ratio changes the loss by as much as depth does."""


@dataclass(frozen=True, slots=True)
class NoEffectShown:
    """Nearly all of the depths that a search of settings drew differ by next to nothing."""

    plateau: tuple[int, int]
    """The outermost depths that differ so little."""


@dataclass(frozen=True, slots=True)
class BetweenTested:
    """Only the curve says that the best depth lies between two depths that finished."""

    interval: tuple[int, int]
    below: int
    """The tested depth below the interval."""
    above: int


@dataclass(frozen=True, slots=True)
class MayCostMore:
    """The answer may cost more than the width of a plateau against another depth."""

    depth: int
    chance: float
    """Probability that `depth` costs so much more."""
    rivals: tuple[int, ...]
    """Depths that would then be the best, the likeliest first."""


@dataclass(frozen=True, slots=True)
class SearchUnfinished:
    """The search of the budget has not come to its end."""

    ended: int
    """Number of trials that have ended."""


Flat = FlatRange | FlatInterval
"""Causes of a plateau."""
Edge = BestAtEnd | NothingShallower | NoneFinishedBeyond
"""Causes of an edge."""
Insufficient = (
    TooFewDepths
    | NoiseUnknown
    | Confounded
    | FewRuns
    | UnknownSettings
    | BelowMeasured
    | SeedApart
    | NoiseHidesDepth
    | RatioHidesDepth
    | NoEffectShown
    | BetweenTested
    | MayCostMore
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
    """Key of the study that sets its training tokens."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Set these keys of the study to these values."""

    changes: tuple[tuple[str, object], ...]


class Lack(Enum):
    """Reason why no change of a study's space or trials brings what its budget lacks."""

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


@dataclass(frozen=True, slots=True)
class OneValue:
    """Train the depths at one value of a setting."""

    setting: str


@dataclass(frozen=True, slots=True)
class Larger:
    """Raise the budget, or what a training spends."""

    coin: Coin | None
    """None where the budget is what a training spends."""

    @property
    def name(self) -> str:
        """Name in replies that programs read, such as `larger_or_more_flops`."""
        if self.coin is None:
            return "larger"
        return f"larger_or_{'longer' if self.coin is Coin.TOKENS else f'more_{self.coin.lower()}'}"


class Advice(Enum):
    """Remedies that need no parameters."""

    MORE_DEPTHS = auto()
    TRAIN_TO_THE_END = auto()
    LOWER_LEARNING_RATE = auto()
    MORE_SHAPES = auto()
    RESUME = auto()
    NAME_SETTINGS = auto()
    SAME_TOKENS = auto()


Remedy = Seeds | MoreTokens | Depths | TheseDepths | OneValue | Larger | Keys | NoRemedy | Advice


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a budget: its kind, the cause, and what to change, if anything."""

    kind: Kind
    cause: Cause
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The best depth of a budget by its posterior, with its interval and what it may cost."""

    depth: int
    """The depth that is expected to cost least, whether it finished or not."""
    answer: int
    """The finished depth that is named as the best: of the plateau, if any of it finished."""
    shallowest: int
    """The shallowest depth of the plateau that finished, or else `answer`."""
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    plateau: tuple[int, ...]
    """Whole depths that can not be distinguished from the best."""
    shallow_share: float
    """Probability that the loss falls on to the shallow end of the tested range."""
    deep_share: float
    difference: float
    """Nats by which the worst depth between tested ones of the plateau may be worse than the best
    (95 %)."""
    interval_difference: float
    """The same of the interval."""
    chance_of_cost: float
    """Probability that `depth` costs more than `PLATEAU_WIDTH` against the best."""
    answer_cost: float
    """Expected loss at `answer` above that at `depth`, nats."""
    chance_for_answer: float
    """The same probability for `answer`."""
    rivals: tuple[int, ...]
    """Depths that would be the best where `answer` costs so much more, the likeliest first."""
    tested: Sequence[int]
    """The depths that finished, ascending, and those beyond them that forecasts rule out."""


def judge(records: Sequence[TrialRecord], estimates: DepthEstimates, location: Location) -> Verdict:
    """Returns the verdict on a budget with three finished depths or more.

    Where nothing says what the noise between seeds is, only an edge can be told: by what is usual
    and by how smoothly the losses go with depth.
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
    """The verdict where the noise is known, or as usual.

    Flat comes before edge, because the ends of a flat range win by chance. A range of less than a
    factor `TOO_WIDE` is too short to be called flat.
    """
    tested, plateau, least = location.tested, location.plateau, records[0].spec.shape.least_depth
    level = _log2_span(plateau) / _log2_span(tested) if is_broad(tested) else 0.0
    if level >= MOSTLY_LEVEL or (level >= 0.5 and _flat(estimates)):
        flat = FlatRange(
            between_tested(plateau, tested),
            location.difference,
            location.answer,
            location.shallowest,
        )
        return _flat_or_noisy(estimates, flat)
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
        flat_interval = FlatInterval(
            between_tested(location.interval, tested),
            location.interval_difference,
            location.answer,
            location.shallowest,
        )
        return Verdict(Kind.PLATEAU, flat_interval)
    below, above = _around(location)
    remedy = TheseDepths((location.depth,), tuple(tested))
    if above >= TOO_WIDE * below:
        cause = BetweenTested(location.interval, below, above)
        return Verdict(Kind.INSUFFICIENT, cause, remedy)
    if location.answer_cost > PLATEAU_WIDTH:
        return Verdict(Kind.INSUFFICIENT, _cost_of(location), remedy)
    return Verdict(Kind.IDENTIFIED, NarrowInterval(location.interval, (tested[0], tested[-1])))


def _deciding_seed(records: Sequence[TrialRecord], estimates: DepthEstimates) -> SeedApart | None:
    """The seed far below the others of its shape by which alone its depth is about the best."""
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
    """The shallowest and the deepest tested depth of a range; its ends where none of it was
    tested."""
    inside = [depth for depth in tested if depths[0] <= depth <= depths[-1]] or depths
    return inside[0], inside[-1]


def is_broad(depths: Sequence[int]) -> bool:
    """True if the ends of a range of depths are too far apart for a depth to be identified."""
    return depths[-1] >= TOO_WIDE * depths[0]


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
    """True if two tests, with the noise that repeated seeds measure, both find no difference: an
    F test that all depths have one loss, and a test of each depth against the best.

    The second is needed since with few repeats the first overlooks a single depth that is worse.
    """
    points, freedom = points_of(estimates), estimates.repeats.degrees_of_freedom
    if not freedom:
        return False
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
    """The nearest tested depths below and above the interval. If a tested depth lies inside it, the
    shallowest such depth is returned twice."""
    low, high = location.interval
    inside = next((depth for depth in location.tested if low <= depth <= high), None)
    if inside is not None:
        return inside, inside
    above = bisect(location.tested, high)
    return location.tested[above - 1], location.tested[above]


def _may_cost_more(estimates: DepthEstimates, location: Location) -> Verdict:
    """The verdict where the answer may cost too much against others."""
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


def _flat_or_noisy(estimates: DepthEstimates, flat: FlatRange) -> Verdict:
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
        spec = records[0].spec
        larger = Larger(None if spec.count.frees_size else spec.spend.coin)
        return Verdict(Kind.EDGE, NothingShallower(end), larger)
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
