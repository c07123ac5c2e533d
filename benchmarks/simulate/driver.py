"""The driver of simulated searches: a scheduler whose trials report given losses.

Sampler, stopping, confirmation, records and journal are those of a real run; only the training is
replaced. Every simulation of a search in the benchmarks and the tests reports through this module.
"""

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.worlds.planted import World
from fathom.models.shape import Shape
from fathom.search.analysis.losses.rung_value import rung_value
from fathom.search.records import CurvePoint, Outcome, Report, TrialSpec, derive_seed
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.journal import read_past
from fathom.search.scheduling.scheduler import Listener, Scheduler
from fathom.search.study.fingerprint import read_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import (
    Budget,
    evaluation_steps,
    expand_budgets,
    rungs_by_step,
)
from fathom.search.study.planning.space.shapes import feasible_shapes

VOCAB_SIZE = 256
STEP_SECONDS = 0.01
Loss = Callable[[TrialSpec, float], float]
"""Returns the loss of a trial at a share of its horizon, nats; NaN from where it diverges."""


def new_scheduler(
    config: StudyConfig,
    path: Path,
    listeners: Iterable[Listener] = (),
    *,
    vocab_size: int = VOCAB_SIZE,
) -> Scheduler:
    """The scheduler of a study, of bytes by default, on the run folder at `path`."""
    budgets = expand_budgets(config)
    spaces = {budget: feasible_shapes(config, budget, vocab_size) for budget in budgets}
    return scheduler_in(path, config, spaces, listeners)


def scheduler_in(
    path: Path,
    config: StudyConfig,
    spaces: dict[Budget, tuple[Shape, ...]],
    listeners: Iterable[Listener] = (),
) -> Scheduler:
    """The scheduler of a study's budgets on the run folder at `path`, which is made if missing."""
    folder = RunFolder(path)
    folder.create()
    known = read_fingerprint(folder)
    return Scheduler(
        config,
        spaces,
        folder,
        listeners,
        past=read_past(folder),
        fingerprint=known.study if known else "",
    )


def report_evaluation(
    scheduler: Scheduler, trial: str, step: int, loss: float, step_seconds: float = STEP_SECONDS
) -> bool:
    """Report an evaluation as the trial's worker would; True if the trial continues."""
    config, record = scheduler.config, scheduler.live[trial]
    budget = scheduler.budgets[record.spec.budget].budget.of_shape(record.spec.shape)
    rungs = rungs_by_step(config, budget)
    point = CurvePoint(
        step=step,
        tokens=step * budget.tokens_per_step,
        loss=loss,
        train_loss=loss,
        train_seconds=step_seconds * step,
        time=time.time(),
        metrics={"bits_per_byte": loss / math.log(2)},
    )
    rung = outcome = None
    if not math.isfinite(loss):
        outcome = Outcome.DIVERGED
    elif step == budget.steps:
        outcome = Outcome.FINISHED
    elif step in rungs:
        losses = [known.loss for known in record.curve if known.step < step]
        rung = rungs[step], rung_value([*losses, loss], config.stopping.median_of)
    report = Report(points=(point,), rung=rung, outcome=outcome, reason="simulated")
    return scheduler.report(trial, report)


@dataclass(slots=True)
class SimulatedWorkers:
    """Workers on a simulated clock; a trial that is resumed continues where it paused."""

    scheduler: Scheduler
    loss: Loss
    workers: int = 1
    seconds: Callable[[], float] = lambda: 1.0
    """Returns the time between two evaluations of a trial."""
    running: set[str] = field(default_factory=set)
    evaluations: dict[str, int] = field(default_factory=dict)
    """Trial -> evaluations that it has reported."""
    step_seconds: Callable[[TrialSpec], float] = lambda spec: STEP_SECONDS
    """Returns the time of a training step of a trial, as it is recorded."""
    now: float = 0.0
    """Time on the clock, which starts anew with each `run`."""

    def run(self, *, events: int = 10**9) -> None:
        """Runs until the scheduler has no more trials, or so many evaluations are reported."""
        order, self.now = itertools.count(), 0.0
        due = [(self.seconds(), next(order), trial) for trial in sorted(self.running)]
        heapq.heapify(due)
        for _ in range(events):
            while len(self.running) < self.workers and (spec := self.scheduler.next_trial()):
                self.running.add(spec.trial)
                heapq.heappush(due, (self.now + self.seconds(), next(order), spec.trial))
            if not due:
                return
            self.now, _, trial = heapq.heappop(due)
            if self.report(trial):
                heapq.heappush(due, (self.now + self.seconds(), next(order), trial))

    def report(self, trial: str) -> bool:
        """Report the next evaluation of a running trial; True if the trial continues."""
        spec = self.scheduler.live[trial].spec
        budget = self.scheduler.budgets[spec.budget].budget.of_shape(spec.shape)
        index = self.evaluations.get(trial, 0)
        self.evaluations[trial] = index + 1
        step = evaluation_steps(self.scheduler.config, budget)[index]
        loss = self.loss(spec, step / budget.steps)
        goes_on = report_evaluation(self.scheduler, trial, step, loss, self.step_seconds(spec))
        if not goes_on:
            self.running.discard(trial)
        return goes_on


@dataclass(slots=True)
class PlantedLosses:
    """The losses of a study's trials in planted worlds, noise and divergence drawn per trial."""

    config: StudyConfig
    worlds: dict[Budget, World]
    drawn: dict[str, dict[float, float]] = field(default_factory=dict)
    """Trial -> share of the horizon -> loss, of the trials that have not finished."""

    def __call__(self, spec: TrialSpec, share: float) -> float:
        """The loss of a trial at the share of an evaluation."""
        if spec.trial not in self.drawn:
            budget, world = next(
                pair for pair in self.worlds.items() if pair[0].params == spec.budget
            )
            shares = [step / budget.steps for step in evaluation_steps(self.config, budget)]
            generator = np.random.default_rng(derive_seed(self.config.seed, "planted", spec.trial))
            losses = world.losses(spec.shape, shares, generator, spec.rate_scale)
            self.drawn[spec.trial] = dict(zip(shares, losses, strict=True))
        return self.drawn.pop(spec.trial)[share] if share == 1 else self.drawn[spec.trial][share]
