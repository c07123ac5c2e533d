"""A trial of a model of the user's own: resumed, in micro-batches, and its mistakes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.search.records import Outcome, Report
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.space.shape_counter import counter_of
from fathom.search.training.assignment import Assignment
from fathom.search.training.trial import RunningTrial, catch_failures
from tests.support.toy import CPU, Successor
from tests.support.training import BUDGET, SHAPE, SPEC

TEXT = """
study: toy
objective: {name: language, context: 6}
budgets: [4k]
tokens: 2400
train: {batch_size: 4, evaluations: 10, learning_rate: 1e-2}
stopping: {first_rung: 0.2, eta: 2, median_of: 3}
model: {build: "tests.support.own_models:FUNCTION"}
"""


def study(function: str = "build") -> StudyConfig:
    return parse(TEXT.replace("FUNCTION", function))


def trial(folder: Path, config: StudyConfig, **settings: Any) -> RunningTrial:
    own = study()
    counter = counter_of(own.model, own.space)
    assert counter
    spec = replace(SPEC, shape=counter.exactly(SHAPE))
    folder.mkdir(exist_ok=True)
    assignment = Assignment(config, BUDGET, spec, str(folder / f"{SPEC.trial}.pt"))
    return RunningTrial(assignment, Successor(), CPU, **settings)


def losses(reports: list[Report]) -> list[tuple[int, float]]:
    return [(point.step, point.loss) for point in reports[-1].points]


def test_it_learns_and_leaves_the_state_of_the_users_module(tmp_path: Path) -> None:
    running = trial(tmp_path / "one", study())
    reports = list(running.reports())
    running.save_weights(tmp_path / "weights.pt")

    assert reports[-1].outcome is Outcome.FINISHED, reports[-1].reason
    assert not reports[-1].layers
    assert losses(reports)[-1][1] < losses(reports)[0][1]
    weights = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert {"tokens.weight", "up.0.weight", "down.1.bias"} <= set(weights)


def test_resumed_it_ends_with_the_same_losses(tmp_path: Path) -> None:
    whole = list(trial(tmp_path / "whole", study()).reports())
    first = trial(tmp_path / "part", study())
    next(first.reports())
    first.save()

    resumed = list(trial(tmp_path / "part", study()).reports())

    assert losses(resumed)[-1] == losses(whole)[-1]


def test_micro_batches_give_the_same_losses(tmp_path: Path) -> None:
    whole, parts = (
        losses(list(trial(tmp_path / str(count), study(), micro_batches=count).reports()))
        for count in (1, 2)
    )

    for left, other in zip(whole, parts, strict=True):
        assert left == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("raising", "OwnModelError: tests.support.own_models:raising must build a model of"),
        ("quadratic", "parameters that were counted for depth 2"),
        ("narrow_logits", "must return logits (batch, time, vocabulary), [4, 6, 8], got"),
        ("fragile", "RuntimeError: no kernel"),
        ("not_a_number", "the loss is not finite"),
    ],
)
def test_a_mistake_on_the_way_is_an_outcome_with_its_reason(
    tmp_path: Path, function: str, words: str
) -> None:
    def reports() -> Iterator[Report]:
        yield from trial(tmp_path / "one", study(function)).reports()

    *_, last = catch_failures(reports())

    diverged = function == "not_a_number"
    assert last.outcome is (Outcome.DIVERGED if diverged else Outcome.FAILED)
    assert words in last.reason
