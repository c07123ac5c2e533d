"""A whole search on planted losses, one trial after another."""

import tempfile
from pathlib import Path

from benchmarks.simulate.driver import PlantedLosses, SimulatedWorkers, new_scheduler
from benchmarks.worlds.planted import World
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.records import TrialRecord
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets

TWO_BUDGETS = """
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
"""A study that simulates in a second."""


def search(config: StudyConfig, world: World) -> Optimum:
    """The optimum that a search of the study's one budget finds in the world."""
    return find_optimum(search_records(config, world), seed=config.seed)


def search_records(config: StudyConfig, world: World) -> list[TrialRecord]:
    """The records of a search of the study's one budget in the world."""
    (budget,) = expand_budgets(config)
    with tempfile.TemporaryDirectory() as path:
        scheduler = new_scheduler(config, Path(path))
        SimulatedWorkers(scheduler, PlantedLosses(config, {budget: world})).run()
        return scheduler.records
