"""The sampler of one budget: Optuna draws its shapes, and gets the result of every trial.

Optuna sees a fixed rectangle, log depth by log feed-forward ratio. A drawn point is snapped to a
feasible shape before Optuna hears of it, so what it learns from is the shape that was built.
A trial that was stopped is PRUNED with the values it had at its rungs, never COMPLETE; one that
diverged is PRUNED without any value, which ranks it last; one that failed otherwise is FAIL and
teaches nothing. It draws from a study in memory, begun from the records, in which a trial that was
resumed stands with every end. What other tools see is another study (`optuna_trials.py`).
"""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from fathom.models.shape import Shape
from fathom.search.analysis.curve_fit import draw
from fathom.search.analysis.depth_estimates import KNOWN_NOISE
from fathom.search.analysis.forecast import fit_forecasts, forecasts
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
    """The shapes of one budget, one Optuna study of its own."""

    def __init__(
        self,
        config: StudyConfig,
        shapes: tuple[Shape, ...],
        *,
        seed: int,
        past: Iterable[TrialRecord] = (),
    ) -> None:
        """`past` has every end of an exploring trial, in their order."""
        self._shapes, self._sampler = shapes, config.sampler
        self._startup = _startup_trials(config, shapes)
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
        self._numbers: dict[str, int] = {}
        self._live = optuna.create_study(
            sampler=_build_sampler(config.sampler, self._startup, seed)
        )
        self._live.add_trials(
            self._frozen(record) for record in past if self._holds(record.spec.shape)
        )

    def draw(self, index: int, records: Sequence[TrialRecord]) -> Shape:
        """The next shape, after `records`; `index` counts the budget's exploring trials from 0."""
        if self._sampler is Sampler.LADDER:
            return ladder_shapes(self._shapes)[index]
        if index < self._startup and self._sampler is Sampler.CURVE:
            return self._first_shapes[index]
        if index < self._startup:
            point = self._stratified(index)
        elif self._sampler is Sampler.CURVE:
            point = self._by_curve(index, records)
        else:
            point = self._suggest()
        return nearest_shape(
            self._untried(records),
            depth=math.exp(point["ln_depth"]),
            ff_ratio=math.exp(point["ln_ff_ratio"]),
        )

    def begin(self, trial: str, shape: Shape) -> None:
        """Tells Optuna that a trial tries a shape."""
        self._live.enqueue_trial(self._coordinates(shape))
        self._numbers[trial] = self._live.ask(self._space).number

    def tell(self, record: TrialRecord) -> None:
        """Tells Optuna the result of a started trial; other trials are ignored."""
        number = self._numbers.pop(record.spec.trial, None)
        if number is None:
            return
        self._live.tell(number, state=TrialState.FAIL)
        self._live.add_trial(self._frozen(record))

    def _frozen(self, record: TrialRecord) -> FrozenTrial:
        return create_trial(
            state=STATES.get(record.outcome, TrialState.FAIL),
            value=record.loss,
            params=self._coordinates(record.spec.shape),
            distributions=self._space,
            intermediate_values=record.rungs if record.outcome is Outcome.STOPPED else {},
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
        curves = fit_forecasts(forecasts(records))
        generator = np.random.default_rng([self._seed, index])
        if curves is None:
            lowest = generator.uniform(*self._ends["ln_depth"])
        else:
            drawn = draw(curves, generator, draws=1, degrees_of_freedom=KNOWN_NOISE)
            lowest = math.log(float(drawn.optima[0]))
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

    def _suggest(self) -> dict[str, float]:
        """A point from the sampler; `begin` is then called with the shape nearest to it."""
        probe = self._live.ask(self._space)
        self._live.tell(probe, state=TrialState.FAIL)
        return probe.params


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
