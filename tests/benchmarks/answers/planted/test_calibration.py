"""Said against true: `benchmarks/answers/planted/calibration.py`."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from numpy.random import Generator

from benchmarks.answers.planted.calibration import EDGES, FEW, PLANTED, cells, read_ladder, rough
from benchmarks.answers.planted.coverage import Planted
from benchmarks.answers.planted.low_seeds import ladder


def test_a_range_has_the_mean_of_what_is_said_and_the_share_that_is_true() -> None:
    found = np.array([[0.02, 0.0]] * FEW + [[1.0, 1.0]] * FEW + [[0.5, 1.0]])
    assert cells(found) == ["0.02, 0.00", "-", "-", "-", "1.00, 1.00"]


def test_each_whole_depth_of_a_ladder_has_a_probability_and_an_outcome() -> None:
    found, _ = read_ladder(PLANTED["symmetric"], 1)
    assert found.shape == (32, 2)
    assert ((found[:, 0] >= EDGES[0]) & (found[:, 0] <= EDGES[-1])).all()
    assert set(found[:, 1]) == {0.0, 1.0}


def test_rough_depths_have_an_effect_of_their_own() -> None:
    smooth, own = (rough(size)(np.random.default_rng(0)).curve for size in (0.0, 0.004))
    effects = [own(depth) - smooth(depth) for depth in range(1, 33)]
    assert 0.002 < np.std(effects) < 0.008


@pytest.mark.parametrize(("place", "hidden"), [(7, True), (8, False)])
def test_a_better_depth_hides_where_no_model_was_trained(place: int, hidden: bool) -> None:
    # The losses of the ladder, which the world has, are without the notch, so the answer is wrong.
    def plant(generator: Generator) -> Planted:
        planted = PLANTED["symmetric"](generator)

        def curve(depth: float) -> float:
            return planted.curve(depth) - 0.1 * (depth == place)

        return replace(planted, curve=curve)

    _, (identified, wrong, is_hidden) = read_ladder(plant, 1)
    assert (identified, wrong, is_hidden) == (True, True, hidden)


@pytest.mark.parametrize("kind", ["heavy tails", "stalls", "growing noise", "two decimals"])
def test_a_ladder_has_the_noise_of_its_world(kind: str) -> None:
    planted = PLANTED[kind](np.random.default_rng(3))
    normal = replace(planted.world, tails=inf, stalls=0.0, noise_growth=0.0, decimals=16)

    def losses(planted: Planted) -> list[float | None]:
        return [record.loss for record in ladder(planted, 2, np.random.default_rng(4))]

    assert losses(planted) != losses(replace(planted, world=normal))
