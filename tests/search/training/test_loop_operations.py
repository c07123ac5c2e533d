"""The number of operations that a layer adds to a training step; on a GPU each is a launch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fathom.models.parametrization import OptimizerName
from fathom.search.training.loop import advance
from tests.support.operations import Operations
from tests.support.reversal import Reversal
from tests.support.toy import Successor
from tests.support.training import PLAN, SHAPE, new_training

STACKS: dict[str, Any] = {"encoder_depth": 1, "vocab_size": 10, "context": 8}


def operations(depth: int, plan: Mapping[str, Any], shape: Mapping[str, Any]) -> int:
    training = new_training(replace(PLAN, **plan), shape=replace(SHAPE, depth=depth, **shape))
    objective = Reversal() if "encoder_depth" in shape else Successor()
    advance(training, objective, goal=1)  # the optimizer makes its moments in the first step
    with Operations() as seen:
        advance(training, objective, goal=2)
    return len(seen.computed)


HALF: dict[str, Any] = {"bfloat16": True}


@pytest.mark.parametrize(
    ("plan", "shape", "most"),
    [
        pytest.param({}, {}, 60, id="float32"),
        pytest.param(HALF, {}, 98, id="bfloat16, as on a GPU"),
        pytest.param(HALF | {"diagnostics": True}, {}, 98, id="measured"),
        pytest.param(HALF | {"optimizer": OptimizerName.MUON}, {}, 98, id="Muon"),
        pytest.param(HALF | {"micro_batches": 2}, {}, 2 * 98, id="two micro-batches"),
        pytest.param(HALF, STACKS, 150, id="with attention to an encoder"),
    ],
)
def test_a_layer_adds_few_operations_to_a_step(
    plan: dict[str, Any], shape: dict[str, Any], most: int
) -> None:
    assert 0 < operations(4, plan, shape) - operations(3, plan, shape) <= most
