"""Rivals on the simulated cluster: `benchmarks/searchers/`."""

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.rival_searchers import field
from benchmarks.rival_searchers.field import PARTS, contender, contenders
from benchmarks.rival_searchers.plain import CONTENDERS, Listed
from benchmarks.rival_searchers.rival import Contender, Grid, Package, Reading, Rival, Track, read
from benchmarks.simulate.clock import Moment, run
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric

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
