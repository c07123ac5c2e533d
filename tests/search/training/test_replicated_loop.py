"""Trials trained as one model: each is as it would be alone, whatever happens to the others."""

import io
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fathom.models.options import Positions
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.replica_optim import clip
from fathom.models.shape import Shape
from fathom.search.training.loop import train
from fathom.search.training.replicated_loop import Replica, ReplicaTraining, train_replicas
from fathom.search.training.state import Measurement, Training, TrainPlan
from tests.support.toy import CPU, Successors

NOISE = 1e-5
"""Between two orders of the same sums in float32, grown over a few dozen steps."""
SHAPE = Shape(depth=2, d_model=16, d_ff=24, n_heads=2, head_dim=4, vocab_size=8, context=6)
PLAN = TrainPlan(
    steps=24,
    batch_size=4,
    learning_rate=math.nan,  # each replica's own counts
    warmup_steps=3,
    cooldown_steps=8,
    weight_decay=0.1,
    betas=(0.9, 0.95),
    eps=1e-12,
    grad_clip=1.0,
    evaluation_steps=(3, 10, 17, 24),
    bfloat16=False,
)
REPLICAS = (
    Replica(seed=1, learning_rate=1e-2),
    Replica(seed=2, learning_rate=1e-2),
    Replica(seed=1, learning_rate=2e-2),
)


def parametrization(scheme: Scheme = Scheme.COMPLETEP) -> Parametrization:
    return Parametrization(scheme=scheme, base_width=8, base_depth=1, base_head_dim=2, init_std=0.1)


def batched(
    replicas: Sequence[Replica] = REPLICAS, *, shape: Shape = SHAPE, plan: TrainPlan = PLAN,
    scheme: Scheme = Scheme.COMPLETEP,
) -> ReplicaTraining:  # fmt: skip
    return ReplicaTraining(shape, parametrization(scheme), plan, replicas, device=CPU)


def alone(
    replica: Replica, *, shape: Shape = SHAPE, plan: TrainPlan = PLAN,
    scheme: Scheme = Scheme.COMPLETEP,
) -> Training:  # fmt: skip
    plan = replace(plan, learning_rate=replica.learning_rate)
    return Training(shape, parametrization(scheme), plan, seed=replica.seed, device=CPU)


def losses_of(
    yielded: Sequence[dict[Replica, Measurement]], replica: Replica
) -> list[tuple[int, float, float]]:
    own = [measured[replica] for measured in yielded if replica in measured]
    return [(one.step, one.loss, one.train_loss) for one in own]


def assert_as_alone(
    yielded: Sequence[dict[Replica, Measurement]], replica: Replica, plan: TrainPlan = PLAN,
    shape: Shape = SHAPE, scheme: Scheme = Scheme.COMPLETEP,
) -> Training:  # fmt: skip
    """Checks losses against a single training up to floating-point noise; returns that training."""
    own = alone(replica, shape=shape, plan=plan, scheme=scheme)
    expected = [(one.step, one.loss, one.train_loss) for one in train(own, Successors())]
    assert np.array(losses_of(yielded, replica)) == pytest.approx(np.array(expected), abs=NOISE)
    return own


def assert_near(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert list(one) == list(other)
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], rtol=0, atol=NOISE, msg=name)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize(
    "shape",
    [
        replace(SHAPE, gated=True, positions=Positions.LEARNED),
        replace(SHAPE, tied=False, positions=Positions.NONE),
        replace(SHAPE, d_ff=0),
    ],
    ids=str,
)
def test_losses_and_weights_are_those_of_training_one_by_one(shape: Shape, scheme: Scheme) -> None:
    training = batched(shape=shape, scheme=scheme)
    yielded = list(train_replicas(training, Successors()))
    for replica in REPLICAS:
        own = assert_as_alone(yielded, replica, shape=shape, scheme=scheme)
        assert_near(training.state_dict(replica)["model"], own.model.state_dict())


def test_the_order_of_the_replicas_changes_nothing() -> None:
    mixed = (REPLICAS[0], REPLICAS[2], REPLICAS[1])
    yielded = list(train_replicas(batched(mixed), Successors()))
    for replica in mixed:
        assert_as_alone(yielded, replica)


def test_replicas_of_one_seed_start_equal_and_then_differ() -> None:
    training = batched()
    first, _, third = (training.state_dict(replica)["model"] for replica in REPLICAS)
    for name, weight in first.items():
        assert torch.equal(weight, third[name])
    list(train_replicas(training, Successors()))
    first, _, third = (training.state_dict(replica)["model"] for replica in REPLICAS)
    assert not any(torch.equal(weight, third[name]) for name, weight in first.items())


def test_all_are_measured_at_the_evaluation_steps_and_nowhere_else() -> None:
    yielded = list(train_replicas(batched(), Successors()))
    assert [{one.step for one in measured.values()} for measured in yielded] == [
        {step} for step in PLAN.evaluation_steps
    ]
    for measured in yielded:
        assert tuple(measured) == REPLICAS
        assert all(one.metrics == {"sequences": 8.0} for one in measured.values())
        assert not any(one.diverged for one in measured.values())


def test_the_time_of_a_step_is_shared_out() -> None:
    one, three = batched(REPLICAS[:1]), batched()
    for training in (one, three):
        began = time.perf_counter()
        *_, last = train_replicas(training, Successors())
        charged = sum(measured.train_seconds for measured in last.values())
        assert 0 < charged < time.perf_counter() - began


# Divergence.


WILD = Replica(seed=2, learning_rate=1e25)


def test_a_diverged_replica_is_measured_as_such_without_effect_on_the_others() -> None:
    training = batched((REPLICAS[0], WILD, REPLICAS[1]))
    yielded = list(train_replicas(training, Successors()))

    ends = [step for step, measured in enumerate(yielded) if WILD in measured]
    assert "not finite" in yielded[ends[-1]][WILD].diverged
    assert ends[-1] < len(yielded) - 1, "it ends where it was found out"
    assert training.replicas == REPLICAS[:2]
    for replica in REPLICAS[:2]:
        own = assert_as_alone(yielded, replica)
        assert_near(training.state_dict(replica)["model"], own.model.state_dict())


def test_training_ends_when_all_replicas_have_diverged() -> None:
    training = batched((WILD, replace(WILD, seed=3)))
    yielded = list(train_replicas(training, Successors()))
    assert all(one.diverged for one in yielded[-1].values())
    assert not training.replicas
    assert yielded[-1][WILD].step < PLAN.steps


def test_a_replica_that_is_dropped_leaves_the_others_as_they_are() -> None:
    training = batched()
    yielded = []
    for measured in train_replicas(training, Successors()):
        yielded.append(measured)
        if len(yielded) == 2:
            training.drop(REPLICAS[:1])
    assert [len(measured) for measured in yielded] == [3, 3, 2, 2]
    for replica in REPLICAS[1:]:
        assert_as_alone(yielded, replica)


def test_each_gradient_is_clipped_by_its_own_norm() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([0.01, 1.0, 100.0, math.nan])
    gradients = [torch.randn(4, *size, generator=generator) for size in ((3, 5), (2, 4, 3), (7,))]
    for gradient in gradients:
        gradient.mul_(sizes.view(-1, *[1] * (gradient.dim() - 1)))
    alone = [[gradient[index].clone() for gradient in gradients] for index in range(4)]
    clip(gradients, 1.0)
    for index, own in enumerate(alone):
        weights = [torch.nn.Parameter(gradient) for gradient in own]
        for weight, gradient in zip(weights, own, strict=True):
            weight.grad = gradient
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        for weight, gradient in zip(weights, gradients, strict=True):
            torch.testing.assert_close(gradient[index], weight.grad, equal_nan=True)


# Resuming.


def interrupted(steps: int) -> dict[Replica, Any]:
    """The states after some measurements, as they would be on disk."""
    training = batched()
    for _ in zip(range(steps), train_replicas(training, Successors()), strict=False):
        pass
    return {replica: on_disk(training.state_dict(replica)) for replica in REPLICAS}


def on_disk(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def test_the_state_holds_what_a_single_training_would_save() -> None:
    states = interrupted(2)
    for replica in REPLICAS:
        own = alone(replica)
        for measurement in train(own, Successors()):
            if measurement.step == PLAN.evaluation_steps[1]:
                break
        expected, state = on_disk(own.state_dict()), states[replica]
        assert state.keys() == expected.keys()
        assert state["step"] == expected["step"]
        assert state["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]
        moments, expected_moments = state["optimizer"]["state"], expected["optimizer"]["state"]
        assert list(moments) == list(expected_moments)
        for number, expected_own in expected_moments.items():
            assert_near(moments[number], expected_own)
            for key, value in expected_own.items():
                assert moments[number][key].dtype == value.dtype
                assert moments[number][key].shape == value.shape


def test_before_the_first_step_the_state_is_that_of_a_new_training() -> None:
    state, own = batched().state_dict(REPLICAS[1]), alone(REPLICAS[1])
    expected = own.state_dict()
    assert state["optimizer"] == expected["optimizer"]
    for name, weight in expected["model"].items():
        assert torch.equal(state["model"][name], weight)


def test_a_single_training_resumes_from_a_replica() -> None:
    states = interrupted(2)
    for replica in REPLICAS:
        own = alone(replica)
        own.load_state_dict(states[replica])
        rest = [(one.step, one.loss, one.train_loss) for one in train(own, Successors())]
        through = alone(replica)
        whole = [(one.step, one.loss, one.train_loss) for one in train(through, Successors())]
        assert np.array(rest) == pytest.approx(np.array(whole[2:]), abs=NOISE)
        assert_near(own.model.state_dict(), through.model.state_dict())
