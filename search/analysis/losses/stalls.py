"""Finds trainings whose loss ended far from that of other seeds of the same shape.

Most of them stalled and ended higher: a small model may end a tenth of a nat lower with another
seed. A loss may also be logged too low. A mean over such seeds would show bad luck rather than
depth, so they are left out. The curve through the other depths shows which of two losses is wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from scipy.special import ndtri

from fathom.models.shape import Shape
from fathom.search.analysis.curve_families import EXPONENTS, DepthPoints, PowerFit
from fathom.search.analysis.losses.noise import USUAL_NOISE, Repeats
from fathom.search.analysis.losses.rates import Factor, along, losses_by_seed
from fathom.search.records import UNSCALED, Scale, TrialRecord

Losses = Mapping[Shape, Mapping[int, Mapping[Scale, float]]]
"""Shape -> seed -> multiples of rate and decay -> loss, nats, as `losses_by_seed` returns it."""
FAR_ABOVE = 4 * sqrt(2)
"""Height above the lowest seed of the shape, in units of the noise, beyond which a training counts
as stalled: four standard errors of the difference of two seeds."""
HUMP = 2
"""Height above both neighbours in trials at several rates or decays, in units of the noise, beyond
which a training counts as stalled: such losses otherwise have one minimum."""
LEAST_NOISE = 0.003
"""Least noise between seeds, nats, that is assumed here."""
FEWEST_DEPTHS = 5
"""Fewest depths for a curve to show which seed of one depth is wrong."""
CLEARLY = 25
"""Least difference, in squared residuals in units of expected errors, between the fits of a curve
with either of two losses of a depth, to say which loss is wrong."""
MISFIT = 0.05
"""Misfit of a depth to the curve, as a share of its height above the best, since no curve is exact
far from the best."""


@dataclass(frozen=True, slots=True)
class SeedApart:
    """The lowest seed of a shape, far below all other seeds: either it or the others are wrong."""

    depth: int
    seed: int
    loss: float
    """Loss of the seed, nats."""
    others: float
    """Lowest loss of the other seeds, nats."""
    seeds: int
    """Number of seeds of the shape, including this one."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """Names of trials that ended far from other seeds of their shape."""

    stalled: frozenset[str] = frozenset()
    """Trials far above the other seeds."""
    too_low: frozenset[str] = frozenset()
    """Trials far below the other seeds and below the curve of the other depths."""
    in_doubt: frozenset[Shape] = frozenset()
    """Shapes with two seeds far apart, of which either may be the unusual one."""
    undecided: tuple[SeedApart, ...] = ()
    """Seeds so low that all other seeds of their shape count as stalled, which no curve confirms.
    """

    @property
    def left_out(self) -> frozenset[str]:
        """The trials that are left out of estimates of losses."""
        return self.stalled | self.too_low


def find_stalls(records: Sequence[TrialRecord]) -> Stalls:
    """Returns the finished trials that stalled, or ended too low.

    A seed stalled if it is more than `FAR_ABOVE` times the noise above the lowest seed of its
    shape. The noise of a shape is the geometric mean of the spread of the lower half of its seeds
    and the lower median of these spreads over all shapes, since depths may differ in noise. If a
    shape has only two seeds, far apart by the median alone, either may be the unusual one, and the
    shape is in doubt. A seed that far below all others is wrong if the curve through the other
    depths shows it. Among trials at several rates or decays, a training stalled if it is more than
    `HUMP` times the noise above both its neighbours.
    """
    records = [record for record in records if record.loss is not None]
    losses = losses_by_seed(records)
    shapes = _seeds(records, losses)
    if humps := _humps(records, losses, HUMP * _noise(_spreads(shapes))):
        kept = [record for record in records if record.spec.trial not in humps]
        shapes = _seeds(kept, losses_by_seed(kept))
    spreads = _spreads(shapes)
    noise, stalled, low = _noise(spreads), humps, set[str]()
    in_doubt, undecided = set[Shape](), list[SeedApart]()
    for shape in spreads:
        lowest, *others = shapes[shape]
        own, gap = max(noise, spreads[shape]), others[0].loss - lowest.loss
        above = [s for s in others if s.loss - lowest.loss > FAR_ABOVE * sqrt(noise * own)]
        if _is_apart(lowest, others, noise):
            better = _better_at(shape.depth, (lowest.loss, others[0].loss), shapes, noise)
            if better == others[0].loss:
                low.update(lowest.trials)
                continue
            if better is None and above == others:
                known = shape.depth, lowest.seed, lowest.loss, others[0].loss, len(others) + 1
                undecided.append(SeedApart(*known))
        if not above and len(others) == 1 and gap > FAR_ABOVE * noise:
            in_doubt.add(shape)
        stalled.update(trial for seed in above for trial in seed.trials)
    return Stalls(frozenset(stalled), frozenset(low), frozenset(in_doubt), tuple(undecided))


def without_stalled(
    records: Sequence[TrialRecord], stalls: Stalls | None = None
) -> list[TrialRecord]:
    """Returns the records without trials that ended far from other seeds of their shape; `stalls`
    are these trials, if already known."""
    left_out = (stalls or find_stalls(records)).left_out
    return [record for record in records if record.spec.trial not in left_out]


def stalled_by_depth(records: Sequence[TrialRecord], stalls: Stalls) -> dict[int, tuple[int, int]]:
    """Returns depth -> numbers of stalled and finished trainings, for depths with a stalled one."""
    lost = Counter(r.spec.shape.depth for r in records if r.spec.trial in stalls.stalled)
    trained = Counter(r.spec.shape.depth for r in records if r.loss is not None)
    return {depth: (number, trained[depth]) for depth, number in sorted(lost.items())}


def too_low(records: Sequence[TrialRecord], stalls: Stalls) -> list[TrialRecord]:
    """Returns the finished trials, at the study's own rate and decay, that ended far too low."""
    low = [record for record in records if record.spec.trial in stalls.too_low]
    return [record for record in low if record.spec.scale == UNSCALED]


@dataclass(frozen=True, slots=True)
class _Seed:
    """A seed of a shape."""

    loss: float
    """Loss in nats at the study's own rate and decay or, if not known, the lowest at others."""
    trials: tuple[str, ...]
    seed: int


def _seeds(records: Sequence[TrialRecord], losses: Losses) -> dict[Shape, list[_Seed]]:
    """The seeds of each shape, ascending by loss; `losses` are those of the records."""
    names: dict[tuple[Shape, int], list[str]] = defaultdict(list)
    for record in records:
        if record.loss is not None:
            names[record.spec.shape, record.spec.seed].append(record.spec.trial)
    return {
        shape: sorted(
            (
                _Seed(scales.get(UNSCALED, min(scales.values())), tuple(names[shape, seed]), seed)
                for seed, scales in seeds.items()
            ),
            key=lambda seed: (seed.loss, seed.trials),
        )
        for shape, seeds in losses.items()
    }


def _spreads(shapes: Mapping[Shape, Sequence[_Seed]]) -> dict[Shape, float]:
    """Standard deviation between seeds, nats, of each shape with several: estimated from the lowest
    seed and the middle or second one, below any stalled seeds, by normal order statistics (Blom
    1958)."""
    spreads = {}
    for shape, seeds in shapes.items():
        if len(seeds) < 2:
            continue
        middle = max(2, ceil(len(seeds) / 2))
        low, high = ndtri((np.array([1, middle]) - 0.375) / (len(seeds) + 0.25))
        spreads[shape] = float((seeds[middle - 1].loss - seeds[0].loss) / (high - low))
    return spreads


def _is_apart(lowest: _Seed, others: Sequence[_Seed], noise: float) -> bool:
    """True if the lowest seed of a shape is far below all others, also in view of how much the
    others differ."""
    own = max(noise, float(np.std([seed.loss for seed in others])))
    return others[0].loss - lowest.loss > FAR_ABOVE * sqrt(noise * own)


def _better_at(
    depth: int, pair: tuple[float, float], shapes: Mapping[Shape, Sequence[_Seed]], noise: float
) -> float | None:
    """The one of the two losses `pair` of a depth that fits a curve through the lowest seeds of the
    other depths better; None if neither is clearly better."""
    others: dict[int, float] = {}
    for shape, (lowest, *_) in shapes.items():
        if shape.depth != depth:
            others[shape.depth] = min(lowest.loss, others.get(shape.depth, lowest.loss))
    if len(others) + 1 < FEWEST_DEPTHS:
        return None
    best = min(others.values())
    (fewer, better), (more, _) = sorted(
        (_misses(others | {depth: loss}, best, noise), loss) for loss in pair
    )
    usual = max(1.0, fewer / (len(others) + 2 - FEWEST_DEPTHS))
    return better if more - fewer > CLEARLY * usual else None


def _misses(losses: Mapping[int, float], best: float, noise: float) -> float:
    """Sum of squared residuals, in units of expected errors, of the curve that fits the losses of
    depths best."""
    depths, measured = np.array(sorted(losses.items())).T
    errors = np.hypot(noise, MISFIT * np.maximum(0.0, measured - best))
    points = DepthPoints(
        depths=depths.astype(np.int64), losses=measured, covariance=np.diag(errors**2)
    )
    return float(PowerFit(points, np.diag(1 / errors), EXPONENTS).squares.min())


def _humps(records: Sequence[TrialRecord], losses: Losses, height: float) -> set[str]:
    """The names of trials whose loss is more than `height`, nats, above the losses at the next
    lower and the next higher multiple of the rate, or of the decay, with the same seed."""
    humps = {
        (shape, seed, scale)
        for shape, seeds in losses.items()
        for seed, scales in seeds.items()
        if len(scales) > 2
        for scale in _peaks(scales, height)
    }
    keys = ((r.spec.trial, (r.spec.shape, r.spec.seed, r.spec.scale)) for r in records)
    return {trial for trial, key in keys if key in humps} if humps else set()


def _peaks(losses: Mapping[Scale, float], height: float) -> Iterator[Scale]:
    """Yields the multiples at which a loss is more than `height`, nats, above both neighbours."""
    for factor in Factor:
        line = sorted(along(factor, losses).items())
        for (_, below), (multiple, loss), (_, above) in zip(line, line[1:], line[2:], strict=False):
            if loss - max(below, above) > height:
                yield factor.scale(multiple)


def _noise(spreads: Mapping[Shape, float]) -> float:
    """The noise between seeds, nats, by the lower median of the shapes' spreads and the prior."""
    if not spreads:
        return USUAL_NOISE[0]
    measured = float(np.quantile(list(spreads.values()), 0.5, method="lower"))
    return max(LEAST_NOISE, Repeats(measured, len(spreads)).likely_noise)
