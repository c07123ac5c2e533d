"""A smaller `python -m benchmarks.answers.planted.free_size`: its surfaces, and what it counts."""

import numpy as np

from benchmarks.worlds.surfaces import MIDDLE, SURFACES
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.free_size import FREE_SIZE, SURFACE

SHAPES = feasible_shapes(FREE_SIZE, expand_budgets(FREE_SIZE)[0], 256)


def test_the_best_shape_is_near_the_lowest_point() -> None:
    best = SURFACE.best(SHAPES)
    assert best.depth == 3
    assert 0.8 < best.params_total / SURFACE.size < 1.25


def test_kinds_of_surfaces_differ_as_they_say() -> None:
    drawn = {kind: plant(np.random.default_rng(0)) for kind, plant in SURFACES.items()}
    assert drawn["best beyond the largest size"].size > 4 * MIDDLE
    flat = drawn["flat in depth"]
    apart = [flat.final(shape) for shape in SHAPES if abs(shape.params_total - 74_560) < 1000]
    assert max(apart) - min(apart) < 0.05
    ridge = drawn["a ridge of one aspect ratio"]
    assert 4 * ridge.by_size * ridge.by_depth > ridge.crossed**2  # it has a lowest point
