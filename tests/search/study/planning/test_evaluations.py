"""The interval at which a command evaluates is held against the horizon before anything runs."""

import pytest

from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.evaluations import falls_short, interval_note, interval_of
from fathom.search.study.planning.plan import study_notes


@pytest.mark.parametrize(
    ("argument", "steps"),
    [
        ("--eval_interval=50", 50),
        ("--eval-every=250", 250),
        ("--eval.interval=100", 100),
        ("--validation.freq=500", 500),
        ("eval_interval=7", 7),
        ("--trainer.val_interval=9", 9),
        ("--eval_iters=20", None),
        ("--eval-tokens=1048576", None),
        ("--interval=5", None),
        ("--eval_interval={steps}", None),
    ],
)
def test_it_is_known_by_the_usual_names_of_its_argument(argument: str, steps: int | None) -> None:
    found = interval_of(["python", "train.py", argument])
    assert (found and found.steps) == steps
    name, _, value = argument.partition("=")
    apart = interval_of(["python", name, value])
    assert (apart and apart.steps) == steps


def study(interval: str, horizon: str, budgets: str = "[20k]") -> StudyConfig:
    return parse(
        "study: mine\nobjective: {name: external, vocabulary: 256, context: 32}\n"
        f"budgets: {budgets}\n{horizon}\n"
        "train: {command: [python, t.py, '{depth}', '{d_model}', '{folder}', "
        f"'--eval_interval={interval}'], batch_size: 4}}\n"
    )


def test_a_horizon_that_is_no_multiple_is_told_with_one_that_is() -> None:
    config = study("60", f"tokens: {100 * 128}")
    note = interval_note(config)
    assert note in study_notes(config)
    assert "--eval_interval=60" in note
    assert "100 steps of budget 20k are no multiple of it" in note
    assert "last loss comes at 60 steps" in note
    assert f"set `tokens: {120 * 128}`" in note
    assert not interval_note(study("60", f"tokens: {120 * 128}"))


@pytest.mark.parametrize("interval", ["50", "100", "99", "{steps}"])
def test_an_interval_that_meets_the_horizon_is_told_nothing(interval: str) -> None:
    assert not interval_note(study(interval, f"tokens: {100 * 128}"))


def test_of_several_horizons_an_interval_is_named_that_meets_all_of_them() -> None:
    config = study("60", "tokens_per_parameter: 1", "[12800, 25600, 38400]")
    steps = [budget.steps for budget in expand_budgets(config)]
    assert steps == [100, 200, 300]
    note = interval_note(config)
    assert "evaluate every 50 steps, which meets every horizon" in note
    assert not any(falls_short(each, 50) for each in steps)
    assert any(falls_short(each, 51) for each in steps)
