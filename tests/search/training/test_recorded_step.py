"""A step on buffers that stay is the step that it stands for, to the last bit."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch

from fathom.models.parametrization import OptimizerName
from fathom.objectives.contract import Batch
from fathom.search.training.loop import advance, record_step
from tests.support.toy import Successor
from tests.support.training import PLAN, SHORT_PLAN, losses_of, new_training

RECORDED = replace(PLAN, recorded=True)


def test_losses_and_weights_are_those_of_steps_that_are_not_recorded() -> None:
    plain, recorded = new_training(PLAN), new_training(RECORDED)
    assert losses_of(recorded) == losses_of(plain)
    assert recorded.recorded is not None
    for ours, theirs in zip(recorded.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_what_is_saved_is_the_same_and_resumes_to_the_same_end() -> None:
    plain, recorded, resumed = (new_training(plan) for plan in (PLAN, RECORDED, RECORDED))
    record_step(recorded, Successor())
    for training in (plain, recorded):
        advance(training, Successor(), goal=11)
    ours, theirs = recorded.state_dict(), plain.state_dict()
    assert ours["optimizer"]["param_groups"] == theirs["optimizer"]["param_groups"]

    resumed.load_state_dict(ours)
    assert losses_of(resumed) == losses_of(plain)


def test_recording_changes_no_weight() -> None:
    training, untouched = new_training(RECORDED), new_training(PLAN)
    record_step(training, Successor())
    for ours, theirs in zip(training.model.parameters(), untouched.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert ours.grad is None


def test_a_batch_of_another_size_is_computed_as_well() -> None:
    class Varied(Successor):
        def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
            return super().batch(seed=seed, step=step, batch_size=batch_size - step % 2)

    weights = []
    for plan in (SHORT_PLAN, replace(SHORT_PLAN, recorded=True)):
        training, objective = new_training(plan), Varied()
        if plan.recorded:
            record_step(training, objective)
        advance(training, objective, goal=12)
        weights.append(torch.cat([w.detach().flatten() for w in training.model.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"optimizer": OptimizerName.MUON}, "Muon trains them"),
        ({"micro_batches": 2}, "a step has micro-batches"),
        ({"dropout": 0.1}, "they have dropout"),
    ],
)
def test_what_cannot_be_recorded_is_said_and_trained_as_ever(
    changes: dict[str, object], reason: str
) -> None:
    plan = replace(PLAN, **changes)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match=f"not recorded as a graph: {reason}"):
        losses = losses_of(new_training(replace(plan, recorded=True)))
    assert losses == losses_of(new_training(plan))


def test_the_memory_of_a_training_is_free_as_soon_as_it_ends() -> None:
    training = new_training(RECORDED)
    losses_of(training)
    assert training.recorded is not None
    ended, cycles = weakref.ref(training), gc.isenabled()
    gc.disable()
    try:
        del training
        assert ended() is None
    finally:
        if cycles:
            gc.enable()


def test_nothing_is_said_of_an_obstacle_to_a_graph_that_was_not_asked_for() -> None:
    plan = replace(PLAN, micro_batches=2)
    chosen = new_training(replace(plan, recorded=True, may_be_eager=True))
    assert losses_of(chosen) == losses_of(new_training(plan))  # warnings are errors
    assert chosen.recorded is None


def test_a_graph_that_cuda_refuses_leaves_a_training_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr("fathom.search.training.recorded_step.RecordedStep.record", refuse)
    with pytest.warns(UserWarning, match="operation not permitted when stream is capturing$"):
        assert losses_of(new_training(RECORDED)) == losses_of(new_training(PLAN))
