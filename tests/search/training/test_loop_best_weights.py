"""Early stopping: training ends when its held-out loss falls no further, with its best weights."""

from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
import torch

from fathom.search.records import Outcome
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.training.assignment import Assignment
from fathom.search.training.state import Measurement, Training, TrainPlan
from fathom.search.training.trial import RunningTrial
from tests.support.toy import CPU, Overfitted
from tests.support.training import (
    PARAMETRIZATION,
    PLAN,
    SHAPE,
    SPEC,
    losses,
    losses_reported,
    record_of,
    run_to_end,
)

STUDY = """
study: toy
objective: {name: language, context: 6}
budgets: [4k]
tokens: 4800
train: {batch_size: 4, evaluations: 40, learning_rate: 1e-2, cooldown: 0, patience: 3}
stopping: {enabled: false}
model: {parametrization: {base_width: 16, base_head_dim: 8}}
"""
EVERY_FIVE = tuple(range(5, 201, 5))
LONG = replace(PLAN, steps=200, cooldown_steps=0, evaluation_steps=EVERY_FIVE)


def train_for(patience: int | None, plan: TrainPlan = LONG) -> tuple[Training, list[Measurement]]:
    plan = replace(plan, patience=patience)
    training = Training(SHAPE, PARAMETRIZATION, plan, seed=0, device=CPU)
    return training, run_to_end(training, plan, objective=Overfitted())


@cache
def without_patience() -> list[Measurement]:
    """The measurements of a training that goes on to its horizon."""
    return train_for(None)[1]


@pytest.mark.parametrize("patience", [1, 3, 6])
def test_training_ends_so_many_evaluations_after_the_lowest_loss(patience: int) -> None:
    whole = without_patience()
    training, cut = train_for(patience)

    lowest = min(whole, key=lambda point: point.loss)
    assert lowest.step < 100
    assert losses(cut)[:-1] == losses(whole)[: len(cut) - 1], "nothing else has changed"
    last = cut[-1]
    assert last.step == training.step < 200
    since = [point for point in whole if point.step <= last.step][-patience:]
    before = min(point.loss for point in whole if point.step < since[0].step)
    assert all(point.loss >= before for point in since)
    assert last.loss == before
    assert last.metrics["best_step"] == lowest.step
    assert last.metrics["loss_at_the_end"] == last.loss
    assert Overfitted().evaluate(training.model)["loss"] == last.loss, "and so the model's"
    assert f"step {lowest.step}, {patience} evaluations before" in training.ended


def test_at_the_horizon_the_lowest_loss_counts_as_well() -> None:
    whole = without_patience()
    best = min(whole, key=lambda point: point.loss)
    steps = best.step + 10
    plan = replace(LONG, steps=steps, evaluation_steps=tuple(range(5, steps + 1, 5)))

    training, measured = train_for(5, plan)

    assert (measured[-1].step, measured[-1].loss) == (steps, best.loss)
    assert training.ended.startswith("trained to the horizon: restored the weights")


def test_a_loss_that_falls_to_the_end_is_trained_as_without_patience() -> None:
    short = replace(LONG, steps=10, evaluation_steps=(5, 10))
    with_patience, without = train_for(2, short), train_for(None, short)

    assert losses(with_patience[1]) == losses(without[1])
    assert with_patience[1][-1].metrics == without[1][-1].metrics
    assert with_patience[0].ended == ""


def test_pre_training_never_stops_early() -> None:
    whole = without_patience()
    lowest = min(whole, key=lambda point: point.loss)
    training, cut = train_for(2, replace(LONG, pretraining_steps=lowest.step + 10))

    assert training.best is not None
    assert training.best.step > lowest.step + 10
    assert cut[-1].step > lowest.step + 20


def trial(folder: Path, config: StudyConfig) -> RunningTrial:
    (budget,) = expand_budgets(config)
    spec = replace(SPEC, horizon_tokens=budget.tokens)
    folder.mkdir(exist_ok=True)
    return RunningTrial(Assignment(config, budget, spec, str(folder / "t.pt")), Overfitted(), CPU)


@pytest.fixture
def config() -> StudyConfig:
    return parse(STUDY)


@pytest.fixture
def every_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.search.training.saving.trial_log.REPORT_SECONDS", 0.0)
    monkeypatch.setattr("fathom.search.training.saving.trial_log.CHECKPOINT_SECONDS", 0.0)


def test_the_trial_finishes_with_its_lowest_loss_and_weights_and_trains_no_further(
    tmp_path: Path, config: StudyConfig
) -> None:
    running = trial(tmp_path, config)
    last = list(running.reports())[-1]

    assert last.outcome is Outcome.FINISHED
    best = int(last.points[-1].metrics["best_step"])
    assert last.reason == (
        "stopped early, as its held-out loss fell no further: "
        f"restored the weights of step {best}, 3 evaluations before"
    )
    record = record_of(SPEC, last)
    assert record.loss == min(point.loss for point in last.points)
    assert record.tokens < record.spec.horizon_tokens, "what was trained is what it cost"

    running.save_weights(tmp_path / "weights.pt")
    training = Training(SHAPE, config.model.parametrization.build(), LONG, seed=9, device=CPU)
    training.model.load_state_dict(torch.load(tmp_path / "weights.pt"))
    loss = Overfitted().evaluate(training.model)["loss"]
    assert loss == pytest.approx(last.points[-1].loss, rel=1e-6)

    running.save()
    *_, again = trial(tmp_path, config).reports()
    assert losses_reported(again) == losses_reported(last)
    assert (again.reason, again.outcome) == (last.reason, last.outcome)


@pytest.mark.usefixtures("every_report")
@pytest.mark.parametrize("evaluations", [2, 5, 7])
def test_a_resumed_trial_has_the_same_patience_and_best_weights(
    tmp_path: Path, config: StudyConfig, evaluations: int
) -> None:
    whole = list(trial(tmp_path / "whole", config).reports())
    list(islice(trial(tmp_path / "killed", config).reports(), evaluations))  # it writes no more

    again = list(trial(tmp_path / "killed", config).reports())

    assert len(whole[-1].points) == 8, "and five of them led to the best"
    assert losses_reported(again[-1]) == losses_reported(whole[-1])
    assert again[-1].reason == whole[-1].reason
    assert again[-1].points[-1].metrics["best_step"] == whole[-1].points[-1].metrics["best_step"]
