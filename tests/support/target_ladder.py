"""A ladder with a target, searched without training: its best depth grows with size."""

import math
import random
from pathlib import Path

from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.records import TrialSpec
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.config import StudyConfig, parse
from tests.support.dry_run import Simulation, scheduler

BUDGETS = (20_000, 40_000, 80_000, 160_000)
LADDER = (
    TWO_BUDGETS.replace("[20k, 40k]", str(list(BUDGETS)))
    .replace("[1, 12]", "[1, 16]")
    .replace("depths: 3, seeds: 2", "depths: 8, seeds: 4")
)


def config(until_width: float = 1.8, more: str = "", together: int = 1) -> StudyConfig:
    ladder = LADDER.replace("seeds: 4", f"seeds: 4, together: {together}")
    return parse(f"{ladder}target: {{params: 1M, until_width: {until_width}}}\n{more}")


def growing(spec: TrialSpec, share: float) -> float:
    """Losses that are lowest at depth 3 at 20k, and at a depth 1.4 times as large at each twice of
    it, with noise between seeds."""
    best = 3 * (spec.budget / 20_000) ** 0.485
    noise = random.Random(spec.trial).gauss(0, 0.002)
    return 2 + 0.1 * math.log(spec.shape.depth / best) ** 2 + 0.5 * (1 - share) + noise


def run(path: Path, study: StudyConfig, *, events: int = 10**9, slots: int = 3) -> Scheduler:
    search = scheduler(study, path)
    Simulation(search, growing, slots=slots).run(events=events)
    return search
