"""`benchmarks/answers/laws/token_law.py`: law over parameters and tokens of planted ladders."""

import numpy as np
import pytest

from benchmarks.answers.laws import token_law
from benchmarks.worlds.laws import draw_world, table_of


def test_a_world_is_lowest_at_its_best_depth_and_its_ladder_has_every_size_and_horizon() -> None:
    generator = np.random.default_rng(0)
    world = draw_world(generator)
    best = world.best_depth(1e7, 2e8)

    assert world.loss(1e7, 2e8, best) == world.lowest_loss(1e7, 2e8)
    assert world.loss(1e7, 2e8, 2 * best) > world.loss(1e7, 2e8, best)
    assert world.lowest_loss(1e8, 2e8) < world.lowest_loss(1e7, 2e8)
    runs = table_of(world, generator, (3_000_000, 10_000_000), (5.0, 20.0), 2).runs
    assert {run.params_total for run in runs} == {3_000_000, 10_000_000}
    assert all(
        run.tokens.tolist() == [5.0 * run.params_total, 20.0 * run.params_total] for run in runs
    )


def test_planted_ladders_have_laws_and_a_row_says_how_often_they_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    token_law.planted(1, None)

    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["independent", "half shared", "shared"]
    assert all("1 of 1" in row for row in rows)
