"""Shapes of exploring trials where the size is free."""

import pytest

from fathom.search.scheduling.sampling.size_sampler import SPREAD, SizeSampler
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes, lattice
from tests.support.free_size import FREE_SIZE

SHAPES = feasible_shapes(FREE_SIZE, expand_budgets(FREE_SIZE)[0], 256)


def test_every_size_of_the_lattice_has_shapes_within_the_tolerance() -> None:
    sizes = lattice(20_000, 200_000)
    of_sizes = {min(sizes, key=lambda size: abs(s.params_total / size - 1)) for s in SHAPES}
    assert of_sizes == set(sizes)
    for shape in SHAPES:
        assert min(abs(shape.params_total / size - 1) for size in sizes) <= FREE_SIZE.tolerance


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_shapes_are_spread_and_alike_in_ratio(seed: int) -> None:
    sampler = SizeSampler(SHAPES, trials=24, seed=seed)
    first = [sampler.draw(index, []) for index in range(SPREAD)]
    assert len(set(first)) == SPREAD
    assert {shape.depth for shape in first} >= {1, 6}
    ratios = [shape.ln_ff_ratio for shape in first]
    assert max(ratios) - min(ratios) <= 0.7


def test_without_a_surface_any_untried_shape_is_drawn() -> None:
    sampler = SizeSampler(SHAPES, trials=24, seed=0)
    assert sampler.draw(SPREAD, []) == sampler.draw(SPREAD, [])
    assert len({sampler.draw(index, []) for index in range(SPREAD, SPREAD + 9)}) > 3
