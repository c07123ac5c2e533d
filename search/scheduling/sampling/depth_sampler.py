"""A sampler of depths for Optuna: it draws a curve of loss against depth, and takes its lowest
point.

Nothing else in the study matters: its objective may be anybody's own, and its trials may run in
Optuna, in Ray's `OptunaSearch` or in Fathom's own search, where this sampler is the default.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from fathom.models.shape import Shape
from fathom.search.analysis.curve.curve_fit import points_of
from fathom.search.analysis.curve.posterior import FEWEST, find_posterior
from fathom.search.analysis.losses.depth_estimates import combine_shapes
from fathom.search.scheduling.sampling.depth_losses import RATIO, losses_of
from fathom.search.study.planning.space.near_shapes import comparable_shape, nearest_shape

GOLDEN = (math.sqrt(5) - 1) / 2
"""Golden ratio minus 1: the first multiples of it, modulo 1, fill an interval evenly, whatever
their number."""
MIDDLE = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Positions in the range of ln ff_ratio, from which one ratio for the first shapes is chosen."""
FIRST_DEPTHS = 7
"""Number of depths, evenly spread from end to end, that are tried first: with fewer, a second
minimum or a step can't be told from noise."""


class DepthSampler(BaseSampler):
    """Sampler that draws a model's depth from the posterior of the curve of loss against depth.

    The first `n_startup_trials` depths are spread evenly from end to end, in log. Each later one is
    the lowest point of one draw of the curve over depth so far (Thompson sampling, 1933), so that
    depths are tried as often as they are likely to be the best. The parameter `ff_ratio`, if the
    objective has one, is spread evenly in log; parameters of other names are drawn at random.

    Trials that were stopped early count by a forecast of their loss at the last step that any trial
    has reported, which is fair to deep models: these start slowly. It needs values reported at
    steps (`trial.report`, which Ray's `OptunaSearch` calls). Failed trials, and losses that are no
    numbers, count for nothing. A draw is a function of the seed, the trial's number and the trials
    so far.

    `seed` is the seed of the draws; without one, each sampler draws differently. `shapes` are
    shapes to draw from, such as `ShapeSpace(...).shapes`: `depth` and `ff_ratio` are then those of
    an untried shape, as long as there is one, and the first shapes hardly differ in ratio. `depth`
    names the parameter that is the depth: whole numbers from 1 on, by `suggest_int` or as choices.

    >>> import optuna
    >>> from fathom import DepthSampler
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> def objective(trial):
    ...     depth = trial.suggest_int("depth", 1, 32, log=True)
    ...     return 1 / depth + depth / 64  # train a model of this depth instead
    >>> study = optuna.create_study(sampler=DepthSampler(seed=0))
    >>> study.optimize(objective, n_trials=16)
    >>> study.best_params["depth"]
    8

    Raises:
        ValueError: if `n_startup_trials` is below 1.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        n_startup_trials: int = FIRST_DEPTHS,
        shapes: Sequence[Shape] = (),
        depth: str = "depth",
    ) -> None:
        if n_startup_trials < 1:
            raise ValueError(f"`n_startup_trials` must be at least 1, got {n_startup_trials}")
        self._seed = int(np.random.default_rng(seed).integers(2**31)) if seed is None else seed
        self._offset = float(np.random.default_rng(self._seed).random())
        self._startup, self._shapes, self._depth = n_startup_trials, tuple(shapes), depth

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Returns no parameters: each is drawn when the objective asks for it."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Returns no values, as no parameter is drawn together with others.

        Raises:
            ValueError: if the study has several objectives.
        """
        _check_one_objective(study)
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A value of one parameter.

        Raises:
            ValueError: if the study has several objectives, or depths are no whole numbers from 1.
        """
        _check_one_objective(study)
        if param_name == self._depth:
            return self._draw_depth(study, trial, whole_depths(param_name, param_distribution))
        if param_name == RATIO and isinstance(param_distribution, FloatDistribution):
            if self._shapes and self._depth in trial.params:
                return self._shape(study, trial, trial.params[self._depth]).ff_ratio
            if param_distribution.low > 0 and param_distribution.step is None:
                return self._spread(trial.number, param_distribution.low, param_distribution.high)
        seed = np.random.default_rng([self._seed, trial.number, crc32(param_name.encode())])
        others = RandomSampler(seed=int(seed.integers(2**31)))
        return others.sample_independent(study, trial, param_name, param_distribution)

    def _draw_depth(self, study: Study, trial: FrozenTrial, depths: Sequence[int]) -> int:
        if self._shapes:
            if trial.number < len(self._first_shapes):
                return self._first_shapes[trial.number].depth
            return self._shape(study, trial, self._lowest(study, trial, depths)).depth
        first = spread_depths(depths, self._startup)
        if trial.number < len(first):
            return first[golden_order(self._offset, len(first))[trial.number]]
        lowest = self._lowest(study, trial, depths)
        return min(depths, key=lambda depth: abs(math.log(depth / lowest)))

    def _lowest(self, study: Study, trial: FrozenTrial, depths: Sequence[int]) -> float:
        """The depth at which one random draw of the curve, given the trials so far, is lowest."""
        sign = -1.0 if study.direction is StudyDirection.MAXIMIZE else 1.0
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        estimates = combine_shapes(losses_of(ended, self._depth, sign))
        generator = np.random.default_rng([self._seed, trial.number])
        if len(estimates.depths) < FEWEST:
            return math.exp(generator.uniform(math.log(depths[0]), math.log(depths[-1])))
        posterior = find_posterior(points_of(estimates), estimates.repeats, generator)
        return math.exp(math.log(generator.choice(posterior.lowest)))

    def _shape(self, study: Study, trial: FrozenTrial, depth: float) -> Shape:
        """An untried shape near this depth, if possible of a depth that was tried: a new depth at
        another ratio could not be compared with those."""
        first = self._first_shapes[trial.number : trial.number + 1]
        if first and first[0].depth == depth:
            return first[0]
        others = (t.params for t in study.get_trials(deepcopy=False) if t.number != trial.number)
        tried = {(params.get(self._depth), params.get(RATIO, 0.0)) for params in others}
        depths = {of_trial for of_trial, _ in tried}
        new = [shape for shape in self._shapes if (shape.depth, shape.ff_ratio) not in tried]
        untried = tuple(shape for shape in new if shape.depth in depths) or tuple(new)
        ratios = [shape.ln_ff_ratio for shape in self._shapes]
        ratio = math.exp(self._place(trial.number, min(ratios), max(ratios)))
        return nearest_shape(untried or self._shapes, depth=depth, ff_ratio=ratio)

    @cached_property
    def _first_shapes(self) -> list[Shape]:
        """The first shapes, of depths from end to end at about one ratio."""
        number = min(self._startup, len({shape.depth for shape in self._shapes}))
        low, high = (f(shape.ln_ff_ratio for shape in self._shapes) for f in (min, max))
        ratios = [math.exp(low + share * (high - low)) for share in MIDDLE]
        ladders = [comparable_ladder(self._shapes, number, ratio) for ratio in ratios]
        ladder = min(ladders, key=lambda some: float(np.std([shape.ln_ff_ratio for shape in some])))
        return [ladder[place] for place in golden_order(self._offset, number)]

    def _spread(self, index: int, low: float, high: float) -> float:
        """The value of a trial between two ends, such that the values of all trials are evenly
        spread in log."""
        value = math.exp(self._place(index, math.log(low), math.log(high)))
        return min(max(value, low), high)

    def _place(self, index: int, low: float, high: float) -> float:
        return low + (self._offset + index * GOLDEN) % 1 * (high - low)


def golden_order(offset: float, number: int) -> list[int]:
    """Indices of the first trials, in an order whose first few already span the range."""
    return sorted(range(number), key=lambda k: (offset + k * GOLDEN) % 1)


def whole_depths(name: str, distribution: BaseDistribution) -> list[int]:
    """The depths of a parameter, ascending.

    Raises:
        ValueError: if they are no whole numbers from 1 on.
    """
    depths: Sequence[object] = ()
    if isinstance(distribution, IntDistribution):
        depths = range(distribution.low, distribution.high + 1, distribution.step)
    elif isinstance(distribution, CategoricalDistribution):
        depths = distribution.choices
    whole = sorted(depth for depth in depths if isinstance(depth, int) and depth >= 1)
    if not whole or len(whole) < len(depths):
        raise ValueError(
            f"`{name}`, the depth, must be whole numbers from 1 on, got {distribution}; use "
            f'`trial.suggest_int("{name}", 1, 32, log=True)`'
        )
    return whole


def spread_depths(depths: Sequence[int], number: int) -> list[int]:
    """Returns at most `number` of these depths, about evenly spaced in log from end to end."""
    number, (low, high) = min(number, len(depths)), (depths[0], depths[-1])
    wanted = [low * (high / low) ** (step / max(1, number - 1)) for step in range(number)]
    left, found = set(depths), []
    for depth in wanted:
        found.append(min(left, key=lambda d: (abs(math.log(d / depth)), d)))
        left.remove(found[-1])
    return sorted(found)


def comparable_ladder(shapes: Sequence[Shape], number: int, ratio: float) -> list[Shape]:
    """Returns `number` shapes of different depths, about evenly spaced in log from the least depth
    to the greatest, with feed-forward ratios near `ratio`."""
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


def _check_one_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError(
            f"DepthSampler must have one objective, got {len(study.directions)} directions; use "
            "the loss alone"
        )
