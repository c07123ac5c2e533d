"""A smaller `python -m benchmarks.answers.designs`: ladders in worlds with an answer."""

import numpy as np
import pytest

from benchmarks.answers.coverage import covers_exactly, nearly_best
from benchmarks.answers.designs import DESIGNS, LADDERS, ONE_HUMP, SIX, answers, row, width
from benchmarks.worlds.planted import World, symmetric
from fathom.search.analysis.verdict import Kind
from fathom.search.records import Outcome


def test_quiet_ladders_hold_the_best_depth_in_a_narrow_interval() -> None:
    found = answers(DESIGNS["six depths, two seeds"], ONE_HUMP, "quiet", 8)
    assert all(nearly_best(search.planted, search.optimum) for search in found)
    assert sum(covers_exactly(search.planted, search.optimum) for search in found) >= 7
    assert row("six", "quiet", found).startswith("| six | quiet | 11.")


@pytest.mark.drill
def test_a_search_costs_about_as_much_as_two_seeds_of_six_depths() -> None:
    found = answers(DESIGNS["the search"], ONE_HUMP, "usual", 8)
    assert all(nearly_best(search.planted, search.optimum) for search in found)
    assert sum(covers_exactly(search.planted, search.optimum) for search in found) >= 7
    assert np.mean([search.cost for search in found]) < 13
    assert np.mean([width(search) for search in found]) < 0.6


@pytest.mark.parametrize("name", LADDERS)
def test_a_design_trains_every_depth_and_repeats_the_best(name: str) -> None:
    design = LADDERS[name]
    records = design.run(World(curve=symmetric(4), noise=0.001), np.random.default_rng(0))
    assert len(records) == len(design.depths) * design.seeds + sum(design.best)
    assert {record.spec.shape.depth for record in records} == set(design.depths)


def test_a_diverged_training_costs_the_half() -> None:
    world = World(curve=symmetric(4), divergence=1.0)
    records = DESIGNS["six depths, two seeds"].run(world, np.random.default_rng(0))
    lost = [record for record in records if record.outcome is Outcome.DIVERGED]
    assert [record.spec.shape.depth for record in lost] == [SIX[-1]] * 2
    assert {record.tokens for record in lost} == {world.horizon // 2}


@pytest.mark.drill
@pytest.mark.parametrize("kind", ["two humps", "plateau and cliff"])
def test_seven_depths_seldom_identify_what_has_no_single_hump(kind: str) -> None:
    found = answers(DESIGNS["seven depths, two seeds"], [kind], "usual", 16)
    identified = [search for search in found if search.optimum.kind is Kind.IDENTIFIED]
    assert sum(not nearly_best(search.planted, search.optimum) for search in identified) <= 2
    assert len(identified) <= 12
