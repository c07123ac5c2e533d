"""The depths of a budget that were trained to the end, and the trainings that are worth it next."""

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
"""Difference of ln feed-forward ratios that is not worth another training."""
WORSE = 3
"""Standard errors behind the best depth above which a depth gets no more trainings."""
STEP = 2
"""Depths about this factor apart enclose the best one. With a smaller factor their losses differ by
less than seeds do; with a larger one no curve holds between them."""
SPACING = 1.2
"""A depth that encloses the best one is at least this factor beyond the trained ones."""
REPEATS = 1
"""Repeats that are trained before anything else, so that the noise between seeds is measured."""
NEXT_TO_NOTHING = 0.002
"""Where the interval is broad and flat, nothing more is trained once the answer is expected to cost
at most so many nats against the best depth."""
OTHER_RATES = 1.5
"""Factor between the best rates, or decays, of the outermost depths above which those between
are bracketed as well."""
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


@dataclass(frozen=True, slots=True)
class TrainingLimits:
    """Limits on the trainings for the answer of a budget."""

    confirm: ConfirmConfig
    shapes: tuple[Shape, ...]
    plain_rates: bool = False
    """True if no learning rate is known to carry over, so that every depth in question is
    bracketed."""
    ladder: bool = False
    """True if every seed of the best shapes is trained once, whatever the results."""
    first_seed: int = FRESH_SEEDS_FROM
    """Seed of the first training of a shape that has none."""
    asked: tuple[int, ...] = ()
    """Depths that are trained where nothing else is worth it."""


class TrainedDepths:
    """The depths of a budget that were trained to the end, and the choice of the next trainings.

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
        """What was trained, or tried in vain."""
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
        """The answer so far, and the posterior from which it is read."""
        return find_with_posterior(self.records, seed=0, noise=self.noise)

    def beyond(self) -> tuple[Choice, ...]:
        """A depth to train next, beyond an end of the trained depths; empty if these enclose the
        optimum.

        An end of the trained depths encloses it if that depth is certainly worse than the best, if
        a depth not far beyond it is, or if no shape lies beyond it. An end at which no trial
        finished counts as enclosing: what is deeper than a diverging model diverges too.
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
        """The other learning rates and weight decays that depths in question are to be trained at.

        At first for the shallowest and the deepest of them; for those between as well if the best
        rates of these two clearly differ, or the study does not transfer rates over depths.
        """
        rates = self._bracketed(Factor.RATE, self._confirm.rates, every=self.limits.plain_rates)
        return rates + self._bracketed(Factor.DECAY, self._confirm.decays)

    def _bracketed(
        self, factor: Factor, multiples: Sequence[float], *, every: bool = False
    ) -> tuple[Choice, ...]:
        """The trials at other `multiples` of a factor that have not started."""
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
        """True if the outermost brackets have different best multiples, and the gain exceeds the
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
        """The best depth at a feed-forward ratio that the trials show to be better, once."""
        ratio = self._forecast.best_ratio
        depth = self.answer[0].expected_depth
        if depth is None or abs(math.log(ratio / self._ratio)) < SAME_RATIO:
            return ()
        shape = comparable_shape(self._shapes, depth=depth, ff_ratio=ratio)
        if any(r.spec.shape.off_ratio(ratio) < SAME_RATIO for r in self._done):
            return ()
        return (Choice(shape, self.limits.first_seed, 1.0),)

    def telling(self) -> tuple[Choice, ...]:
        """The trainings that tell most about the best depth; once it is identified, the untrained
        depth of its interval that is expected to cost least. Where none is expected to tell much,
        but the answer is insufficient: another seed of the depths in question."""
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
        """The depth that is expected to cost least and those that the limits ask for, if they did
        not finish and may still be trained."""
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
        """The depths in and about the interval that have no training, and whose shape of the usual
        ratio may still get one."""
        low, high = optimum.interval
        depths = {shape.depth for shape in self._shapes if shape.depth in posterior.depths}
        choices = [self._new(d) for d in depths if low / STEP <= d <= high * STEP]
        new = {choice.shape.depth for choice in choices if choice not in self.spent}
        # Where a depth has no shape of about the usual ratio, its choice is of another depth.
        return sorted(new.intersection(posterior.depths.tolist()).difference(self.losses))

    def _asked_for(self, optimum: Located, new: Sequence[int]) -> list[int]:
        """The `new` depth that the verdict asks for first."""
        remedy = optimum.verdict.remedy
        asked = remedy.depths if isinstance(remedy, TheseDepths) else ()
        return [depth for depth in asked if depth in new][:1]

    def _least_repeated(self, optimum: Located, again: Sequence[int]) -> list[int]:
        """The depth with the fewest trainings in and beside the interval, of those that may be
        trained `again`; of several, the one with the lowest loss."""
        low, high = optimum.interval
        below = max((depth for depth in self.losses if depth < low), default=low)
        above = min((depth for depth in self.losses if depth > high), default=high)
        close = [depth for depth in again if below <= depth <= above]
        return sorted(close, key=lambda d: (self._seeds(d), self.losses[d]))[:1]

    def unlucky(self) -> tuple[Choice, ...]:
        """Another seed of a depth that is ruled out only by trainings that may have stalled."""
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
        """The lowest loss of a training of a depth, nats."""
        return min(r.loss for r in self._done if r.loss is not None and r.spec.shape.depth == depth)

    def _room(self) -> bool:
        return len(self.losses) < self._confirm.depths

    def _seeds(self, depth: int) -> int:
        """Number of trainings of a depth at nearly the usual ratio. Those that stalled count only
        beyond as many as the study has seeds, since no more of them are replaced."""
        shape = self._first(depth).shape
        trained = sum(record.spec.shape == shape for record in self._done)
        return max(self._counting(depth), trained - self._confirm.seeds)

    def _counting(self, depth: int) -> int:
        """Number of trainings of a depth at nearly the usual ratio that did not stall."""
        shape = self._first(depth).shape
        kept = (record for record in self._done if record.spec.trial not in self._stalls.left_out)
        return sum(record.spec.shape == shape for record in kept)

    def _first(self, depth: int) -> Choice:
        """The first training of a depth at nearly the common ratio."""
        # A table may have a depth at other rates alone.
        trained = [r for r in self._done if r.spec.shape.depth == depth] or self.records
        trained = [r for r in trained if r.spec.shape.depth == depth]
        return choice_of(min(trained, key=lambda record: record.spec.shape.off_ratio(self._ratio)))

    def _repeat(self, depth: int) -> Choice:
        """The next seed of a trained depth."""
        shape = self._first(depth).shape
        specs = (record.spec for record in self.records)
        seeds = (spec.seed for spec in specs if spec.shape == shape and spec.scale == UNSCALED)
        last = max([self.limits.first_seed - 1, *seeds])
        return Choice(shape, last + 1)

    def _new(self, depth: float) -> Choice:
        """A depth that was not trained to the end: its paused trial, or a new one."""
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
    """The depths that are less than so many standard errors worse than the best of them."""
    best = min(depths, key=lambda estimate: estimate.loss, default=None)
    return {
        estimate.depth
        for estimate in depths
        if best
        and estimate.loss - best.loss
        <= errors * math.hypot(estimate.standard_error, best.standard_error)
    }


def is_settled(optimum: Located, posterior: Posterior) -> bool:
    """True where no training is worth its cost: no depth is worse than others; on broad flat ground
    the answer is expected to cost next to nothing; or the best depth is known closely and is
    unlikely to cost more than others."""
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
    """The paused trial that a choice resumes; None if the choice is a new trial."""
    known = next((record for record in records if choice_of(record) == choice), None)
    return known if known and known.outcome is Outcome.STOPPED else None


def usual_ratio(records: Sequence[TrialRecord]) -> float:
    """The median feed-forward ratio of the trials, in log."""
    return math.exp(statistics.median(record.spec.shape.ln_ff_ratio for record in records))


def _apart(depth: int, other: int) -> bool:
    return max(depth, other) / min(depth, other) >= SPACING
