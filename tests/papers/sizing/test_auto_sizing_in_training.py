"""Auto-sizing within a training: strength 0, bit-identical resuming, counts."""

from dataclasses import replace

import pytest
import torch

from fathom.models.group_penalty import GroupNorm, GroupPenalty, SizedPart
from fathom.papers.sizing.layer_sizes import params_left
from fathom.papers.sizing.left import sizes_left
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.fit import may_shard
from fathom.search.training.loop import train
from fathom.search.training.state import TrainPlan
from tests.support.toy import Successor
from tests.support.training import PLAN, SHAPE, losses, new_training, run_to_end

ALL = tuple(SizedPart)


def sized(strength: float, *parts: SizedPart, norm: GroupNorm = GroupNorm.L21) -> TrainPlan:
    return replace(PLAN, auto_sizing=GroupPenalty(norm=norm, strength=strength, parts=parts or ALL))


@pytest.mark.parametrize("norm", GroupNorm)
def test_strength_0_trains_as_without_it_bit_by_bit(norm: GroupNorm) -> None:
    plan = sized(0.0, norm=norm)
    without, with_it = new_training(), new_training(plan)
    assert losses(run_to_end(without)) == losses(run_to_end(with_it, plan))
    for name, weight in without.model.state_dict().items():
        assert torch.equal(weight, with_it.model.state_dict()[name]), name


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("norm", GroupNorm)
def test_a_resumed_training_is_bit_identical(norm: GroupNorm, share: float) -> None:
    plan = replace(sized(0.8, norm=norm), learning_rate=3e-2)
    assert plan.auto_sizing is not None
    plan = replace(plan, auto_sizing=replace(plan.auto_sizing, share=share))
    whole = new_training(plan)
    expected = losses(run_to_end(whole, plan))
    first, calls = new_training(plan), iter([False] * 13 + [True])
    before = losses(list(train(first, Successor(), lambda: next(calls))))
    assert 0 < first.step < plan.steps
    second = new_training(plan, seed=0)
    second.load_state_dict(first.state_dict())
    after = losses(run_to_end(second, plan))
    assert before + after == expected
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    assert min(layer.d_ff for layer in sizes_left(second.transformer)) < SHAPE.d_ff


@pytest.mark.parametrize(
    ("part", "gone"),
    [
        (SizedPart.NEURONS, "neurons_left"),
        (SizedPart.HEADS, "heads_left"),
        (SizedPart.BRANCHES, "layers_left"),
    ],
)
def test_every_evaluation_counts_what_is_left(part: SizedPart, gone: str) -> None:
    plan = replace(sized(1.0, part), evaluation_steps=(1, 40), learning_rate=3e-2)
    training = new_training(plan)
    measurements = run_to_end(training, plan)
    sizes = sizes_left(training.transformer)
    last = measurements[-1].metrics
    assert last["parameters_left"] == params_left(SHAPE, sizes) < SHAPE.params_total
    assert last["by_layer/neurons_left_2"] == sizes[1].d_ff
    assert last["by_layer/heads_left_1"] == sizes[0].n_heads
    assert measurements[0].metrics["parameters_left"] > last["parameters_left"]
    assert last[gone] == 0


def test_without_auto_sizing_nothing_is_counted() -> None:
    assert not any("left" in name for point in run_to_end(new_training()) for name in point.metrics)


STUDY = """
study: sized
objective: {name: language, context: 6}
budgets: [4k]
train: {auto_sizing: {strength: 0.2}}
"""


def test_a_study_names_the_penalty() -> None:
    assert parse(STUDY).train.auto_sizing.penalty == GroupPenalty(
        norm=GroupNorm.L21,
        strength=0.2,
        parts=(SizedPart.NEURONS, SizedPart.HEADS, SizedPart.BRANCHES),
        share=0.5,
    )
    whole = parse(STUDY.replace("0.2", "0.2, share: 1")).train.auto_sizing.penalty
    assert whole is not None
    assert whole.share == 1.0
    assert not may_shard(parse(STUDY).model, parse(STUDY).train)
    without = parse(STUDY.replace("0.2", "0"))
    assert without.train.auto_sizing.penalty is None
    assert may_shard(without.model, without.train)
