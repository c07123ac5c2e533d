"""Rivals on the simulated cluster: `benchmarks/searchers/`."""

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.rival_searchers import field
from benchmarks.rival_searchers.field import PARTS, contender, contenders
from benchmarks.rival_searchers.plain import CONTENDERS, Listed
from benchmarks.rival_searchers.rival import Contender, Grid, Package, Reading, Rival, Track, read
from benchmarks.simulate.clock import Moment, run, tokens_until_right
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric
from fathom.models.shape import Shape

with warnings.catch_warnings():
    # What other packages say of their own dependencies.
    warnings.simplefilter("ignore")
    FOUND, MISSING = contenders()


WORLD: dict[str, Any] = {"depths": (1, 2, 4, 8, 32), "ratios": (2, 4)}


def known(*, seeds: int = 2, noise: float = 0.0, divergence: float = 0.0) -> Known:
    world = World(curve=symmetric(4.0, 0.1), noise=noise, spikes=noise, divergence=divergence)
    return planted_budget(world, np.random.default_rng(0), **WORLD, seeds=seeds)


def moments_of(
    some: Known, rival: Contender | Rival, *, seed: int = 0, workers: int = 2,
    limit: float = math.inf,
) -> list[Moment]:  # fmt: skip
    """Every moment of a search."""
    rival = Rival(some, rival, seed) if isinstance(rival, Contender) else rival
    return list(run(some, rival, workers=workers, limit=limit))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [entry.name for entry in FOUND if entry.share >= 0.25])
def test_every_rival_finishes_a_noisy_world_whose_deepest_trials_diverge(name: str) -> None:
    some = known(noise=0.01, divergence=1.0)
    rival = replace(contender(name), levels=16, patience=5)
    moments, again = (moments_of(some, rival, limit=some.ladder_tokens) for _ in range(2))
    assert moments[-1].answer in some.depths[:-1], "what diverged is no answer"
    assert again == moments


@pytest.mark.parametrize("package", PARTS)
def test_every_installed_package_is_a_rival(package: str) -> None:
    names = [entry.name for entry in FOUND if entry.name.startswith(package)]
    lines = [line for line in MISSING if line.startswith(package)]
    assert bool(names) != bool(lines)
    assert len(set(names)) == len(names)
    assert not any("," in name for name in names), "a comma separates names on the command line"


@pytest.mark.filterwarnings("ignore")
def test_a_missing_package_is_one_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field, "PARTS", {"Absent": "benchmarks.rival_searchers.absent"})
    found, missing = contenders()
    assert found == list(CONTENDERS)
    assert len(missing) == 1
    assert "pip install -e '.[rivals]'" in missing[0]


def plain(name: str) -> Contender:
    return next(entry for entry in CONTENDERS if entry.name == name)


@pytest.mark.parametrize("name", ["by depth", "shuffled", "abreast", "to 1/8"])
def test_a_ladder_spends_its_share_and_a_whole_one_is_right_in_the_end(name: str) -> None:
    some = known()
    end = moments_of(some, plain(f"ladder {name}"), workers=3)[-1]
    assert end.tokens == pytest.approx(some.ladder_tokens / (8 if name == "to 1/8" else 1))
    assert end.answer == 4 or name == "to 1/8"


def test_in_an_abreast_ladder_no_trial_has_more_than_twice_the_tokens_of_another() -> None:
    some = known()
    rival = Rival(some, plain("ladder abreast"), 0)
    reached: dict[str, int] = {}
    report = rival.report

    def watched(trial: str, index: int, loss: float) -> bool:
        reached[trial] = index + 1
        if len(reached) == len(some.shapes) * some.seeds:
            assert max(reached.values()) <= 2 * min(reached.values())
        return report(trial, index, loss)

    rival.report = watched  # type: ignore[method-assign]
    moments_of(some, rival, workers=3)
    assert set(reached.values()) == {64}


def listed(order: Callable[[Grid], Sequence[Shape]]) -> Contender:
    """A rival that trains trials in a given order, each to the end."""

    def build(grid: Grid, levels: int, seed: int) -> Package:
        return Listed(iter(order(grid)), levels)

    return Contender(name="listed", build=build, levels=4)


@pytest.mark.parametrize(
    ("seeds", "times", "workers", "trials"), [(2, 5, 1, 2), (1, 2, 2, 2), (1, 10_000, 1, 1)]
)
def test_a_shape_that_comes_again_gets_the_next_seed_and_then_costs_nothing(
    seeds: int, times: int, workers: int, trials: int
) -> None:
    """While it runs, it is another trial; a search that only repeats itself ends."""
    some = known(seeds=seeds)
    rival = Rival(some, listed(lambda grid: [grid.shapes[0]] * times), 0)
    moments = moments_of(some, rival, workers=workers)
    assert moments[-1].tokens == pytest.approx(trials * some.horizon)
    assert rival.start() is None


def test_a_diverged_trial_ends_and_its_package_gets_the_worst_loss_so_far() -> None:
    some = known(divergence=1.0)
    deep, good = some.shapes[-1], some.shapes[0]
    heard: list[float] = []

    class Told(Listed):
        def fail(self, handle: str, loss: float) -> None:
            heard.append(loss)

    def build(grid: Grid, levels: int, seed: int) -> Package:
        return Told(iter([good, deep]), levels)

    moments = moments_of(some, Contender(name="told", build=build, levels=4), workers=1)
    curves = [some.loss(s, 0, x * some.horizon) for s in (good, deep) for x in (0.25, 0.5, 0.75, 1)]
    assert heard == [max(loss for loss in curves if math.isfinite(loss))]
    assert moments[-1].answer == good.depth
    assert moments[-1].tokens < 2 * some.horizon


def test_a_search_ends_with_its_suggestions_however_much_is_left_to_learn() -> None:
    some = known()
    few = replace(listed(lambda grid: grid.shapes), suggestions=3)
    rival = Rival(some, few, 0)
    moments = moments_of(some, rival)
    assert moments[-1].tokens == pytest.approx(3 * some.horizon)
    assert rival.answer() in {shape.depth for shape in some.shapes[:3]}


def test_every_shape_has_ranks_that_lead_back_to_it_and_all_ranks_are_shapes() -> None:
    some = known()
    first = some.shapes[0]
    left = {s: c for s, c in some.curves.items() if (s.depth, s.d_ff) != (first.depth, first.d_ff)}
    grid = Grid(replace(some, curves=left))
    assert grid.sides == {"depth": 5, "ratio": 2}
    for shape in grid.shapes:
        assert grid.shape(**grid.ranks(shape)) == shape
    for depth, ratio in itertools.product(range(5), range(2)):
        assert grid.shape(depth, ratio) in grid.shapes
    single = replace(some, curves={s: some.curves[s] for s in some.shapes[::2]})
    assert Grid(single).sides == {"depth": 5}, "a variable without choice is not searched"


def test_readings_differ_in_the_evaluations_that_a_trial_needs() -> None:
    shapes = known().shapes
    tracks = [
        Track("whole", shapes[0], 0, losses=[3.0, 2.0, 2.5]),
        Track("again", shapes[0], 1, losses=[3.0, 2.0, 2.1]),
        Track("other", shapes[2], 0, losses=[3.0, 2.9, 2.2]),
        Track("stopped", shapes[4], 0, losses=[2.8, 2.05]),
        Track("spiky", shapes[6], 0, losses=[1.9, 2.6]),
        Track("diverged", shapes[8], 0, losses=[1.0, math.nan]),
    ]
    depths = {reading: read(tracks, reading) for reading in Reading}
    assert depths == {
        Reading.LAST: shapes[4].depth,
        Reading.BEST: shapes[6].depth,
        Reading.FURTHEST: shapes[0].depth,
        Reading.SEEDS: shapes[2].depth,
        Reading.ABREAST: shapes[0].depth,
    }
    assert read(tracks[-1:], Reading.LAST) is None
    assert read([], Reading.SEEDS) is None


@pytest.mark.parametrize("package", ["Ray OptunaSearch", "Optuna TPE"])
def test_a_model_based_rival_needs_less_than_half_of_the_ladder(package: str) -> None:
    found = next(entry for entry in FOUND if entry.name.startswith(package))
    some, quick = known(), replace(found, levels=16, patience=5)
    searches = (moments_of(some, quick, seed=seed, limit=some.ladder_tokens) for seed in range(3))
    spent = [tokens_until_right(moments, some.plateau) for moments in searches]
    assert np.median(spent) < 0.5 * some.ladder_tokens
