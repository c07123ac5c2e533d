"""The posterior of the loss over size and depth, on records with a known surface."""

from dataclasses import replace

import numpy as np

from benchmarks.worlds.planted import World, finished
from benchmarks.worlds.surfaces import PlantedSurface
from fathom.models.shape import Count
from fathom.search.analysis.surface.surface import SizeSurface, find_surface
from fathom.search.records import TrialRecord

SURFACE = PlantedSurface(size=300_000, depth=4, noise=0.0)


def record(size: int, depth: int, seed: int = 0) -> TrialRecord:
    """A finished trial of about this size and this depth."""
    world = World(curve=lambda depth: 0.0, budget=size)
    spec = world.spec(world.shape(depth), seed=seed)
    spec = replace(spec, budget=10**15, count=Count.TRAIN_FLOPS, trial=f"{spec.trial}-{seed}")
    loss = SURFACE.final(spec.shape) + 0.001 * np.random.default_rng([size, depth, seed]).normal()
    return finished(spec, float(loss))


GRID = [
    record(size, depth)
    for size in (75_000, 150_000, 300_000, 600_000, 1_200_000)
    for depth in (1, 2, 4, 8, 16)
]


def surface(records: list[TrialRecord]) -> SizeSurface:
    found = find_surface(records, np.random.default_rng(0), noise=0.001, draws=500)
    assert found is not None
    return found


def test_the_lowest_cell_is_the_planted_one() -> None:
    found = surface(GRID)
    depths = found.by_depth.posterior.best
    assert np.quantile(depths, 0.025) >= 3
    assert np.quantile(depths, 0.975) <= 5
    sizes = [found.size_at(place) for place in np.unique(found.by_size.posterior.best)]
    assert min(sizes) > 200_000
    assert max(sizes) < 450_000


def test_a_profile_is_tuned_in_the_other_variable() -> None:
    found = surface(GRID)
    posterior = found.by_depth.posterior
    for depth in (2, 4, 8):
        cells = found.losses[:, found.depths == depth]
        assert np.allclose(posterior.losses[:, posterior.at(depth)], cells.min(axis=1))


def test_no_cell_lies_outside_the_tried_ones() -> None:
    small_and_deep = [r for r in GRID if r.spec.shape.depth < 8 or r.size > 250_000]
    found = surface(small_and_deep)
    deep = found.places[found.depths == 16]
    assert min(map(found.size_at, deep.tolist())) > 200_000
    assert {1, 16} <= set(found.depths.tolist())


def test_fewer_than_six_shapes_have_no_surface() -> None:
    again = [record(300_000, 4, seed) for seed in range(9)]
    assert find_surface([*again, *GRID[:4]], np.random.default_rng(0)) is None


def test_a_depth_is_possible_whose_trained_shapes_cost_less_than_the_tuned_ones_of_others() -> None:
    ends_tuned = [
        record
        for record in GRID
        if record.spec.shape.depth in (1, 16) or not 200_000 < record.size < 400_000
    ]
    assert {2, 4, 8} <= set(surface(ends_tuned).by_depth.possible.tolist())
