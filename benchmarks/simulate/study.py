"""The search itself on planted losses: sampler, stopping, confirming and statistics are the real
ones, only training is replaced. Trials run to their end one after another.
"""

import math
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.worlds.planted import World
from fathom.search.analysis.optimum import Optimum, find_optimum
from fathom.search.records import CurvePoint, Outcome, Report, TrialSpec, derive_seed
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.budget import Budget, evaluation_steps, expand_budgets, rung_steps
from fathom.search.study.config import StudyConfig
from fathom.search.study.shapes import feasible_shapes

VOCAB_SIZE = 256


def search(config: StudyConfig, world: World) -> Optimum:
    """What a search of the study's one budget finds in the world."""
    (budget,) = expand_budgets(config)
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        folder.create()
        scheduler = Scheduler(config, {budget: feasible_shapes(config, budget, VOCAB_SIZE)}, folder)
        while spec := scheduler.next_trial():
            _run(scheduler, budget, world, spec)
        return find_optimum(scheduler.records, seed=config.seed)


def _run(scheduler: Scheduler, budget: Budget, world: World, spec: TrialSpec) -> None:
    """One trial, evaluation by evaluation, until it ends or is stopped."""
    config = scheduler.config
    steps, rungs = evaluation_steps(config, budget), set(rung_steps(config, budget))
    generator = np.random.default_rng(derive_seed(config.seed, "planted", spec.trial))
    shares = [step / budget.steps for step in steps]
    losses = world.losses(spec.shape, shares, generator, spec.rate_scale)
    points: list[CurvePoint] = []
    for step, loss in zip(steps, losses, strict=True):
        points.append(_point(step, loss, budget))
        outcome = None if step < budget.steps else Outcome.FINISHED
        rung = None
        if not math.isfinite(loss):
            outcome = Outcome.DIVERGED
        elif step in rungs:
            recent = [point.loss for point in points[-config.stopping.median_of :]]
            rung = (points[-1].tokens, float(np.median(recent)))
        if outcome or rung:
            report = Report(points=tuple(points), rung=rung, outcome=outcome)
            if not scheduler.report(spec.trial, report):
                return


def _point(step: int, loss: float, budget: Budget) -> CurvePoint:
    return CurvePoint(
        step=step,
        tokens=step * budget.tokens_per_step,
        loss=loss,
        train_loss=loss,
        train_seconds=0.01 * step,
        time=float(step),
    )
