"""Said against true: `benchmarks/answers/planted/calibration.py`."""

import numpy as np

from benchmarks.answers.planted.calibration import EDGES, PLANTED, rough, said_and_true


def test_each_whole_depth_of_a_ladder_has_a_probability_and_an_outcome() -> None:
    found = said_and_true(PLANTED["symmetric"], 1)
    assert found.shape == (32, 2)
    assert ((found[:, 0] >= EDGES[0]) & (found[:, 0] <= EDGES[-1])).all()
    assert set(found[:, 1]) == {0.0, 1.0}


def test_rough_depths_have_an_effect_of_their_own() -> None:
    smooth, own = (rough(size)(np.random.default_rng(0)).curve for size in (0.0, 0.004))
    effects = [own(depth) - smooth(depth) for depth in range(1, 33)]
    assert 0.002 < np.std(effects) < 0.008
