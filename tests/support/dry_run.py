"""A search without training: a scheduler driven by planted losses on a fixed number of slots."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial

from fathom.search.records import CurvePoint, Outcome, Report, TrialSpec
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.optuna_studies import Studies, open_file
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.budget import evaluation_steps, expand_budgets, rung_steps
from fathom.search.study.config import StudyConfig, parse
from fathom.search.study.shapes import feasible_shapes

STUDY = """
study: simulated
objective: {name: language, context: 32}
budgets: [20k, 40k]
count: non_embedding
tokens: 64k
space: {depth: [1, 12], n_heads: 2}
trials: 10
confirm: {depths: 3, seeds: 2, rates: [0.5, 1, 2]}
train: {batch_size: 8, evaluations: 4}
"""

Loss = Callable[[TrialSpec, float], float]
"""Loss of a trial at a share of its horizon."""


def best_at_four(spec: TrialSpec, share: float) -> float:
    """Lowest at depth 4, one seed's worth of noise, deep models behind at first."""
    noise = random.Random(f"{spec.trial}").gauss(0, 0.005)
    depth = math.log(spec.shape.depth / 4) ** 2
    return 2.0 + 0.1 * depth + (1 - share) * (0.5 + 0.02 * spec.shape.depth) + noise


def slow_deep(spec: TrialSpec, share: float) -> float:
    """Lowest at depth 8 in the end; at the rungs the deeper a model, the worse.

    It makes up for it after the last rung only, which no rule can foresee.
    """
    noise = random.Random(spec.trial).gauss(0, 0.003)
    behind = 0.1 * spec.shape.depth if share < 0.9 else 0.0
    return 2 + 0.1 * math.log(spec.shape.depth / 8) ** 2 + 0.5 * (1 - share) + behind + noise


def study(**changes: object) -> StudyConfig:
    return parse(STUDY).model_copy(update=changes)


def scheduler(config: StudyConfig, path: Path, studies: Studies | None = None) -> Scheduler:
    folder = RunFolder(path)
    folder.create()
    spaces = {budget: feasible_shapes(config, budget, 256) for budget in expand_budgets(config)}
    return Scheduler(config, spaces, folder, studies=studies)


def told(search: Scheduler, params: int) -> list[FrozenTrial]:
    """What Optuna's file holds of a budget."""
    name = f"{search.config.study}/{search.budgets[params].budget.label}"
    store = open_file(search.folder.optuna)
    return optuna.load_study(study_name=name, storage=store).get_trials()


@dataclass
class Simulation:
    """Runs trials on slots, one report of a random trial at a time."""

    scheduler: Scheduler
    loss: Loss = best_at_four
    slots: int = 3
    seed: int = 0
    running: dict[str, int] = field(default_factory=dict)
    """Trial -> evaluations done."""
    events: int = 0

    def run(self, *, events: int = 10**6) -> None:
        """Go on until the scheduler is done or that many reports were made."""
        rng = random.Random(self.seed)
        while not self.scheduler.done and self.events < events:
            while len(self.running) < self.slots and (spec := self.scheduler.next_trial()):
                self.running[spec.trial] = 0
            if self.running:
                self.report(rng.choice(sorted(self.running)))
                self.events += 1

    def report(self, trial: str) -> None:
        """Carry one trial to its next evaluation."""
        spec = self.scheduler.live[trial].spec
        budget = self.scheduler.budgets[spec.budget].budget
        steps = evaluation_steps(self.scheduler.config, budget)
        self.running[trial] += 1
        done = steps[: self.running[trial]]
        points = tuple(self._point(spec, step, budget.tokens_per_step) for step in done)
        rung = None
        if done[-1] in rung_steps(self.scheduler.config, budget):
            rung = (points[-1].tokens, points[-1].loss)
        outcome = Outcome.FINISHED if len(done) == len(steps) else None
        if not math.isfinite(points[-1].loss):
            rung, outcome = None, Outcome.DIVERGED
        if not self.scheduler.report(
            trial, Report(points=points, rung=rung, outcome=outcome, reason="simulated")
        ):
            del self.running[trial]

    def _point(self, spec: TrialSpec, step: int, tokens_per_step: int) -> CurvePoint:
        tokens = step * tokens_per_step
        loss = self.loss(spec, tokens / spec.horizon_tokens)
        return CurvePoint(
            step=step,
            tokens=tokens,
            loss=loss,
            train_loss=loss,
            train_seconds=0.01 * step,
            time=time.time(),
        )
