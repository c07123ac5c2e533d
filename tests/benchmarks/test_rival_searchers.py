"""Rivals on the simulated cluster: `benchmarks/searchers/`."""

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.rival_searchers import field
from benchmarks.rival_searchers.field import PARTS, contender, contenders
from benchmarks.rival_searchers.plain import CONTENDERS, Listed
from benchmarks.rival_searchers.rival import Contender, Grid, Package, Reading, Rival, Track, read
from benchmarks.simulate.clock import run, tokens_until_right
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric
from fathom.models.shape import Shape

with warnings.catch_warnings():
    # What other packages say of their own dependencies.
    warnings.simplefilter("ignore")
    FOUND, MISSING = contenders()


def known(*, seeds: int = 2, noise: float = 0.0, divergence: float = 0.0) -> Known:
    world = World(curve=symmetric(4.0, 0.1), noise=noise, spikes=noise, divergence=divergence)
    return planted_budget(
        world, np.random.default_rng(0), depths=(1, 2, 4, 8, 32), ratios=(2, 4), seeds=seeds
    )


def tokens(some: Known, rival: Contender, seed: int = 0) -> float:
    """Tokens spent until the answer stayed right."""
    moments = run(some, Rival(some, rival, seed), workers=2, limit=some.ladder_tokens)
    return tokens_until_right(list(moments), some.plateau)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [entry.name for entry in FOUND if entry.share >= 0.25])
def test_every_rival_finishes_a_noisy_world_whose_deepest_trials_diverge(name: str) -> None:
    some = known(noise=0.01, divergence=1.0)
    rival = Rival(some, replace(contender(name), levels=16, patience=5), 0)
    moments = list(run(some, rival, workers=2, limit=some.ladder_tokens))
    assert moments[-1].answer in some.depths[:-1], "what diverged is no answer"
    again = Rival(some, replace(contender(name), levels=16, patience=5), 0)
    assert list(run(some, again, workers=2, limit=some.ladder_tokens)) == moments


@pytest.mark.parametrize("package", PARTS)
def test_every_installed_package_is_a_rival(package: str) -> None:
    names = [entry.name for entry in FOUND if entry.name.startswith(package)]
    lines = [line for line in MISSING if line.startswith(package)]
    assert bool(names) != bool(lines)
    assert len(set(names)) == len(names)
    assert not any("," in name for name in names), "a comma separates names on the command line"


@pytest.mark.filterwarnings("ignore")
def test_a_missing_package_is_one_line_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(field, "PARTS", {"Absent": "benchmarks.rival_searchers.absent"})
    found, missing = contenders()
    assert found == list(CONTENDERS)
    assert len(missing) == 1
    assert "pip install -e '.[rivals]'" in missing[0]


def plain(name: str) -> Contender:
    return next(entry for entry in CONTENDERS if entry.name == name)


@pytest.mark.parametrize("name", ["ladder by depth", "ladder shuffled", "ladder abreast"])
def test_a_whole_ladder_is_right_in_the_end_and_spends_everything(name: str) -> None:
    some = known()
    rival = Rival(some, plain(name), 0)
    moments = list(run(some, rival, workers=3, limit=math.inf))
    assert moments[-1].tokens == pytest.approx(some.ladder_tokens)
    assert moments[-1].answer == 4


def test_a_short_ladder_ends_after_its_share() -> None:
    some = known()
    moments = list(run(some, Rival(some, plain("ladder to 1/8"), 0), workers=3, limit=math.inf))
    assert moments[-1].tokens == pytest.approx(some.ladder_tokens / 8)


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
    list(run(some, rival, workers=3, limit=math.inf))
    assert set(reached.values()) == {64}


def listed(order: Callable[[Grid], Sequence[Shape]]) -> Contender:
    """A rival that trains trials in a given order, each to the end."""

    def build(grid: Grid, levels: int, seed: int) -> Package:
        return Listed(iter(order(grid)), levels)

    return Contender(name="listed", build=build, levels=4)


def test_a_shape_that_comes_again_gets_the_next_seed_and_then_costs_nothing() -> None:
    some = known(seeds=2)
    rival = Rival(some, listed(lambda grid: [grid.shapes[0]] * 5), 0)
    moments = list(run(some, rival, workers=1, limit=math.inf))
    assert moments[-1].tokens == pytest.approx(2 * some.horizon)


def test_a_shape_that_comes_again_while_it_runs_is_another_trial() -> None:
    some = known(seeds=1)
    rival = Rival(some, listed(lambda grid: [grid.shapes[0]] * 2), 0)
    moments = list(run(some, rival, workers=2, limit=math.inf))
    assert moments[-1].tokens == pytest.approx(2 * some.horizon)


def test_a_diverged_trial_ends_and_its_package_gets_the_worst_loss_so_far() -> None:
    some = known(divergence=1.0)
    deep, good = some.shapes[-1], some.shapes[0]
    heard: list[float] = []

    class Told(Listed):
        def fail(self, handle: str, loss: float) -> None:
            heard.append(loss)

    def build(grid: Grid, levels: int, seed: int) -> Package:
        return Told(iter([good, deep]), levels)

    rival = Rival(some, Contender(name="told", build=build, levels=4), 0)
    moments = list(run(some, rival, workers=1, limit=math.inf))
    curves = [some.loss(s, 0, x * some.horizon) for s in (good, deep) for x in (0.25, 0.5, 0.75, 1)]
    assert heard == [max(loss for loss in curves if math.isfinite(loss))]
    assert moments[-1].answer == good.depth
    assert moments[-1].tokens < 2 * some.horizon


def test_a_search_that_only_repeats_itself_ends() -> None:
    some = known(seeds=1)
    rival = Rival(some, listed(lambda grid: list(itertools.repeat(grid.shapes[0], 10_000))), 0)
    list(run(some, rival, workers=1, limit=math.inf))
    assert rival.start() is None


def test_a_search_ends_with_its_suggestions_however_much_is_left_to_learn() -> None:
    some = known()
    few = replace(listed(lambda grid: grid.shapes), suggestions=3)
    rival = Rival(some, few, 0)
    moments = list(run(some, rival, workers=2, limit=math.inf))
    assert moments[-1].tokens == pytest.approx(3 * some.horizon)
    assert rival.answer() in {shape.depth for shape in some.shapes[:3]}


def test_every_shape_has_ranks_that_lead_back_to_it_and_all_ranks_are_shapes() -> None:
    some = known()
    lacking = replace(
        some, curves={s: c for s, c in some.curves.items() if (s.depth, s.d_ff) != first(some)}
    )
    grid = Grid(lacking)
    assert grid.sides == {"depth": 5, "ratio": 2}
    for shape in grid.shapes:
        assert grid.shape(**grid.ranks(shape)) == shape
    for depth, ratio in itertools.product(range(5), range(2)):
        assert grid.shape(depth, ratio) in grid.shapes


def first(some: Known) -> tuple[int, int]:
    return some.shapes[0].depth, some.shapes[0].d_ff


def test_a_variable_without_choice_is_not_searched() -> None:
    some = known()
    single = replace(some, curves={s: some.curves[s] for s in some.shapes[::2]})
    assert Grid(single).sides == {"depth": 5}


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
def test_a_model_based_rival_needs_less_than_half_of_the_ladder_in_a_quiet_world(
    package: str,
) -> None:
    found = next(entry for entry in FOUND if entry.name.startswith(package))
    quick = replace(found, levels=16, patience=5)
    some = known()
    assert np.median([tokens(some, quick, seed) for seed in range(3)]) < 0.5 * some.ladder_tokens
