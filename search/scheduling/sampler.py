"""The sampler of one budget: the shape of each exploring trial, as a function of earlier results.

Exploring trials are drawn in rounds. All of a round are drawn from the curves that the rounds
before it had up to their first rung, so neither the number of workers nor the order in which trials
arrive changes what is drawn. Optuna sees a fixed rectangle, log depth by log feed-forward ratio. A
drawn point is snapped to a feasible shape before Optuna hears of it. The value of a trial is its
loss, or the one forecast for the horizon at its first rung. One that diverged is PRUNED without any
value, which ranks it last; one that failed otherwise is FAIL and teaches nothing; one of the same
round is RUNNING. What other tools see is another study (`optuna_trials.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from fathom.models.shape import Shape
from fathom.search.analysis.curve_fit import points_of
from fathom.search.analysis.depth_estimates import combine_shapes
from fathom.search.analysis.forecast import forecast_ranking, forecasts
from fathom.search.analysis.posterior import find_posterior
from fathom.search.records import Outcome, TrialRecord
from fathom.search.scheduling.optuna_trials import STATES
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler
from fathom.search.study.planning.shapes import comparable_shape, nearest_shape

GOLDEN = (math.sqrt(5) - 1) / 2
"""Golden-ratio step: multiples of it, modulo 1, fill an interval evenly for any number."""
MIDDLE = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Places in the range of ln ff_ratio from which the ratio of the first shapes is chosen."""
FIRST_DEPTHS = 7
"""Depths, evenly spread from end to end, that are tried first: with fewer, a second hump or a step
can't be told from noise."""


class ShapeSampler:
    """The shapes of one budget; a draw depends on nothing but its index and earlier results."""

    def __init__(self, config: StudyConfig, shapes: tuple[Shape, ...], *, seed: int) -> None:
        self._shapes, self._sampler = shapes, config.sampler
        self._startup = _startup_trials(config, shapes)
        self._together = config.trials_together
        self._seed, self._offset = seed, float(np.random.default_rng(seed).random())
        depths = [shape.depth for shape in shapes]
        ratios = [shape.ln_ff_ratio for shape in shapes]
        self._ends = {
            "ln_depth": (math.log(min(depths)), math.log(max(depths))),
            "ln_ff_ratio": (min(ratios), max(ratios)),
        }
        self._space: dict[str, BaseDistribution] = {
            name: FloatDistribution(*ends) for name, ends in self._ends.items()
        }

    def needed(self, index: int) -> int:
        """Number of first exploring trials that the draw of trial `index` has to know: those of all
        rounds before its own, each of which has reached its first rung or ended."""
        if index < self._startup or self._sampler in (Sampler.LADDER, Sampler.RANDOM):
            return 0
        return index - (index - self._startup) % self._together

    def draw(self, index: int, records: Sequence[TrialRecord]) -> Shape:
        """The shape of the budget's exploring trial `index`, from 0; `records` has those before it,
        in their order."""
        if self._sampler is Sampler.LADDER:
            return ladder_shapes(self._shapes)[index]
        if index < self._startup and self._sampler is Sampler.CURVE:
            return self._first_shapes[index]
        known = [up_to_first_rung(record) for record in records[: self.needed(index)]]
        if index < self._startup:
            point = self._stratified(index)
        elif self._sampler is Sampler.CURVE:
            point = self._by_curve(index, known)
        else:
            # Nothing that was drawn before changes what is drawn at random.
            others = () if self._sampler is Sampler.RANDOM else records[len(known) :]
            point = self._suggest(index, known, others)
        return nearest_shape(
            self._untried(records),
            depth=math.exp(point["ln_depth"]),
            ff_ratio=math.exp(point["ln_ff_ratio"]),
        )

    def _suggest(
        self, index: int, known: Sequence[TrialRecord], running: Sequence[TrialRecord]
    ) -> dict[str, float]:
        """A point that Optuna suggests from what is known, while others of the round run."""
        generator = np.random.default_rng([self._seed, index])
        sampler = _build_sampler(self._sampler, self._startup, int(generator.integers(2**31)))
        study = optuna.create_study(sampler=sampler)
        ends = _ends_of(known)
        study.add_trials(
            self._frozen(record, ends.get(record.spec.trial))
            for record in known
            if self._holds(record.spec.shape)
        )
        for record in running:
            study.enqueue_trial(self._coordinates(record.spec.shape))
            study.ask(self._space)
        return study.ask(self._space).params

    def _frozen(self, record: TrialRecord, end: float | None) -> FrozenTrial:
        ended = STATES.get(record.outcome, TrialState.FAIL)
        return create_trial(
            state=ended if end is None else TrialState.COMPLETE,
            value=end,
            params=self._coordinates(record.spec.shape),
            distributions=self._space,
        )

    def _holds(self, shape: Shape) -> bool:
        """True if a shape lies in Optuna's rectangle; that of a damaged record may not."""
        point = self._coordinates(shape)
        return all(low <= point[name] <= high for name, (low, high) in self._ends.items())

    def _coordinates(self, shape: Shape) -> dict[str, float]:
        return {"ln_depth": math.log(shape.depth), "ln_ff_ratio": shape.ln_ff_ratio}

    def _stratified(self, index: int) -> dict[str, float]:
        """Start-up points: every stratum of log depth once, ratios spread by golden steps."""
        spread = (self._offset + 0.5 + index * GOLDEN) % 1
        return {
            "ln_depth": self._at("ln_depth", (self._golden_order()[index] + 0.5) / self._startup),
            "ln_ff_ratio": self._at("ln_ff_ratio", spread),
        }

    def _golden_order(self) -> list[int]:
        """Places of the start-up trials, in an order in which the first few span the range."""
        return sorted(range(self._startup), key=lambda k: (self._offset + k * GOLDEN) % 1)

    @cached_property
    def _first_shapes(self) -> list[Shape]:
        """The first shapes of the curve sampler, of depths from end to end at about one ratio."""
        ratios = [math.exp(self._at("ln_ff_ratio", share)) for share in MIDDLE]
        ladders = [comparable_ladder(self._shapes, self._startup, ratio) for ratio in ratios]
        ladder = min(ladders, key=_ratio_spread)
        return [ladder[place] for place in self._golden_order()]

    def _at(self, name: str, share: float) -> float:
        """The value at a share of one side of Optuna's rectangle."""
        low, high = self._ends[name]
        return low + share * (high - low)

    def _by_curve(self, index: int, records: Sequence[TrialRecord]) -> dict[str, float]:
        """The lowest point of one draw of the curve over depth so far (Thompson sampling, 1933).

        Depths are tried as often as they are likely to be the best, and ratios evenly.
        """
        ratio = self._at("ln_ff_ratio", (self._offset + index * GOLDEN) % 1)
        estimates = combine_shapes(forecasts(records))
        generator = np.random.default_rng([self._seed, index])
        if len(estimates.depths) < 3:
            lowest = generator.uniform(*self._ends["ln_depth"])
        else:
            posterior = find_posterior(points_of(estimates), estimates.repeats, generator)
            lowest = math.log(generator.choice(posterior.lowest))
        return {"ln_depth": lowest, "ln_ff_ratio": ratio}

    def _untried(self, records: Sequence[TrialRecord]) -> tuple[Shape, ...]:
        """Shapes to choose from: for the curve sampler other ratios of the depths tried, since a
        new depth at another ratio can't be compared with them."""
        if self._sampler is not Sampler.CURVE:
            return self._shapes
        tried = {record.spec.shape for record in records}
        depths = {shape.depth for shape in tried}
        new = [shape for shape in self._shapes if shape not in tried]
        return tuple(shape for shape in new if shape.depth in depths) or tuple(new) or self._shapes


def _ends_of(records: Sequence[TrialRecord]) -> dict[str, float]:
    """Returns trial -> its loss at the horizon, measured or forecast at its first rung."""
    rungs = [min(record.rungs) for record in records if record.rungs]
    forecast = forecast_ranking(records, min(rungs)) if rungs else {}
    ends = {trial: found.loss for trial, found in forecast.items()}
    return ends | {r.spec.trial: r.loss for r in records if r.loss is not None}


def up_to_first_rung(record: TrialRecord) -> TrialRecord:
    """The trial as it stood at its first rung; one that ended before it is returned unchanged."""
    if not record.rungs:
        return record
    tokens = min(record.rungs)
    curve = tuple(point for point in record.curve if record.shared(point) <= tokens)
    rungs = {tokens: record.rungs[tokens]}
    return replace(record, curve=curve, rungs=rungs, outcome=Outcome.STOPPED)


def ladder_shapes(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """One shape for every depth: the one nearest to the middle of all ratios, in log."""
    ratios = [shape.ff_ratio for shape in shapes]
    middle = math.sqrt(min(ratios) * max(ratios))
    depths = sorted({shape.depth for shape in shapes})
    return tuple(nearest_shape(shapes, depth=depth, ff_ratio=middle) for depth in depths)


def _startup_trials(config: StudyConfig, shapes: tuple[Shape, ...]) -> int:
    """Number of start-up trials, spread evenly: half of the trials, at most one a depth."""
    if config.sampler is Sampler.RANDOM:
        return 0
    depths = len({shape.depth for shape in shapes})
    if config.sampler is Sampler.CURVE:
        return min(config.trials, depths, FIRST_DEPTHS)
    return max(1, min(config.trials // 2, depths, 16))


def comparable_ladder(shapes: Sequence[Shape], number: int, ratio: float) -> list[Shape]:
    """Returns `number` shapes of different depths, about evenly spaced in log from the least to the
    greatest, with feed-forward ratios near `ratio`."""
    low, high = (f(shape.depth for shape in shapes) for f in (min, max))
    ends = [[shape for shape in shapes if shape.depth == depth] for depth in (low, high)]
    found = {end[0].depth: min(end, key=lambda s: s.off_ratio(ratio)) for end in ends}
    left = [shape for shape in shapes if shape.depth not in found]
    wanted = [low * (high / low) ** (step / (number - 1)) for step in range(1, number - 1)]
    for depth in wanted:
        if left:
            shape = comparable_shape(left, depth=depth, ff_ratio=ratio)
            found[shape.depth] = shape
            left = [shape for shape in left if shape.depth not in found]
    return [found[depth] for depth in sorted(found)]


def _ratio_spread(ladder: Sequence[Shape]) -> float:
    return float(np.std([shape.ln_ff_ratio for shape in ladder]))


def _build_sampler(sampler: Sampler, startup: int, seed: int) -> optuna.samplers.BaseSampler:
    if sampler is Sampler.TPE:
        # The constant liar keeps parallel trials from all asking for the same point.
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, constant_liar=True)
    if sampler is Sampler.GP:
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup)
    return optuna.samplers.RandomSampler(seed=seed)
