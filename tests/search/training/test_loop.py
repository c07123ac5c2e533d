"""The training loop: what it yields and when, how it ends, and that only its arguments count."""

import itertools
import math
import random
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fathom.models.options import Positions, Residual
from fathom.models.parametrization import Scheme
from fathom.objectives.contract import Batch, Model
from fathom.objectives.errors import ObjectiveError
from fathom.papers.admin import profile
from fathom.search.training.loop import train
from fathom.search.training.state import Training, TrainPlan
from tests.support.command_line import run
from tests.support.toy import CPU, Successor
from tests.support.training import (
    PARAMETRIZATION,
    PLAN,
    SHAPE,
    Losses,
    losses,
    new_training,
    run_to_end,
)


def assert_same_weights(left: Training, other: Training) -> None:
    weights, others = left.model.state_dict(), other.model.state_dict()
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, others[name]), name


def test_the_loss_falls_from_chance_to_almost_nothing() -> None:
    plan = replace(PLAN, steps=150, evaluation_steps=(1, 150))
    first, last = run_to_end(new_training(plan), plan)
    assert first.loss == pytest.approx(math.log(8), abs=0.5)
    assert last.loss < 0.05
    assert last.train_loss < first.train_loss


@pytest.mark.parametrize(
    ("loss", "got"), [(None, "None"), (0.5, "0.5"), (torch.zeros(3), r"a tensor \(3,\)")]
)
def test_a_loss_that_is_not_one_number_is_refused(
    loss: object, got: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Successor, "loss", lambda *_: loss)
    with pytest.raises(ObjectiveError, match=f"must return one number, got {got}"):
        run_to_end(new_training())


@pytest.mark.parametrize("metrics", [None, {"accuracy": 1.0}])
def test_an_evaluation_without_a_loss_is_refused_with_what_it_returned(
    metrics: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Successor, "evaluate", lambda *_: metrics)
    with pytest.raises(ObjectiveError, match=f"must return metrics with `loss`, got {metrics};"):
        run_to_end(new_training(PLAN), PLAN)


@pytest.mark.parametrize("steps", [(40,), (1, 2, 3, 40), tuple(range(1, 41))])
def test_the_loop_yields_at_the_evaluation_steps_and_nowhere_else(steps: tuple[int, ...]) -> None:
    plan = replace(PLAN, evaluation_steps=steps)
    measurements = run_to_end(new_training(plan), plan)
    assert tuple(point.step for point in measurements) == steps
    seconds = [point.train_seconds for point in measurements]
    assert all(earlier < later for earlier, later in itertools.pairwise(seconds))
    for point in measurements:
        assert not point.diverged
        assert point.metrics == {"sequences": 8.0}
        assert math.isfinite(point.loss + point.train_loss)


def test_evaluating_more_often_changes_no_weight() -> None:
    often = replace(PLAN, evaluation_steps=tuple(range(1, 41)))
    training, other = new_training(), new_training(often)
    last, last_of_often = run_to_end(training)[-1], run_to_end(other, often)[-1]
    assert_same_weights(training, other)
    assert last.loss == last_of_often.loss


def test_the_training_loss_is_the_mean_since_the_last_evaluation() -> None:
    every = replace(PLAN, evaluation_steps=tuple(range(1, 41)))
    each = [point.train_loss for point in run_to_end(new_training(every), every)]
    for begin, point in zip((0, 3, 10, 17), run_to_end(new_training()), strict=True):
        assert point.train_loss == pytest.approx(np.mean(each[begin : point.step]), rel=1e-5)


# Admin's profile, which needs data before the first step.


def profiled_training(seed: int = 0) -> Training:
    shape = replace(SHAPE, residual=Residual.ADMIN)
    parametrization = replace(PARAMETRIZATION, scheme=Scheme.STANDARD)
    return Training(shape, parametrization, PLAN, seed=seed, device=CPU)


def test_a_training_that_begins_profiles_its_first_batch() -> None:
    training, reference = profiled_training(), profiled_training()
    omegas = profile(reference.transformer, Successor().batch(seed=5, step=0, batch_size=4).inputs)
    still = replace(PLAN, learning_rate=0.0, weight_decay=0.0)
    run_to_end(training, still, seed=5)
    assert_same_weights(training, reference)
    assert len(omegas) == 4
    assert len(set(omegas)) == 4


def test_a_resumed_training_is_not_profiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, first = profiled_training(), profiled_training()
    seen = run_to_end(whole)
    next(train(first, Successor()))
    resumed = profiled_training(seed=9)
    resumed.load_state_dict(first.state_dict())
    monkeypatch.setattr("fathom.papers.admin.profile", None)
    assert losses(run_to_end(resumed)) == losses(seen)[1:]
    assert_same_weights(whole, resumed)


# Divergence.


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_it_with_a_reason(value: float) -> None:
    (last,) = run_to_end(new_training(), objective=Successor(fault=lambda _: value))
    assert last.step == 3
    assert "not finite" in last.diverged


class NanAtStep(Successor):
    """A training loss that is no number, once; the held-out loss is not computed from it."""

    def loss(self, model: Model, batch: Batch) -> Tensor:
        loss = super().loss(model, batch)
        return loss * math.nan if len(batch.inputs) == 4 else loss


def test_a_training_loss_that_is_no_number_ends_it_too() -> None:
    (last,) = run_to_end(new_training(), objective=NanAtStep())
    assert "training nan" in last.diverged


def test_a_loss_above_chance_after_warm_up_ends_it_with_both_values() -> None:
    objective = Successor(fault=lambda loss: loss + 3)
    measurements = run_to_end(new_training(), objective=objective)
    # At the end of warm-up, step 3, a loss above chance is forgiven; at step 10 it is not.
    assert [point.step for point in measurements] == [3, 10]
    assert measurements[0].diverged == ""
    assert f"{measurements[1].loss:.3f}" in measurements[1].diverged
    assert f"{math.log(8):.3f}" in measurements[1].diverged
    # In pre-training, and in as many steps after it as warm-up has, it says nothing either.
    plan = replace(PLAN, pretraining_steps=14)
    assert [point.step for point in run_to_end(new_training(), plan, objective=objective)] == [
        3,
        10,
        17,
        40,
    ]


def test_a_rate_far_too_high_diverges_by_itself() -> None:
    plan = replace(PLAN, learning_rate=1e4)
    last = run_to_end(new_training(plan), plan)[-1]
    assert last.diverged
    assert last.step < 40


# Same input, same answer.


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others() -> None:
    first, second, other = new_training(), new_training(), new_training(seed=1)
    assert losses(run_to_end(first)) == losses(run_to_end(second))
    assert_same_weights(first, second)
    assert losses(run_to_end(other)) != losses(run_to_end(new_training()))
    assert losses(run_to_end(new_training(), seed=1)) != losses(run_to_end(new_training(), seed=2))


MEASURED = replace(PLAN, diagnostics=True)


@pytest.fixture(scope="module")
def never_stopped() -> tuple[Training, Losses]:
    """A training with diagnostics at its end, and its losses."""
    whole = new_training(MEASURED)
    return whole, losses(run_to_end(whole, MEASURED))


@pytest.mark.parametrize(
    "stop",
    [pytest.param(n, marks=[pytest.mark.drill] * (n % 4 > 0)) for n in range(1, PLAN.steps)],
)
def test_resuming_at_any_step_is_bit_identical_to_never_stopping(
    never_stopped: tuple[Training, Losses], stop: int, tmp_path: Path
) -> None:
    (whole, expected), plan = never_stopped, MEASURED
    left, path = new_training(plan), tmp_path / "checkpoint.pt"
    before = list(train(left, Successor(), lambda: left.step >= stop))
    assert left.step in (stop, stop + 1), "after an evaluation, one step more"
    torch.save(left.state_dict(), path)
    resumed = new_training(plan, seed=123)
    resumed.load_state_dict(torch.load(path, weights_only=True))
    assert losses(before + run_to_end(resumed, plan)) == expected
    assert_same_weights(whole, resumed)
    moments, others = (each.optimizer.state_dict()["state"] for each in (whole, resumed))
    for index, state in moments.items():
        for name, value in state.items():
            assert torch.equal(value, others[index][name])


def test_time_continues_from_the_saved_value_and_ends_with_the_training() -> None:
    training = new_training()
    first = next(train(training, Successor()))
    resumed = new_training()
    resumed.load_state_dict(training.state_dict())
    assert run_to_end(resumed)[0].train_seconds > first.train_seconds
    assert run_to_end(resumed) == [], "a finished training yields nothing more"


@pytest.mark.parametrize("positions", Positions)
def test_no_global_random_number_matters_and_no_step_draws_one(positions: Positions) -> None:
    shape, measured = replace(SHAPE, positions=positions, tied=False), []
    for seed in (5, 6):
        torch.manual_seed(seed)
        training = new_training(shape=shape)
        random.seed(seed)
        before, before_random = torch.get_rng_state(), random.getstate()
        measured.append(losses(run_to_end(training)))
        assert torch.equal(torch.get_rng_state(), before)
        assert random.getstate() == before_random
    assert measured[0] == measured[1]


@cache
def losses_by(plan: TrainPlan) -> Losses:
    return losses(run_to_end(new_training(plan), plan))


# Adam is blind to the size of gradients but for epsilon, so clipping needs a large one to show.
LARGE_EPS = replace(PLAN, eps=1e-3)


@pytest.mark.parametrize(
    ("change", "base"),
    [
        ({"learning_rate": 0.3}, PLAN),
        ({"weight_decay": 3.0}, PLAN),
        ({"eps": 1e-3}, PLAN),
        ({"grad_clip": 1e-9}, LARGE_EPS),
        ({"betas": (0.5, 0.95)}, PLAN),
        ({"betas": (0.9, 0.5)}, PLAN),
        ({"warmup_steps": 1}, PLAN),
        ({"cooldown_steps": 20}, PLAN),
    ],
)
def test_each_setting_of_the_plan_reaches_the_weights(
    change: dict[str, Any], base: TrainPlan
) -> None:
    assert losses_by(replace(base, **change)) != losses_by(base)


def test_the_batch_size_reaches_the_objective() -> None:
    seen = []

    class Watching(Successor):
        def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
            seen.append((seed, step, batch_size))
            return super().batch(seed=seed, step=step, batch_size=batch_size)

    run_to_end(new_training(), objective=Watching(), seed=9)
    assert seen == [(9, step, 4) for step in range(40)]


def test_bfloat16_runs_on_a_cpu_and_keeps_the_weights_in_float32() -> None:
    plan = replace(PLAN, bfloat16=True)
    training = new_training(plan)
    measurements = run_to_end(training, plan)
    assert measurements[-1].loss < math.log(8)
    assert {weight.dtype for weight in training.model.parameters()} == {torch.float32}
    exact = run_to_end(new_training())
    assert losses(measurements) != losses(exact)
    assert measurements[-1].loss == pytest.approx(exact[-1].loss, abs=0.1)


@pytest.mark.gpu
def test_a_gpu_learns_the_same_task() -> None:
    plan, device = replace(PLAN, bfloat16=True), torch.device("cuda")
    training = Training(SHAPE, PARAMETRIZATION, plan, seed=0, device=device)
    assert run_to_end(training, plan, objective=Successor().to(device))[-1].loss < math.log(8)


def test_training_and_saving_import_no_compiler(tmp_path: Path) -> None:
    """Importing the compiler would add two seconds to every worker's start."""
    code = f"""
import sys, torch
from fathom.search.training.state import Training, TrainPlan
from tests.support.toy import Successor
from tests.support.training import PARAMETRIZATION, PLAN, SHAPE, run_to_end
one, other = (
    Training(SHAPE, PARAMETRIZATION, PLAN, seed=0, device=torch.device("cpu")) for _ in range(2)
)
run_to_end(one, PLAN, objective=Successor())
torch.save(one.state_dict(), {str(tmp_path / "state.pt")!r})
other.load_state_dict(torch.load({str(tmp_path / "state.pt")!r}, weights_only=True))
print(*sys.modules)
"""
    result = run(sys.executable, "-c", code)
    assert "torch.optim.adamw" in result.stdout.split()
    assert "torch._dynamo" not in result.stdout.split()
