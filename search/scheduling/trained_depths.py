"""The depths of a budget that were trained to the end, and what is worth training next."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from fathom.models.shape import Shape
from fathom.search.analysis.curve_check import informative_depths
from fathom.search.analysis.curve_fit import CLEAR, points_of
from fathom.search.analysis.depth_estimates import (
    KNOWN_NOISE,
    DepthEstimate,
    DepthEstimates,
    combine_shapes,
    seed_noise,
)
from fathom.search.analysis.forecast import forecastable, forecasts
from fathom.search.analysis.optimum import Located, Optimum, find_optimum
from fathom.search.analysis.rates import Bracket, Factor, brackets
from fathom.search.analysis.verdict import Kind
from fathom.search.records import UNSCALED, Outcome, TrialRecord
from fathom.search.scheduling.narrowing import most_telling
from fathom.search.study.keys.groups import ConfirmConfig
from fathom.search.study.planning.shapes import comparable_shape

SAME_RATIO = 0.25
"""Difference of ln feed-forward ratios that is not worth another training."""
WORSE = 3
"""Standard errors behind the best depth from which on a depth gets no more trainings."""
STEP = 2
"""Depths about this factor apart enclose the best one. By a lesser one their losses differ by less
than seeds do, by a larger one no curve holds between them."""
GAP = 1.5
"""Gaps that an interval reaches into are at most this wide before any depth is trained elsewhere:
then one depth lies near the bottom of a notch of a factor of two. Chosen on planted worlds."""
SPACING = 1.2
"""Trained depths are at least this factor apart: closer ones can't be told apart anyway, and a fit
through them would say nothing of the curve."""
OTHER_RATES = 1.5
"""Factor between the best rates, or decays, of the outermost depths from which on those between
are bracketed as well."""
NARROW = 0.24
"""Width of an interval, in ln depth, below which nothing more is trained: about a quarter of the
depth itself."""
FRESH_SEEDS_FROM = 1000
"""First seed of confirming trials; exploring ones have lower seeds, so that no shape is confirmed
by the run for which it was chosen."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A trial to run, or to resume where it was paused: shape, number of the seed, multiples of the
    learning rate and the weight decay."""

    shape: Shape
    seed: int
    rate_scale: float = 1.0
    decay_scale: float = 1.0


class TrainedDepths:
    """The depths of a budget that were trained to the end, and what to train next."""

    def __init__(
        self,
        config: ConfirmConfig,
        shapes: tuple[Shape, ...],
        records: Sequence[TrialRecord],
        estimates: DepthEstimates,
        *,
        plain_rates: bool = False,
    ) -> None:
        self._config, self._shapes, self._records = config, shapes, records
        self._estimates, self._plain_rates = estimates, plain_rates
        self._done = [r for r in records if r.loss is not None and r.spec.scale == UNSCALED]
        self._ratio = usual_ratio(records)
        self._losses = {estimate.depth: estimate.loss for estimate in estimates.depths}
        self._tried = {record.spec.shape.depth for record in records}
        self._possible = possible_depths(estimates.depths, WORSE)

    @cached_property
    def _forecast(self) -> DepthEstimates:
        """Estimates of all depths tried, the paused ones by their forecasts."""
        return combine_shapes(forecasts(forecastable(self._records)))

    @cached_property
    def _optimum(self) -> Optimum:
        """The answer so far."""
        return find_optimum(self._records, seed=0)

    def beyond(self) -> tuple[Choice, ...]:
        """A depth without which the trained ones do not enclose the optimum; empty when they do.

        An end of the trained depths encloses it if that depth is certainly worse than the best, if
        a depth not far beyond it is, or if no shape lies beyond it. An end at which no trial
        finished counts as enclosing: what is deeper than a diverging model diverges too.
        """
        forecast = self._forecast.depths
        worse = {estimate.depth for estimate in forecast} - possible_depths(forecast, WORSE)
        failed = self._tried - {estimate.depth for estimate in forecast}
        ends = {min(self._losses), max(self._losses)}
        for end in sorted(ends, key=lambda depth: self._losses[depth]):
            shallow = end == min(self._losses)
            low, high = sorted((end, end / STEP if shallow else end * STEP))
            enclosed = end not in self._possible or any(
                low <= depth <= high for depth in worse | failed
            )
            choice = self._new(low if shallow else high)
            outside = choice.shape.depth < end if shallow else choice.shape.depth > end
            if not enclosed and outside and _apart(choice.shape.depth, end) and self._room():
                return (choice,)
        return ()

    def rates(self) -> tuple[Choice, ...]:
        """The other learning rates and weight decays of the outermost depths in question; of those
        between as well if the best ones clearly differ, or no rate is known to carry over."""
        rates = self._bracketed(Factor.RATE, self._config.rates, every=self._plain_rates)
        return rates + self._bracketed(Factor.DECAY, self._config.decays)

    def _bracketed(
        self, factor: Factor, multiples: Sequence[float], *, every: bool = False
    ) -> tuple[Choice, ...]:
        """The trials at other `multiples` of a factor that have not started."""
        depths = sorted(self._losses)
        low, high = depths.index(min(self._possible)), depths.index(max(self._possible))
        inside = depths[max(0, low - 1) : high + 2]
        ended = brackets(self._records, factor)
        known = [bracket.depth for bracket in ended]
        shallow = [] if any(depth <= depths[low] for depth in known) else inside[:1]
        deep = [] if any(depth >= depths[high] for depth in known) else inside[-1:]
        every = every or self._best_differ(ended)
        wanted = inside if every else dict.fromkeys(shallow + deep)
        started = {(r.spec.shape.depth, r.spec.scale) for r in self._records}
        scales = [factor.scale(multiple) for multiple in multiples]
        return tuple(
            replace(self._first(depth), rate_scale=scale.rate, decay_scale=scale.decay)
            for scale in scales
            for depth in wanted
            if (depth, scale) not in started
        )

    def _best_differ(self, ended: Sequence[Bracket]) -> bool:
        """True if the outermost brackets have different best multiples, and the gain shows in the
        noise."""
        if len(ended) < 2:
            return False
        ends = ended[0], ended[-1]
        noise = self._estimates.noise
        clear = any(end.gain > CLEAR * noise * math.sqrt(end.weight) for end in ends)
        low, high = sorted(end.best for end in ends)
        return clear and high > OTHER_RATES * low

    def repeats(self) -> tuple[Choice, ...]:
        """Repeats of the best depths, as many as the noise between seeds takes to be known."""
        missing = KNOWN_NOISE - seed_noise(self._records)[1]
        ranked = sorted(self._losses, key=lambda depth: self._losses[depth])
        fresh = [depth for depth in ranked if self._seeds(depth) < self._config.seeds]
        again = [*fresh, *fresh][: max(0, missing)]
        return tuple(
            self._repeat(depth, again[:place].count(depth)) for place, depth in enumerate(again)
        )

    def gaps(self) -> tuple[Choice, ...]:
        """A depth in the widest gap beside one that may be the best, where a notch or a step could
        hide; empty where neighbours are within `STEP`."""
        gaps = (
            (low, high)
            for low, high in pairwise(sorted(self._losses))
            if high > STEP * low and not self._possible.isdisjoint((low, high))
        )
        return self._between(gaps)

    def _between(self, gaps: Iterable[tuple[int, int]]) -> tuple[Choice, ...]:
        """A depth in the widest of the gaps between trained depths that has room for one."""
        for low, high in sorted(gaps, key=lambda gap: gap[0] / gap[1]):
            choice = self._new(math.sqrt(low * high))
            between = low < choice.shape.depth < high
            if between and all(_apart(choice.shape.depth, end) for end in (low, high)):
                return (choice,) if self._room() else ()
        return ()

    def where_no_curve_fits(self) -> tuple[Choice, ...]:
        """The depths that would show the shape of losses that no curve fits."""
        if self._optimum.optimal_depth is not None or not self._room():
            return ()
        depths = informative_depths(points_of(self._estimates))
        new = (self._new(depth) for depth in depths)
        return tuple(c for c in dict.fromkeys(new) if c.shape.depth not in self._losses)

    def better_ratio(self) -> tuple[Choice, ...]:
        """The best depth at a feed-forward ratio that the trials show to be better, once."""
        ratio = self._forecast.best_ratio
        depth = self._optimum.optimal_depth
        if depth is None or abs(math.log(ratio / self._ratio)) < SAME_RATIO:
            return ()
        shape = comparable_shape(self._shapes, depth=depth, ff_ratio=ratio)
        if any(r.spec.shape.off_ratio(ratio) < SAME_RATIO for r in self._done):
            return ()
        return (Choice(shape, FRESH_SEEDS_FROM, 1.0),)

    def closer(self) -> tuple[Choice, ...]:
        """A depth in the widest gap of more than `GAP` that the interval reaches into, where a
        notch could hide; empty once settled."""
        optimum = _unsettled(self._optimum)
        if optimum is None:
            return ()
        first, last = optimum.curve_minimum_interval
        gaps = (
            (low, high)
            for low, high in pairwise(sorted(self._losses))
            if high > GAP * low and low < last and high > first
        )
        return self._between(gaps)

    def narrowing(self) -> tuple[Choice, ...]:
        """The next training, where it narrows the interval most; where none would, but the noise
        hides the effect of depth, another seed of the depths in question; none once settled."""
        optimum = _unsettled(self._optimum)
        if optimum is None:
            return ()
        low, high = optimum.curve_minimum_interval
        again = [d for d in sorted(self._possible) if self._seeds(d) < self._config.seeds]
        new = [
            shape.depth
            for shape in self._shapes
            if low / STEP <= shape.depth <= high * STEP
            and all(_apart(shape.depth, depth) for depth in self._losses)
            and self._room()
        ]
        depth = most_telling(self._estimates, sorted({*again, *new}))
        if depth is not None:
            return (self._repeat(depth) if depth in self._losses else self._new(depth),)
        if optimum.kind is not Kind.INSUFFICIENT:
            return ()
        fewest = min(map(self._seeds, again), default=0)
        return tuple(self._repeat(depth) for depth in again if self._seeds(depth) == fewest)

    def _room(self) -> bool:
        return len(self._losses) < self._config.depths

    def _seeds(self, depth: int) -> int:
        """Number of trainings of a depth at nearly the usual ratio."""
        shape = self._first(depth).shape
        return sum(record.spec.shape == shape for record in self._done)

    def _first(self, depth: int) -> Choice:
        """The first training of a depth at nearly the common ratio."""
        trained = [record for record in self._done if record.spec.shape.depth == depth]
        return choice_of(min(trained, key=lambda record: record.spec.shape.off_ratio(self._ratio)))

    def _repeat(self, depth: int, more: int = 0) -> Choice:
        """The next seed of a trained depth, after so many `more` of the same batch."""
        shape = self._first(depth).shape
        specs = (record.spec for record in self._records)
        seeds = (spec.seed for spec in specs if spec.shape == shape and spec.scale == UNSCALED)
        last = max([FRESH_SEEDS_FROM - 1, *seeds])
        return Choice(shape, last + 1 + more, 1.0)

    def _new(self, depth: float) -> Choice:
        """A depth that was not trained to the end: its paused trial, or a new one."""
        shape = comparable_shape(self._shapes, depth=depth, ff_ratio=self._ratio)
        paused = [
            record
            for record in self._records
            if record.outcome is Outcome.STOPPED and record.spec.shape.depth == shape.depth
        ]
        if paused:
            return choice_of(min(paused, key=lambda r: r.spec.shape.off_ratio(self._ratio)))
        return Choice(shape, FRESH_SEEDS_FROM, 1.0)


def possible_depths(depths: Sequence[DepthEstimate], errors: float) -> set[int]:
    """The depths that are not worse than the best of them by so many standard errors."""
    best = min(depths, key=lambda estimate: estimate.loss, default=None)
    return {
        estimate.depth
        for estimate in depths
        if best
        and estimate.loss - best.loss
        <= errors * math.hypot(estimate.standard_error, best.standard_error)
    }


def _unsettled(optimum: Optimum) -> Located | None:
    """Returns an optimum whose interval more trials would narrow; None where nothing more is worth
    training: its interval is narrow, no depth is worse than others, or no curve fits."""
    if not isinstance(optimum, Located) or optimum.kind is Kind.PLATEAU:
        return None
    low, high = optimum.curve_minimum_interval
    one_left = optimum.interval[0] == optimum.interval[1]
    return None if one_left or math.log(high / low) <= NARROW else optimum


def choice_of(record: TrialRecord) -> Choice:
    """Returns the choice with the shape, seed, rate and decay of a trial."""
    return Choice(record.spec.shape, record.spec.seed, *record.spec.scale)


def usual_ratio(records: Sequence[TrialRecord]) -> float:
    """The median feed-forward ratio of the trials, in log."""
    return math.exp(statistics.median(record.spec.shape.ln_ff_ratio for record in records))


def _apart(depth: int, other: int) -> bool:
    return max(depth, other) / min(depth, other) >= SPACING
