"""The shape of each exploring trial of a budget, asked of an Optuna sampler.

For every draw a study is built in memory from those results of earlier trials that may be known;
`depth` and `ff_ratio` are its parameters. The value of a trial is its loss, or the forecast for the
horizon. A trial that diverged is PRUNED without any value, which ranks it last; one that failed
otherwise is FAIL and teaches nothing; one without a result yet is RUNNING. `study.ask()` draws a
point, which is snapped to a feasible shape unless the sampler knows the shapes. So a draw is a
function of the seed, the trial's number and these trials, even after a kill. Other tools see a
different study (`optuna_trials.py`).

A result may be known once virtual time has taken it (`study/planning/virtual_time.py`), so neither
the number of workers nor the order in which trials arrive changes a draw.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from fathom.models.shape import Shape
from fathom.objectives.user_code import NOT_OF_USERS, one_line
from fathom.search.analysis.losses.depth_estimates import ShapeLoss
from fathom.search.analysis.losses.forecast import forecasts_by_trial
from fathom.search.records import TrialRecord
from fathom.search.scheduling.optuna.optuna_trials import STATES, holds
from fathom.search.scheduling.sampling.depth_losses import LN_SIZE, RATIO, VARIANCE
from fathom.search.scheduling.sampling.depth_sampler import (
    FIRST_DEPTHS,
    GOLDEN,
    DepthSampler,
    golden_order,
)
from fathom.search.scheduling.sampling.shape_space import distributions_of
from fathom.search.scheduling.sampling.size_sampler import SizeSampler
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler
from fathom.search.study.keys.own_sampler import make_sampler
from fathom.search.study.planning.space.near_shapes import nearest_shape


class ShapeSampler:
    """Draws the shapes of one budget; a draw depends only on its index and on earlier results."""

    def __init__(self, config: StudyConfig, shapes: tuple[Shape, ...], *, seed: int) -> None:
        self._config, self._shapes, self._sampler = config, shapes, config.sampler
        self._sizes = None
        if config.count.frees_size:
            self._sizes = SizeSampler(shapes, trials=config.trials, seed=seed)
        self._startup = _startup_trials(config, shapes)
        self.at_once = 0 if config.sampler is Sampler.LADDER else self._startup
        if self._sizes:
            self.at_once = self._sizes.at_once
        """Number of trials that are drawn before any result is known; the results of all of them
        are known to later draws."""
        self._seed, self._offset = seed, float(np.random.default_rng(seed).random())
        self._space = distributions_of(shapes)
        self._depth_sampler = DepthSampler(
            seed=seed, n_startup_trials=max(1, self._startup), shapes=shapes
        )

    def draw(self, index: int, visible: Sequence[TrialRecord]) -> Shape:
        """The shape of the budget's exploring trial `index`, from 0; `visible` has the trials
        before it, in order, with the results that may be used.

        Raises:
            PlanError: if a sampler that the study names by its import path fails.
        """
        if self._sizes:
            return self._sizes.draw(index, visible)
        ends = forecasts_by_trial(visible)
        earlier = [self._frozen(record, ends.get(record.spec.trial)) for record in visible]
        with _failures_named(self._config.own_sampler):
            study = optuna.create_study(sampler=self._build_sampler(index))
            if self._config.own_sampler:
                self._replay(study, earlier)
            else:
                study.add_trials(earlier)
            if shape := self._queued(index):
                study.enqueue_trial(self._point(shape))
            return self._nearest(study.ask(self._space).params, visible)

    def _build_sampler(self, index: int) -> BaseSampler:
        """Optuna's sampler for the draw of trial `index`."""
        if self._config.own_sampler:
            sampler: BaseSampler = make_sampler(
                self._config.own_sampler, self._config.sampler_options, self._seed
            )
            return sampler
        if self._sampler is Sampler.CURVE:
            return self._depth_sampler
        seed = int(np.random.default_rng([self._seed, index]).integers(2**31))
        if self._sampler is Sampler.TPE:
            # The constant liar keeps parallel trials from all asking for the same point.
            return optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=self._startup, constant_liar=True
            )
        if self._sampler is Sampler.GP:
            return optuna.samplers.GPSampler(seed=seed, n_startup_trials=self._startup)
        return optuna.samplers.RandomSampler(seed=seed)

    def _replay(self, study: optuna.Study, earlier: Sequence[FrozenTrial]) -> None:
        """Asks the sampler for the earlier trials again and tells it their ends: some samplers,
        such as CMA-ES, keep their state with the trials that they drew."""
        for frozen in earlier:
            study.enqueue_trial(frozen.params)
            trial = study.ask(self._space)
            _ = trial.relative_params  # drawn only now, as the parameters are given
            if frozen.state.is_finished():
                study.tell(trial, frozen.value, frozen.state)

    def _queued(self, index: int) -> Shape | None:
        """The shape that is set for a trial without asking a sampler: a step of the ladder, or one
        of the start-up shapes of Optuna's own samplers; None if a sampler draws the shape."""
        if self._sampler is Sampler.LADDER:
            return ladder_shapes(self._shapes)[index]
        if self._sampler in (Sampler.TPE, Sampler.GP) and index < self._startup:
            return self._stratified(index)
        return None

    def _frozen(self, record: TrialRecord, end: ShapeLoss | None) -> FrozenTrial:
        """An earlier trial for Optuna; if its shape is outside the space, as in a damaged record,
        it is FAIL without parameters."""
        point = self._point(record.spec.shape)
        if not all(holds(self._space[name], value) for name, value in point.items()):
            return create_trial(state=TrialState.FAIL)
        state = TrialState.RUNNING
        if end is not None:
            state = TrialState.COMPLETE
        elif record.outcome is not None:
            state = STATES.get(record.outcome, TrialState.FAIL)
        return create_trial(
            state=state,
            value=end.loss if end else None,
            params=point,
            distributions=self._space,
            user_attrs={VARIANCE: end.variance, LN_SIZE: end.log_params} if end else {},
        )

    def _point(self, shape: Shape) -> dict[str, float]:
        values = {"depth": shape.depth, RATIO: shape.ff_ratio}
        return {name: values[name] for name in self._space}

    def _nearest(self, point: dict[str, float], records: Sequence[TrialRecord]) -> Shape:
        """The feasible shape nearest to a point; with the default sampler, one that was not tried
        yet."""
        tried = {record.spec.shape for record in records}
        new = self._sampler is Sampler.CURVE and [s for s in self._shapes if s not in tried]
        return nearest_shape(
            tuple(new or self._shapes), depth=point["depth"], ff_ratio=point.get(RATIO, 0.0)
        )

    def _stratified(self, index: int) -> Shape:
        """A start-up shape: each stratum of log depth occurs once, and ratios are spread by golden
        steps."""
        place = golden_order(self._offset, self._startup)[index]
        depths = [math.log(shape.depth) for shape in self._shapes]
        ratios = [shape.ln_ff_ratio for shape in self._shapes]
        return nearest_shape(
            self._shapes,
            depth=math.exp(_between(depths, (place + 0.5) / self._startup)),
            ff_ratio=math.exp(_between(ratios, (self._offset + 0.5 + index * GOLDEN) % 1)),
        )


def _between(values: Sequence[float], share: float) -> float:
    """The value that lies a `share` of the way from the least of the values to the greatest."""
    return min(values) + share * (max(values) - min(values))


def check_sampler(config: StudyConfig) -> None:
    """Checks that a sampler that the study names by its import path can draw shapes.

    Raises:
        PlanError: if it can't be made, or needs something that a search does not give it.
    """
    if not config.own_sampler:
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = make_sampler(config.own_sampler, config.sampler_options, config.seed)
    study = optuna.create_study(sampler=sampler)
    space = {
        "depth": IntDistribution(1, 1000, log=True),
        RATIO: FloatDistribution(0.01, 100.0, log=True),
    }
    with _failures_named(config.own_sampler):
        for loss in (3.0, 2.0):
            study.tell(study.ask(space), loss)


@contextmanager
def _failures_named(place: str | None) -> Iterator[None]:
    """Context in which any failure of a sampler that the study names by its import path becomes a
    one-line error."""
    try:
        yield
    except BaseException as error:
        if not place or isinstance(error, (PlanError, *NOT_OF_USERS)):
            raise
        raise PlanError(
            f"sampler {place} must draw a depth and a feed-forward ratio, and learn "
            f"from losses, got {one_line(error)}; choose another",
            key="sampler",
        ) from error


def ladder_shapes(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """One shape for every depth: the one nearest to the middle of all ratios, in log."""
    ratios = [shape.ff_ratio for shape in shapes]
    middle = math.sqrt(min(ratios) * max(ratios))
    depths = sorted({shape.depth for shape in shapes})
    return tuple(nearest_shape(shapes, depth=depth, ff_ratio=middle) for depth in depths)


def _startup_trials(config: StudyConfig, shapes: tuple[Shape, ...]) -> int:
    """Number of start-up trials, spread evenly: half of the trials, at most one a depth."""
    if config.sampler is Sampler.RANDOM or config.own_sampler:
        return 0
    depths = len({shape.depth for shape in shapes})
    if config.sampler is Sampler.CURVE:
        return min(config.trials, depths, FIRST_DEPTHS)
    return max(1, min(config.trials // 2, depths, 16))
