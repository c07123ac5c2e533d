"""A search without training: a scheduler driven by planted losses on a fixed number of slots."""

import math
import random
from collections.abc import Iterable
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial

from benchmarks.simulate.driver import Loss, PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.simulate.study import TWO_BUDGETS
from benchmarks.worlds.planted import World, deeper_is_better
from fathom.search.records import TrialSpec
from fathom.search.scheduling.optuna.optuna_studies import open_file
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import dump, parse
from fathom.search.study.hardware.machine import Machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.timing.device_speed import Speed

MACHINE = Machine(slots=2, speed=Speed(1e10), description="two slots")


def best_at_four(spec: TrialSpec, share: float) -> float:
    """Losses that are lowest at depth 4, with noise; deep models start slowly."""
    noise = random.Random(f"{spec.trial}").gauss(0, 0.005)
    depth = math.log(spec.shape.depth / 4) ** 2
    return 2.0 + 0.1 * depth + (1 - share) * (0.5 + 0.02 * spec.shape.depth) + noise


def slow_deep(spec: TrialSpec, share: float) -> float:
    """Losses that are lowest at depth 8 at the horizon, but rise with depth at the rungs.

    Deep models catch up after the last rung only, which no rule can predict.
    """
    noise = random.Random(spec.trial).gauss(0, 0.003)
    behind = 0.1 * spec.shape.depth if share < 0.9 else 0.0
    return 2 + 0.1 * math.log(spec.shape.depth / 8) ** 2 + 0.5 * (1 - share) + behind + noise


def study(**changes: object) -> StudyConfig:
    return parse(TWO_BUDGETS).model_copy(update=changes)


def scheduler(config: StudyConfig, path: Path) -> Scheduler:
    return new_scheduler(config, path)


def optuna_trials(search: Scheduler, params: int) -> list[FrozenTrial]:
    """The trials of a budget in Optuna's file."""
    name = f"{search.config.study}/{search.budgets[params].budget.label}"
    store = open_file(search.folder.optuna)
    return optuna.load_study(study_name=name, storage=store).get_trials()


class Simulation(SimulatedWorkers):
    """Workers whose trials report in a random order."""

    def __init__(
        self, search: Scheduler, loss: Loss = best_at_four, *, slots: int = 3, seed: int = 0,
        running: Iterable[str] = (),
    ) -> None:  # fmt: skip
        seconds = random.Random(seed).random
        super().__init__(search, loss, slots, seconds, set(running))


KINDS = ("whole", "edge", "unfinished", "insufficient")
"""A search that has ended, one whose deepest depths are best, one that was stopped on its way, and
one with too few trials."""


def search_of_kind(kind: str, path: Path) -> Scheduler:
    """A search of one of the `KINDS`, with its run folder; the study has its name."""
    config = study(study=kind)
    if kind == "insufficient":
        confirm = config.confirm.model_copy(update={"depths": 2})
        config = config.model_copy(update={"trials": 2, "confirm": confirm})
    search = scheduler(config, path)
    search.folder.config.write_text(dump(search.config))
    loss: Loss = best_at_four
    if kind == "edge":
        worlds = {
            budget: World(curve=deeper_is_better(), budget=budget.params, noise=0.003)
            for budget in expand_budgets(config)
        }
        loss = PlantedLosses(config, worlds)
    Simulation(search, loss).run(**({"events": 130} if kind == "unfinished" else {}))
    return search
