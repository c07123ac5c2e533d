"""Planted searches, and planted tables at an equal amount: their truth, on one of each."""

import numpy as np
import pytest

from benchmarks.answers.planted.held import held_world
from benchmarks.answers.tables.searches import KINDS, search_world


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guided", [False, True])
def test_a_planted_search_has_its_best_depth(kind: str, guided: bool) -> None:
    world = search_world(0, kind, guided=guided)

    best = int(world.depths[world.regrets.argmin()])
    assert world.regrets.min() == 0
    assert (best in (world.depths[0], world.depths[-1])) == (kind in ("end", "unimportant"))
    assert (len(world.left) < len(world.rows) / 2) == (kind == "stopped")
    assert len(world.rows) == len(world.left) or kind == "stopped"
    assert (len(world.rows) >= 1000) == (kind == "many")
    assert world.rows == search_world(0, kind, guided=guided).rows


def test_a_planted_table_at_an_equal_amount_has_its_best_depth_and_size() -> None:
    world = held_world(0)

    assert world.regrets.min() == 0
    sizes = np.array([float(str(row["params"])) for row in world.rows])
    assert sizes.min() <= world.size <= sizes.max()
