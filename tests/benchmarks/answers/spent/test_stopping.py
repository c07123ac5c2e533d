"""Stopping rules on learning curves: `answers/stopping.py` and `simulate/arrivals.py`."""

import itertools
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler

from benchmarks.answers.spent.stopping import (
    main,
)
from benchmarks.simulate.arrivals import (
    MakeRule,
    Races,
    StockAsha,
    replay,
    rungs_of,
    survival,
)
from benchmarks.worlds.curve_tables import read_runs, size_class
from fathom.search.study.keys.groups import StoppingConfig
from fathom.search.tables.grouped.sizes import runs_near
from tests.support.curves import run, write
from tests.support.places import SHARED_DATA

GEMSTONES = SHARED_DATA / "gemstones" / "curves.csv"
DEFAULT = StoppingConfig()


DEPTHS = (4, 8, 16, 32, 64, 96)


def crossing(depths: Sequence[int] = DEPTHS) -> Races:
    """Curves of deeper runs start behind and end ahead; beyond depth 32 they are just worse."""
    dice = np.random.default_rng(0)
    some = size_class([run(depth) for depth in depths])
    curves = []
    for depth in depths:
        steepness = 0.05 * min(np.log2(depth), 5)
        worse = 0.1 * max(0, np.log2(depth / 32))
        fall = (6 + 1.2 * np.log2(depth)) * some.tokens**-0.5
        noise = dice.normal(0, 0.002, len(fall))
        curves.append(2.5 - steepness + worse + fall + noise)
    return Races(replace(some, losses=np.array(curves)))


def test_stock_asha_decides_as_rays_own_scheduler_does() -> None:
    dice = np.random.default_rng(0)
    some = size_class([run(depth, points=40) for depth in range(1, 25)])
    some = replace(some, losses=dice.normal(3, 0.2, (24, 40)))
    for eta, grace in ((2.0, 0.025), (3.0, 0.05), (4.0, 0.1)):
        rungs = rungs_of(some, grace, eta)
        ours = StockAsha(some, eta, rungs)
        usual: dict[str, Any] = {
            "time_attr": "evaluation",
            "metric": "loss",
            "mode": "min",
            "max_t": 40,
        }
        theirs = AsyncHyperBandScheduler(**usual, grace_period=rungs[0] + 1, reduction_factor=eta)
        for trial in random.Random(0).sample(range(24), 24):
            mine = next((rung for rung in rungs if not ours.goes_on(trial, rung)), 39)
            assert mine == stopped_by_ray(theirs, str(trial), some.losses[trial])


def stopped_by_ray(scheduler: Any, name: str, losses: Iterable[float]) -> int:
    trial = Trial("replayed", trial_id=name, stub=True)
    scheduler.on_trial_add(None, trial)
    for position, loss in enumerate(losses):
        result = {"evaluation": position + 1, "loss": float(loss)}
        if scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP:
            return position
    raise AssertionError("Ray stops every trial at the horizon")


@pytest.mark.parametrize("slots", [1, 3])
def test_our_rule_keeps_a_late_winner_that_stock_asha_loses(slots: int) -> None:
    stage, spiky = crossing(), crossing()
    spiky.some.losses[DEPTHS.index(32), -1] += 1.0  # in the last evaluation
    assert stage.some.best.depth == spiky.some.best.depth == 32
    stock = survival(stage, lambda: stage.stock(0.0625, 4), slots=slots, orders=200, seed=0)
    ours = survival(stage, lambda: stage.ours(DEFAULT), slots=slots, orders=200, seed=0)
    assert ours.kept > 0.95
    assert ours.tokens < 0.5
    assert stock.kept < 0.5
    assert stock.regret > ours.regret >= 0


def test_the_command_prints_tables_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = crossing((4, 16, 64))
    runs = [
        replace(curve, losses=losses)
        for curve, losses in zip(stage.some.runs, stage.some.losses, strict=True)
    ]
    table, figure = write(tmp_path / "table.csv", runs), tmp_path / "figure.png"
    asked = ["stopping", str(table), "--orders", "5", "--slots", "1", "--figure", str(figure)]
    monkeypatch.setattr(sys, "argv", asked)
    main()
    assert capsys.readouterr().out.count("### ") == 1, "sizes are equal: nothing to correct"
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_table_that_is_not_there_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["stopping", str(tmp_path / "none.csv")])
    with pytest.raises(SystemExit, match="2"):
        main()
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert "none.csv" in output.err


gemstones = pytest.mark.skipif(not GEMSTONES.exists(), reason="needs the Gemstones table")


@pytest.mark.drill
@gemstones
@pytest.mark.parametrize("slots", [1, 4])
def test_on_real_curves_the_100m_winner_is_kept_where_stock_asha_loses_it(slots: int) -> None:
    stage = Races(size_class(runs_near(read_runs(GEMSTONES), 1e8, "total", 0.1)))
    assert stage.some.best.label == "256x80"
    ours = survival(stage, lambda: stage.ours(DEFAULT), slots=slots, orders=3, seed=0)
    assert ours.kept == 1
    assert ours.tokens < 0.32
    for eta, grace in itertools.product((2, 3, 4), (0.006, 0.011, 0.029, 0.057)):
        make = partial(stage.stock, grace, eta)
        stock = survival(stage, make, slots=slots, orders=400, seed=0)
        assert stock.kept <= 0.3 or stock.tokens > ours.tokens + 0.02


@gemstones
def test_a_rung_on_the_spike_of_1024x28_does_not_stop_it() -> None:
    stage = Races(size_class(runs_near(read_runs(GEMSTONES), 510e6, "total", 0.1)))
    spike = int(np.abs(stage.some.tokens - 120e9).argmin())
    spiky = next(row for row, curve in enumerate(stage.some.runs) if curve.label == "1024x28")
    assert stage.some.best.label == "1024x28"
    assert stage.some.losses[spiky, spike] > stage.some.losses[spiky, spike - 1] + 0.05

    def kept(make: MakeRule) -> int:
        orders = [random.Random(seed).sample(range(4), 4) for seed in range(100)]
        return sum(spiky in replay(stage, make(), order, slots=1)[0] for order in orders)

    share = float(stage.some.tokens[spike]) / stage.some.horizon
    config = StoppingConfig(first_rung=share, eta=2)
    assert stage.ours(config).rungs[0] == stage.stock(share, 2).rungs[0] == spike
    assert kept(lambda: stage.ours(config)) == 100
    assert kept(lambda: stage.stock(share, 2)) < 60
