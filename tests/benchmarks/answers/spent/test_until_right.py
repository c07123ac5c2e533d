"""Where the tokens of a search go: `benchmarks/answers/spent/until_right.py`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.answers.spent.until_right import USES, itemised, ladder_until_right, oracle
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric


@pytest.fixture(scope="module")
def known() -> Known:
    world = World(curve=symmetric(4.0, 0.1), noise=0.002)
    depths = (1, 2, 4, 8, 16)
    return planted_budget(world, np.random.default_rng(0), depths=depths, ratios=(4,), seeds=2)


def test_each_token_of_a_search_has_one_use(known: Known) -> None:
    until, of_it, spent = itemised(known, 0)
    assert 0 < until <= sum(spent.values())
    assert sum(of_it.values()) == pytest.approx(until)
    assert all(of_it[use] <= spent[use] for use in USES)


def test_ladders_and_the_oracle_are_shares_of_the_exhaustive_ladder(known: Known) -> None:
    assert 0 < ladder_until_right(known, 1 / 4, 0) <= 1 / 4
    assert 0 < oracle(known) <= 1 / known.seeds, "one seed of each depth at most"


def test_what_never_ends_right_is_infinite(known: Known) -> None:
    wrong = replace(known, truth={1: 1.0, **dict.fromkeys(known.depths[1:], 2.0)})
    until, of_it, spent = itemised(wrong, 0)
    assert (until, oracle(wrong)) == (math.inf, math.inf)
    assert of_it == spent
