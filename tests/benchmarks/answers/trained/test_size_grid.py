"""A smaller `python -m benchmarks.answers.trained.size_grid`: its cells, and whether they agree."""

from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from benchmarks.answers.trained.ladder import append, curve
from benchmarks.answers.trained.size_grid import (
    Cell,
    figures,
    grid_of,
    sizes_of,
    trained,
)
from fathom.models.spend import Coin, Spend
from fathom.models.unit import NATS
from fathom.search.analysis.answer.optimum import BestSize, Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.study.file.study_file import changed, dump
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import lattice
from tests.support.free_size import FREE_SIZE
from tests.support.optima import optimum, verdict

BUDGET = expand_budgets(FREE_SIZE)[0]
GRID = grid_of(FREE_SIZE, BUDGET, 256)


def cells(best: tuple[int, int]) -> list[Cell]:
    """The cells of the grid, with losses that are lowest at a size and a depth."""
    return [
        Cell(size, shape, (loss - 0.01, loss + 0.01))
        for (size, depth), shape in GRID.items()
        for loss in [2 + log(size / best[0]) ** 2 + log(depth / best[1]) ** 2]
    ]


def answered(size: int, depth: int) -> Located:
    best = BestSize(
        spend=Spend(1e11, Coin.FLOPS), unit=NATS, sizes=(20_000, 200_000), size=size, loss=2.0,
        interval=(round(size / 1.3), round(size * 1.3)), plateau=None,
        verdict=verdict(Kind.IDENTIFIED), costs=(), noise=0.01,
    )  # fmt: skip
    found = replace(optimum(BUDGET.params, depth), best_size=best)
    assert isinstance(found, Located)
    return found


def test_every_size_of_the_lattice_has_its_depths_within_the_ratios() -> None:
    assert {size for size, _ in GRID} == set(lattice(20_000, 200_000))
    low, high = FREE_SIZE.space.ff_ratio
    for (size, depth), shape in GRID.items():
        assert shape.depth == depth
        assert abs(shape.params_total / size - 1) < 0.01
        assert low <= shape.ff_ratio <= high


def test_an_answer_agrees_where_its_intervals_hold_the_best_of_the_grid() -> None:
    size = lattice(20_000, 200_000)[3]
    near = {name: value for name, value, *_ in figures(cells((size, 3)), answered(size, 3))}
    assert (near["inside"], near["cost"]) == ("both", 0)
    assert near["noise"] == answered(size, 3).noise
    assert near["trainings"] == 2 * len(GRID)
    far = {name: value for name, value, *_ in figures(cells((size, 3)), answered(20_000, 3))}
    assert far["inside"] == "the depth only"
    assert isinstance(far["cost"], float)
    assert far["cost"] > 0.1


@pytest.mark.drill
def test_a_cell_is_trained_for_the_flops_of_the_amount(tmp_path: Path) -> None:
    config = changed(FREE_SIZE, {"budgets": [2 * 10**9], "space.params": [20_000, 80_000]})
    study, table = tmp_path / "study.yaml", tmp_path / "table.csv"
    study.write_text(dump(config), encoding="utf-8")
    [budget] = expand_budgets(config)
    shape = min(GRID.values(), key=lambda shape: shape.params_total)
    append(table, curve((study, budget.params, shape, 0)))
    losses, seconds = trained(table, budget.tokens_per_step)
    assert len(losses[sizes_of(shape)]) == 1
    assert 0 < seconds < 60
    spent = budget.of_shape(shape).tokens * shape.train_flops_per_token
    last = table.read_text(encoding="utf-8").splitlines()[-1].split(",")
    assert int(last[6]) == budget.of_shape(shape).tokens
    assert 0 <= budget.params - spent < budget.step_cost(shape)
