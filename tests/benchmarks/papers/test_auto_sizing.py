"""The comparison of an auto-sized training with a search: `benchmarks/papers/auto_sizing.py`."""

from pathlib import Path

import pytest

from benchmarks.papers.auto_sizing import (
    SizedResult,
    SizedRun,
    best_of,
    difference,
    ladder_at,
    starting_shape,
)
from fathom.papers.sizing.layer_sizes import whole_layers
from tests.support.places import ROOT

STUDY = ROOT / "benchmarks" / "auto_sizing.yaml"
SHORT = ("tokens=4k", "train.evaluations=1", "objective.eval_tokens=512")


def result(run: SizedRun, loss: float = 2.0) -> SizedResult:
    return SizedResult(run, loss, 40_000, tuple(whole_layers(run.shape)))


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the study is found from there."""
    monkeypatch.chdir(ROOT)


def run_of(path: Path, seed: int, strength: float) -> SizedRun:
    shape = starting_shape(path, SHORT)
    return SizedRun(study=path, overrides=SHORT, shape=shape, seed=seed, strength=strength)


def test_a_search_costs_as_much_as_one_training() -> None:
    sized = [result(run_of(STUDY, seed, 0.1)) for seed in (0, 1)]
    runs = ladder_at(sized, 3)
    whole = 4096 * sized[0].run.shape.train_flops_per_token
    for seed in (0, 1):
        seeded = [run for run in runs if run.seed == seed]
        assert len({run.shape.depth for run in seeded}) == 3
        assert all(abs(run.shape.params_total / 40_000 - 1) < 0.01 for run in seeded)
        tries = [result(run, loss=run.shape.depth) for run in runs]
        final = best_of(tries, sized[seed].run, 0.5)
        assert final.shape.depth == min(run.shape.depth for run in seeded)
        costs = [run.cost or 0.0 for run in (*seeded, final)]
        assert sum(costs) == pytest.approx(whole)


def test_differences_are_of_the_same_seed() -> None:
    run = run_of(STUDY, 0, 0.0)
    some, others = [result(run, 1.0), result(run, 2.0)], [result(run, 2.0), result(run, 5.0)]
    assert difference(some, others) == "-2.000 ± 1.000"
