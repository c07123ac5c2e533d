"""The depths of a budget that were trained to the end, and the next trials that are worth their
cost."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fathom.models.shape import Shape
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.judging import CHANCE_OF_COST, is_broad
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.answer.verdict import (
    BetweenTested,
    FlatInterval,
    FlatRange,
    Kind,
    TheseDepths,
)
from fathom.search.analysis.curve.curve_fit import CLEAR
from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.losses.depth_estimates import (
    DepthEstimate,
    DepthEstimates,
    combine_shapes,
    estimate_depths,
)
from fathom.search.analysis.losses.forecast import forecastable, forecasts
from fathom.search.analysis.losses.rates import Bracket, Factor, brackets
from fathom.search.analysis.losses.stalls import find_stalls
from fathom.search.records import UNSCALED, Outcome, TrialRecord
from fathom.search.scheduling.telling import (
    NEAR,
    doubt_of,
    is_wide,
    may_have_stalled,
    most_telling,
)
from fathom.search.study.keys.groups import ConfirmConfig
from fathom.search.study.planning.space.near_shapes import comparable_shape

SAME_RATIO = 0.25
"""Difference of ln feed-forward ratios that is too small to be worth another trial."""
WORSE = 3
"""Standard errors by which a depth must be worse than the best to get no more trials."""
STEP = 2
"""Depths within about this factor of the best one enclose it. With a smaller factor losses would
differ by less than seeds do; with a larger one no curve would hold between the depths."""
SPACING = 1.2
"""Least factor between a depth that is to enclose the best one and the trained depths."""
REPEATS = 1
"""Number of repeats that are trained before anything else, to measure the noise between seeds."""
NEXT_TO_NOTHING = 0.002
"""Nats that the answer may be expected to cost against the best depth if the interval is broad and
flat; nothing more is trained below this."""
OTHER_RATES = 1.5
"""Factor between the best rates, or decays, of the outermost depths above which the depths between
are bracketed as well."""
FRESH_SEEDS_FROM = 1000
"""First seed of confirming trials. Exploring trials have lower seeds, so that no shape is confirmed
by the run for which it was chosen."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A trial to start, or to resume if it was paused: its shape, the number of its seed, and
    multiples of the learning rate and the weight decay."""

    shape: Shape
    seed: int
    rate_scale: float = 1.0
    decay_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingLimits:
    """Limits on the trials for the answer of a budget."""

    confirm: ConfirmConfig
    shapes: tuple[Shape, ...]
    plain_rates: bool = False
    """True if learning rates may not carry over between depths, so that every depth in question is
    bracketed."""
    ladder: bool = False
    """True if the best shapes are trained once with every seed, whatever the results."""
    first_seed: int = FRESH_SEEDS_FROM
    """Seed of the first trial of a shape that has none."""
    asked: tuple[int, ...] = ()
    """Depths that are trained once nothing else is worth it."""


class TrainedDepths:
    """The depths of a budget that were trained to the end, and the choice of the next trials.

    `noise` between seeds, nats, is measured unless it is stated.
    """

    def __init__(
        self, records: Sequence[TrialRecord], limits: TrainingLimits, noise: float | None = None
    ) -> None:
        self.records, self.limits, self.noise = records, limits, noise
        self._confirm, self._shapes = limits.confirm, limits.shapes
        self.estimates = estimate_depths(records, noise)
        self._done = [r for r in records if r.loss is not None and r.spec.scale == UNSCALED]
        self._ratio = usual_ratio(records)
        self.losses = {estimate.depth: estimate.loss for estimate in self.estimates.depths}
        """Loss of each depth that was trained to the end, nats."""
        self.spent = {choice_of(r) for r in records if r.outcome is not Outcome.STOPPED}
        """Choices that were trained, or tried without success."""
        self._stalls = find_stalls(records)
        self._tried = {record.spec.shape.depth for record in records}
        self._possible = possible_depths(self.estimates.depths, WORSE)

    @property
    def frees_size(self) -> bool:
        """True if the size is in question as well as the depth."""
        return bool(self.records) and self.records[0].spec.count.frees_size

    @cached_property
    def _forecast(self) -> DepthEstimates:
        """Estimates of all depths tried; those of paused depths are forecasts."""
        return combine_shapes(forecasts(forecastable(self.records)))

    @cached_property
    def answer(self) -> tuple[Optimum, Posterior | None]:
        """The answer so far, and the posterior that it is read from."""
        return find_with_posterior(self.records, seed=0, noise=self.noise)

    def beyond(self) -> tuple[Choice, ...]:
        """A trial of a depth beyond an end of the trained depths; empty if these enclose the
        optimum.

        An end of the trained depths encloses the optimum if the depth there is certainly worse than
        the best, if a depth not far beyond is, or if no shape lies beyond. An end at which no trial
        finished counts as enclosing: models deeper than a diverging one diverge too.
        """
        forecast = self._forecast.depths
        worse = {estimate.depth for estimate in forecast} - possible_depths(forecast, WORSE)
        failed = self._tried - {estimate.depth for estimate in forecast}
        ends = {min(self.losses), max(self.losses)}
        for end in sorted(ends, key=lambda depth: self.losses[depth]):
            shallow = end == min(self.losses)
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
        """Trials of the depths in question at other learning rates and weight decays.

        At first there are trials for the shallowest and the deepest of these depths; for those
        between as well if the best rates of the two clearly differ, or the study does not transfer
        rates over depths.
        """
        rates = self._bracketed(Factor.RATE, self._confirm.rates, every=self.limits.plain_rates)
        return rates + self._bracketed(Factor.DECAY, self._confirm.decays)

    def _bracketed(
        self, factor: Factor, multiples: Sequence[float], *, every: bool = False
    ) -> tuple[Choice, ...]:
        """The trials at other `multiples` of a factor (learning rate or weight decay) that have not
        started."""
        depths = sorted(self.losses)
        low, high = depths.index(min(self._possible)), depths.index(max(self._possible))
        inside = depths[max(0, low - 1) : high + 2]
        ended = brackets(self.records)[factor]
        known = [bracket.depth for bracket in ended]
        shallow = [] if any(depth <= depths[low] for depth in known) else inside[:1]
        deep = [] if any(depth >= depths[high] for depth in known) else inside[-1:]
        wanted = inside if every or self._best_differ(ended) else dict.fromkeys(shallow + deep)
        started = {(r.spec.shape.depth, r.spec.scale) for r in self.records}
        scales = [factor.scale(multiple) for multiple in multiples]
        return tuple(
            replace(self._first(depth), rate_scale=scale.rate, decay_scale=scale.decay)
            for scale in scales
            for depth in wanted
            if (depth, scale) not in started
        )

    def _best_differ(self, ended: Sequence[Bracket]) -> bool:
        """True if the outermost brackets have different best multiples, by a gain above the
        noise."""
        if len(ended) < 2:
            return False
        ends = ended[0], ended[-1]
        noise = self.estimates.noise
        clear = any(end.gain > CLEAR * noise * math.sqrt(end.weight) for end in ends)
        low, high = sorted(end.best for end in ends)
        return clear and high > OTHER_RATES * low

    def repeats(self) -> tuple[Choice, ...]:
        """Repeats of the best depths, as many as measure the noise between seeds."""
        missing = REPEATS - self.estimates.repeats.degrees_of_freedom
        ranked = sorted(self.losses, key=lambda depth: self.losses[depth])
        fresh = [depth for depth in ranked if self._seeds(depth) < self._confirm.seeds]
        return tuple(self._repeat(depth) for depth in fresh[: max(0, missing)])

    def better_ratio(self) -> tuple[Choice, ...]:
        """A trial of the best depth at a feed-forward ratio that is better according to the trials;
        only once."""
        ratio = self._forecast.best_ratio
        depth = self.answer[0].expected_depth
        if depth is None or abs(math.log(ratio / self._ratio)) < SAME_RATIO:
            return ()
        shape = comparable_shape(self._shapes, depth=depth, ff_ratio=ratio)
        if any(r.spec.shape.off_ratio(ratio) < SAME_RATIO for r in self._done):
            return ()
        return (Choice(shape, self.limits.first_seed, 1.0),)

    def telling(self) -> tuple[Choice, ...]:
        """The trials that tell most about the best depth. Once that is identified: the untrained
        depth of its interval that is expected to cost least. If none is expected to tell much, but
        the answer is insufficient: another seed of the depths in question."""
        optimum, posterior = self.answer
        if posterior is None or not isinstance(optimum, Located):
            return ()
        new = self._untrained(posterior, optimum) if self._room() else []
        if is_settled(optimum, posterior):
            named = optimum.kind is Kind.IDENTIFIED and not self.limits.asked
            low, high = optimum.interval if named else (0, 0)
            # No curve says how far a depth differs from its neighbours.
            inside = sorted([d for d in new if low <= d <= high], key=posterior.expected_cost)
            return tuple(self._new(depth) for depth in inside[:1])
        again = [d for d in sorted(self._possible) if self._seeds(d) < self._confirm.seeds]
        if len(self.losses) + 1 == self._confirm.depths and optimum.expected_depth in new:
            new = [optimum.expected_depth]  # the last depth is kept for the answer
        doubt = doubt_of(posterior, optimum)
        candidates = sorted([*again, *new])
        depths = most_telling(posterior, doubt, candidates, self._confirm.together)
        if not depths and optimum.kind is Kind.INSUFFICIENT:
            asked = self._asked_for(optimum, new)
            depths = asked or self._least_repeated(optimum, again)
        return tuple(self._repeat(d) if d in self.losses else self._new(d) for d in depths)

    def asked(self) -> tuple[Choice, ...]:
        """The depth that is expected to cost least, and those that the limits ask for, as far as
        they have not finished and may still be trained."""
        depth = self.answer[0].expected_depth
        asked = [depth] if depth and self._room() else []
        choices = {depth: self._new(depth) for depth in (*asked, *self.limits.asked)}
        # Where a depth has no shape of about the usual ratio, its choice is of another depth.
        return tuple(
            choice
            for depth, choice in choices.items()
            if depth not in self.losses and choice.shape.depth == depth and choice not in self.spent
        )

    def _untrained(self, posterior: Posterior, optimum: Located) -> list[int]:
        """The untrained depths in and about the interval whose shape of the usual ratio may still
        be trained."""
        low, high = optimum.interval
        depths = {shape.depth for shape in self._shapes if shape.depth in posterior.depths}
        choices = [self._new(d) for d in depths if low / STEP <= d <= high * STEP]
        new = {choice.shape.depth for choice in choices if choice not in self.spent}
        # Where a depth has no shape of about the usual ratio, its choice is of another depth.
        return sorted(new.intersection(posterior.depths.tolist()).difference(self.losses))

    def _asked_for(self, optimum: Located, new: Sequence[int]) -> list[int]:
        """The first `new` depth that the verdict asks for."""
        remedy = optimum.verdict.remedy
        asked = remedy.depths if isinstance(remedy, TheseDepths) else ()
        return [depth for depth in asked if depth in new][:1]

    def _least_repeated(self, optimum: Located, again: Sequence[int]) -> list[int]:
        """Of the depths in and beside the interval that may be trained `again`, the one with the
        fewest trials; among equals, the one with the lowest loss."""
        low, high = optimum.interval
        below = max((depth for depth in self.losses if depth < low), default=low)
        above = min((depth for depth in self.losses if depth > high), default=high)
        close = [depth for depth in again if below <= depth <= above]
        return sorted(close, key=lambda d: (self._seeds(d), self.losses[d]))[:1]

    def unlucky(self) -> tuple[Choice, ...]:
        """Another seed of a depth, if the depth is ruled out only by trials that may have
        stalled."""
        optimum, posterior = self.answer
        if posterior is None or not isinstance(optimum, Located):
            return ()
        settled, best = is_settled(optimum, posterior), min(self.losses.values())
        for depth in sorted(self.losses, key=lambda depth: self.losses[depth]):
            if self._seeds(depth) >= self._confirm.seeds:
                continue
            two = self._first(depth).shape in self._stalls.in_doubt
            apart = two and self._lowest(depth) - best <= NEAR
            lone = self._counting(depth) == 1
            if apart or (lone and may_have_stalled(posterior, depth, settled=settled)):
                return (self._repeat(depth),)
        return ()

    def _lowest(self, depth: int) -> float:
        """The lowest loss of any trial of a depth, nats."""
        return min(r.loss for r in self._done if r.loss is not None and r.spec.shape.depth == depth)

    def _room(self) -> bool:
        return len(self.losses) < self._confirm.depths

    def _seeds(self, depth: int) -> int:
        """Number of trials of a depth at nearly the usual ratio. Of stalled ones, up to as many as
        the study has seeds are left out, since no more of them are replaced."""
        shape = self._first(depth).shape
        trained = sum(record.spec.shape == shape for record in self._done)
        return max(self._counting(depth), trained - self._confirm.seeds)

    def _counting(self, depth: int) -> int:
        """Number of trials of a depth, at nearly the usual ratio, that did not stall."""
        shape = self._first(depth).shape
        kept = (record for record in self._done if record.spec.trial not in self._stalls.left_out)
        return sum(record.spec.shape == shape for record in kept)

    def _first(self, depth: int) -> Choice:
        """The first trial of a depth, at nearly the usual ratio."""
        # A table may have a depth at other rates alone.
        trained = [r for r in self._done if r.spec.shape.depth == depth] or self.records
        trained = [r for r in trained if r.spec.shape.depth == depth]
        return choice_of(min(trained, key=lambda record: record.spec.shape.off_ratio(self._ratio)))

    def _repeat(self, depth: int) -> Choice:
        """A trial of a trained depth with its next seed."""
        shape = self._first(depth).shape
        specs = (record.spec for record in self.records)
        seeds = (spec.seed for spec in specs if spec.shape == shape and spec.scale == UNSCALED)
        last = max([self.limits.first_seed - 1, *seeds])
        return Choice(shape, last + 1)

    def _new(self, depth: float) -> Choice:
        """A trial of a depth that was not trained to the end: its paused trial, or a new one."""
        shape = comparable_shape(self._shapes, depth=depth, ff_ratio=self._ratio)
        paused = [
            record
            for record in self.records
            if record.outcome is Outcome.STOPPED and record.spec.shape.depth == shape.depth
        ]
        if paused:
            return choice_of(min(paused, key=lambda r: r.spec.shape.off_ratio(self._ratio)))
        return Choice(shape, self.limits.first_seed, 1.0)


def possible_depths(depths: Sequence[DepthEstimate], errors: float) -> set[int]:
    """The depths that are worse than the best of them by less than `errors` standard errors."""
    best = min(depths, key=lambda estimate: estimate.loss, default=None)
    return {
        estimate.depth
        for estimate in depths
        if best
        and estimate.loss - best.loss
        <= errors * math.hypot(estimate.standard_error, best.standard_error)
    }


def is_settled(optimum: Located, posterior: Posterior) -> bool:
    """True if no trial is worth its cost, in one of three cases: no depth is worse than others; the
    interval is broad and flat, and the answer is expected to cost next to nothing; or the best
    depth is known closely and is unlikely to cost more than others."""
    cause = optimum.verdict.cause
    if isinstance(cause, FlatRange):
        return True
    if isinstance(cause, FlatInterval) and is_broad(optimum.interval):
        return bool(posterior.expected_cost(optimum.optimal_depth) <= NEXT_TO_NOTHING)
    unknown = isinstance(cause, BetweenTested) or is_wide(optimum)
    return not unknown and optimum.chance_of_cost <= CHANCE_OF_COST


def choice_of(record: TrialRecord) -> Choice:
    """Returns the choice with the shape, seed, rate and decay of a trial."""
    return Choice(record.spec.shape, record.spec.seed, *record.spec.scale)


def paused_trial(records: Iterable[TrialRecord], choice: Choice) -> TrialRecord | None:
    """The paused trial that a choice resumes; None if the choice is of a new trial."""
    known = next((record for record in records if choice_of(record) == choice), None)
    return known if known and known.outcome is Outcome.STOPPED else None


def usual_ratio(records: Sequence[TrialRecord]) -> float:
    """The median feed-forward ratio of the trials, in log."""
    return math.exp(statistics.median(record.spec.shape.ln_ff_ratio for record in records))


def _apart(depth: int, other: int) -> bool:
    return max(depth, other) / min(depth, other) >= SPACING
