"""The depth of a budget is one, and it was trained to the end."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.simulate.driver import PlantedLosses
from benchmarks.worlds.planted import (
    Curve,
    World,
    deeper_is_better,
    flat,
    shallower_is_better,
    symmetric,
    two_humps,
)
from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH, Kind
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.contract.studies import study_reply
from fathom.search.export.best import best_yaml, read_best, select
from fathom.search.records import Outcome
from fathom.search.report.terminal.answer_tables import optimum_cells
from fathom.search.report.words.text import answer
from fathom.search.run_folder import RunFolder
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.tracking.writing.metrics import budget_metrics
from fathom.search.tracking.writing.pages import budget_tags
from fathom.search.tracking.writing.publishing import RunResult
from tests.support.contract import printed_values
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.simulated import confirm

BUDGET = 20_000


CURVES: dict[str, Curve] = {
    "one hump": symmetric(4.4, 0.1),
    "a wide one": symmetric(5.5, 0.02),
    "flat": flat,
    "deeper is better": deeper_is_better(),
    "shallower is better": shallower_is_better(),
    "two humps": two_humps(2.5, 9.0, gap=0.002),
}
"""Worlds whose searches end with verdicts of every kind."""


@pytest.mark.parametrize("events", [None, 30, 60, 90], ids=["whole", "early", "later", "late"])
@pytest.mark.parametrize("world", CURVES)
@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 3), marks=pytest.mark.drill)], ids=len
)
def test_a_budget_has_one_depth_everywhere_and_it_was_trained_to_the_end(
    world: str, events: int | None, seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        config = study(seed=seed, budgets=(BUDGET,))
        search = scheduler(config, tmp_path / str(seed))
        [budget] = expand_budgets(config)
        planted = World(curve=CURVES[world], budget=BUDGET, noise=0.003)
        workers = Simulation(search, PlantedLosses(config, {budget: planted}), seed=seed)
        workers.run(**({} if events is None else {"events": events}))
        unfinished = [] if search.done else [BUDGET]
        conclusion = conclude(search.records, config, unfinished=unfinished)
        for optimum in conclusion.optima:
            told = depths_told(conclusion, optimum, tmp_path / "best.yaml")
            assert len(set(told.values())) == 1, told
            [depth] = set(told.values())
            whole = {r.spec.shape.depth for r in search.records if r.outcome is Outcome.FINISHED}
            assert depth in whole or (depth is None and not whole), told


def depths_told(
    conclusion: Conclusion, optimum: Optimum, path: Path
) -> dict[str, int | float | None]:
    """Place -> the depth of the budget there; None everywhere before one was trained to the end."""
    tags, metrics = budget_tags(optimum, ()), budget_metrics(optimum)
    said = printed_values(study_reply("report", [RunResult(RunFolder(path), conclusion)]))[
        "answers"
    ][0]["answer"]
    line = re.search(r": depth (\d+)", answer(optimum))
    told: dict[str, int | float | None] = {
        "answer": optimum.optimal_depth,
        "shape": optimum.shape.depth if optimum.shape else None,
        "headline": int(line[1]) if line else None,
        "terminal": int(str(optimum_cells(optimum)["depth"]) or 0) or None,
        "tag": int(tags["best_depth"] or 0) or None,
        "metric": metrics.get("optimal_depth"),
        "metric of the shape": metrics.get("depth"),
        "JSON": said["depth"] if said else None,
        "JSON, shape": said["shape"]["depth"] if said else None,
    }
    if optimum.shape is None:
        return told
    path.write_text(best_yaml(conclusion), encoding="utf-8")
    [entry] = yaml.safe_load(path.read_text(encoding="utf-8"))["best"]
    [exported] = yaml.safe_load(select(path, None))["best"]
    return told | {
        "best.yaml": entry["optimal_depth"],
        "best.yaml, shape": entry["shape"]["depth"],
        "export": exported["shape"]["depth"],
        "train": read_best(path, None).shape.depth,
    }


@pytest.mark.parametrize("depths", [(2, 4, 8, 16, 32), (1, 3, 9, 27), (2, 3, 4, 6, 9, 13, 20)])
def test_the_answer_of_a_table_is_the_best_depth_of_its_plateau_that_was_trained(
    depths: tuple[int, ...],
) -> None:
    for best in (3.1, 5.5, 7.3, 11.0):
        generator = np.random.default_rng(int(10 * best))
        world = World(curve=symmetric(best, 0.05), noise=0.004)
        records = confirm(world, depths, generator, seeds=2, rates=(1.0,))
        optimum, posterior = find_with_posterior(records, seed=0)
        assert isinstance(optimum, Located)
        assert posterior is not None
        assert optimum.optimal_depth in depths
        near = [depth for depth in depths if depth in optimum.plateau]
        assert optimum.optimal_depth == posterior.cheapest(np.array(near or depths))
        lost = optimum.loss - optimum.expected_loss
        assert optimum.kind is not Kind.IDENTIFIED or lost <= PLATEAU_WIDTH
        assert optimum.expected_depth == posterior.cheapest(posterior.depths)
        assert not_ruled_out(optimum) == tuple(near or [optimum.optimal_depth])
