"""The confirming stage of a budget whose size is free: trials that run to the end, chosen to tell
most about the best size or the best depth, until both are settled."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fathom.models.shape import Shape
from fathom.search.analysis.answer.joint_answer import JointAnswer, find_tuned
from fathom.search.analysis.losses.depth_estimates import seed_noise
from fathom.search.analysis.surface.surface import SizeSurface, find_surface
from fathom.search.records import Outcome, TrialRecord
from fathom.search.scheduling.telling import WORTH
from fathom.search.scheduling.trained_depths import (
    NEXT_TO_NOTHING,
    Choice,
    TrainingLimits,
    choice_of,
    is_settled,
    usual_ratio,
)
from fathom.search.study.keys.free_size import FEWEST_WHOLE

Array = NDArray[np.float64]

DRAWS = 1000
"""Number of draws of the loss surface."""


def size_confirmations(
    records: Sequence[TrialRecord], limits: TrainingLimits, noise: float | None = None
) -> tuple[Choice, ...]:
    """The next confirming trials of a budget; empty once its size and its depth are settled, or
    the limits are reached."""
    confirm, spent = limits.confirm, {choice_of(r) for r in records if r.is_over}
    done = [record for record in records if record.loss is not None]
    if len(done) >= confirm.depths * confirm.seeds:
        return ()
    tuned = find_tuned(records, seed=0, draws=DRAWS, noise=noise)
    surface = tuned.surface if tuned else find_surface(
        records, np.random.default_rng(len(done)), noise=noise, draws=DRAWS
    )  # fmt: skip
    if surface is None:
        return tuple(choice_of(r) for r in records if r.outcome is Outcome.STOPPED)[:FEWEST_WHOLE]
    chooser = _Chooser(records, limits, surface)
    if tuned is None or len({record.spec.shape for record in done}) < FEWEST_WHOLE:
        choices = chooser.most_promising(spread=tuned is None)
        return tuple(choice for choice in choices if choice not in spent)[: confirm.together]
    if noise is None and not seed_noise(records).degrees_of_freedom:
        return (chooser.repeat(chooser.best_finished),)
    wanted = chooser.telling(tuned, confirm.together) or chooser.answer()
    return tuple(choice for choice in wanted if choice not in spent)


class _Chooser:
    """Chooses the trials that the loss surface of a budget asks for."""

    def __init__(
        self, records: Sequence[TrialRecord], limits: TrainingLimits, surface: SizeSurface
    ) -> None:
        self._records, self._limits, self._surface = records, limits, surface
        ratio = usual_ratio(records)
        cells: dict[int, Shape] = {}
        for shape in sorted(limits.shapes, key=lambda shape: shape.off_ratio(ratio)):
            cells.setdefault(surface.cell_of(shape), shape)
        paused = [r for r in records if r.outcome is Outcome.STOPPED]
        self._paused = {surface.cell_of(record.spec.shape): record for record in paused}
        self._shapes = cells | {cell: r.spec.shape for cell, r in self._paused.items()}
        done = [record.spec.shape for record in records if record.loss is not None]
        self._shapes |= {surface.cell_of(shape): shape for shape in done}
        self._finished = {surface.cell_of(shape): shape for shape in done}
        self._expected: Array = surface.regrets.mean(axis=0)

    @property
    def best_finished(self) -> int:
        """The cell of size and depth, among those with a finished shape, that is expected to cost
        least."""
        return min(self._finished, key=lambda cell: self._expected[cell])

    def most_promising(self, *, spread: bool) -> Iterator[Choice]:
        """Yields trials of cells without a finished shape: paused ones first, then new ones, each
        by expected loss; with `spread`, cells of new depths and sizes come before all others."""
        surface, done = self._surface, list(self._finished)
        for_curve = spread * (
            np.isin(surface.depths, surface.depths[done]).astype(int)
            + np.isin(surface.places, surface.places[done])
        )
        by_cost = sorted(
            self._shapes,
            key=lambda cell: (for_curve[cell], cell not in self._paused, self._expected[cell]),
        )
        yield from (self._first(cell) for cell in by_cost if cell not in self._finished)

    def telling(self, tuned: JointAnswer, number: int) -> list[Choice]:
        """The trials that most reduce the doubt about size and depth; none if both are settled or
        if no trial tells much."""
        surface = tuned.surface
        doubts = [
            np.log(profile.posterior.lowest)
            for profile, answer in (
                (surface.by_depth, tuned.optimum), (surface.by_size, tuned.by_size)
            )
            if not is_settled(answer, profile.posterior)
        ]  # fmt: skip
        cells = [cell for cell in self._shapes if self._seeds(cell) < self._limits.confirm.seeds]
        if not doubts or not cells:
            return []
        losses = surface.losses[:, cells] - surface.losses.mean(axis=1, keepdims=True)
        known = np.array([self._seeds(cell) for cell in cells])
        worth: Array = np.sum([_worth(losses, d, surface.noise, known) for d in doubts], axis=0)
        order = np.argsort(-worth)[:number]
        return [self._next(cells[at]) for at in order if worth[at] >= WORTH]

    def answer(self) -> tuple[Choice, ...]:
        """The shape that is expected to cost least, as a trial, if all finished shapes cost
        more."""
        best = min(self._shapes, key=lambda cell: self._expected[cell])
        gain = self._expected[self.best_finished] - self._expected[best]
        return () if gain <= NEXT_TO_NOTHING else (self._first(best),)

    def repeat(self, cell: int) -> Choice:
        """A trial of a trained shape with its next seed."""
        shape = self._finished[cell]
        seeds = [r.spec.seed for r in self._records if r.spec.shape == shape]
        return Choice(shape, max(self._limits.first_seed - 1, *seeds) + 1)

    def _next(self, cell: int) -> Choice:
        return self.repeat(cell) if cell in self._finished else self._first(cell)

    def _first(self, cell: int) -> Choice:
        if cell in self._paused:
            return choice_of(self._paused[cell])
        return Choice(self._shapes[cell], self._limits.first_seed)

    def _seeds(self, cell: int) -> int:
        """Number of finished trials of a cell's shape."""
        shape = self._finished.get(cell)
        return sum(r.spec.shape == shape for r in self._records if r.loss is not None)


def _worth(losses: Array, doubt: Array, noise: float, known: NDArray[np.int64]) -> Array:
    """For each cell, the share of the variance of `doubt` (draws,) that a trial of it is expected
    to remove, (cells,); from the covariance of `losses` (draws, cells) with the doubt."""
    off, doubt = losses - losses.mean(axis=0), doubt - doubt.mean()
    shared = (off * doubt[:, None]).mean(axis=0)
    variance = (off**2).mean(axis=0) + noise**2 * (1 + known)
    found: Array = shared**2 / variance / max(float((doubt**2).mean()), 1e-12)
    return found
