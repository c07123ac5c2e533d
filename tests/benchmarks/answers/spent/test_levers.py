"""Tokens that other first depths would save: `benchmarks/answers/spent/levers.py`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.answers.spent.levers import LEVERS, cells, first_shapes, outcome
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric


@pytest.fixture(scope="module")
def known() -> Known:
    world = World(curve=symmetric(4.0, 0.1), noise=0.002)
    depths = (1, 2, 3, 4, 8, 12, 16)
    return planted_budget(world, np.random.default_rng(0), depths=depths, ratios=(4,), seeds=2)


@pytest.mark.parametrize("lever", LEVERS)
def test_every_lever_runs_a_search_to_its_end(known: Known, lever: str) -> None:
    found = outcome(known, LEVERS[lever], 1)
    assert found.settled
    assert not found.wrong
    assert 0 < found.until <= found.spent < 1


def test_first_depths_lie_about_one_depth_and_further_ones_fill_up(known: Known) -> None:
    assert [shape.depth for shape in first_shapes(known.shapes, 4.0, 5)] == [4, 3, 2, 8, 12]
    near_an_end = [shape.depth for shape in first_shapes(known.shapes, 16.0, 4)]
    assert near_an_end == [16, 12, 8, 4]


def test_an_answer_that_is_wrong_or_never_right_counts(known: Known) -> None:
    wrong = replace(known, truth={1: 1.0, **dict.fromkeys(known.depths[1:], 2.0)})
    found = outcome(wrong, LEVERS["as it is"], 1)
    assert found.until == math.inf
    assert cells([found])[4:6] == ["never", 1]
