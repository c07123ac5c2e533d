"""Budgets whose every learning curve is known."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.worlds.curve_tables import read_runs
from benchmarks.worlds.known import known_budgets, planted_budget
from benchmarks.worlds.planted import World, symmetric
from fathom.models.shape import Count
from fathom.search.tables.runs import Run
from tests.support.curves import run
from tests.support.places import SHARED_DATA

GEMSTONES = SHARED_DATA / "gemstones" / "curves.csv"


def ending(depth: int, end: float, *, seed: int = 0, params: int = 1000) -> Run:
    flat = run(depth, seed=seed, params=params)
    return replace(flat, losses=end + flat.tokens**-0.5)


RUNS = (
    *(ending(depth, 2.0 + 0.1 * abs(depth - 8), seed=s) for depth in (4, 8, 16) for s in (0, 1)),
    *(ending(depth, 1.5, params=5000) for depth in (4, 8, 16)),
)


def test_each_class_of_sizes_is_a_budget_with_its_truth_plateau_and_ladder() -> None:
    small, large = known_budgets(RUNS, Count.TOTAL)
    assert (small.params, large.params) == (1000, 5000)
    for known in (small, large):
        for shape in known.shapes:
            assert shape.size(Count.TOTAL) == known.params
            assert shape.size(Count.NON_EMBEDDING) == known.params - 100
    assert small.depths == (4, 8, 16)
    assert small.regret(8) == 0
    assert small.regret(4) == pytest.approx(0.4)
    assert (small.plateau, large.plateau) == ((8,), (4, 8, 16)), "all end at the same loss"
    assert (small.seeds, large.seeds) == (2, 1)
    assert (small.ladder_tokens, large.ladder_tokens) == (6 * small.horizon, 3 * large.horizon)


def test_losses_are_interpolated_and_further_seeds_repeat_those_of_the_table() -> None:
    known = known_budgets(RUNS, Count.TOTAL)[0]
    shape = known.shapes[0]
    at, then = known.tokens[3], known.tokens[4]
    assert known.loss(shape, 0, at) == pytest.approx(known.curves[shape][0][3])
    assert known.loss(shape, 0, at) > known.loss(shape, 0, (at + then) / 2)
    assert known.loss(shape, 2, at) == known.loss(shape, 0, at)


def test_a_planted_budget_knows_the_planted_truth_whatever_its_noise() -> None:
    world = World(curve=symmetric(4.0, 0.1), noise=0.1, divergence=1.0)
    known = planted_budget(
        world, np.random.default_rng(0), depths=(1, 2, 4, 8, 32), ratios=(2, 4), seeds=2
    )
    best = min(known.truth, key=known.regret)
    assert best == 4
    assert len(known.shapes) == 10
    assert np.isnan(known.loss(world.shape(32), 0, known.horizon)), "the deepest diverge"
    assert np.isfinite(known.loss(world.shape(4), 0, known.horizon))


@pytest.mark.skipif(not GEMSTONES.exists(), reason="needs the Gemstones table")
def test_gemstones_100m_class_is_best_at_71_to_80_layers() -> None:
    known = known_budgets(read_runs(GEMSTONES), Count.TOTAL)[0]
    assert len(known.shapes) == 8
    assert known.plateau == (71, 80)


def test_only_models_beyond_a_depth_lag_where_a_world_says_so() -> None:
    world = World(curve=symmetric(4.0), slow_start=0.1)
    late = replace(world, slow_from=8.0)
    assert world.lag(2) > world.lag(1) == late.lag(1) == late.lag(8)
    assert late.lag(16) == world.lag(2)
