"""Exploring on workers of different speeds: `answers/stopping_workers.py`."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.answers.spent.stopping_workers import explored, main, rules
from benchmarks.rival_searchers.halving import OptunaStopper, RayStopper
from benchmarks.simulate.arrivals import Races
from benchmarks.worlds.curve_tables import size_class
from tests.support.curves import run, write


def races(trials: int = 12) -> Races:
    """Curves of trials that differ by luck and keep their order."""
    dice = np.random.default_rng(0)
    some = size_class([run(depth) for depth in range(4, 4 + trials)])
    ends = dice.normal(3.0, 0.1, trials)
    return Races(replace(some, losses=ends[:, None] + 50 / np.sqrt(some.tokens)[None, :]))


def test_virtual_time_trains_the_same_on_any_workers_and_only_the_time_differs() -> None:
    stage = races()
    order = random.Random(1).sample(range(12), 12)
    found = [
        explored(stage, rules(stage, order, workers)["ASHA in virtual time"](), workers, seed)
        for workers, seed in ((1, 0), (3, 1), (8, 2), (32, 3))
    ]
    assert len({(result.tokens, result.regret) for result in found}) == 1
    assert found[0].time > found[2].time


def test_the_best_trial_is_trained_to_the_end_by_every_rule_where_ranks_never_change() -> None:
    stage = races()
    for name, make in rules(stage, range(12), 4).items():
        result = explored(stage, make(), 4, seed=0)
        assert result.regret == 0, name
        assert 0.125 < result.tokens < 0.6, name


@pytest.mark.parametrize("make", [RayStopper, OptunaStopper])
def test_a_rival_judges_at_its_rungs_against_the_trials_that_came_before(
    make: type[RayStopper | OptunaStopper],
) -> None:
    stopper = make(10, 80, 2)
    assert stopper.goes_on(0, 9, 9.0), "before the first rung"
    assert stopper.goes_on(0, 10, 3.0), "the first that comes to a rung"
    assert not stopper.goes_on(1, 10, 4.0)
    assert stopper.goes_on(2, 10, 2.0)
    assert stopper.goes_on(2, 20, 2.0)
    assert not stopper.goes_on(0, 20, 2.5)
    assert stopper.goes_on(2, 79, 1.0)
    assert not stopper.goes_on(2, 80, 1.0), "the horizon"


def test_the_command_prints_a_row_for_each_rule_and_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = races().some
    runs = [replace(r, losses=c) for r, c in zip(some.runs, some.losses, strict=True)]
    table = write(tmp_path / "table.csv", runs)
    monkeypatch.setattr(sys, "argv", ["workers", str(table), "--orders", "1"])
    main()
    assert capsys.readouterr().out.count("\n| ") == 2 * 6 * 4
    monkeypatch.setattr(sys, "argv", ["workers", str(tmp_path / "none.csv")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err.count("\n") == 1
