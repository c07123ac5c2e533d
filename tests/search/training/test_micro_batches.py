"""Micro-batches: the same losses in any number, and smaller ones where memory runs out."""

from dataclasses import replace

import pytest
import torch

from fathom.models.layers.experts import Experts
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.disk import checkpoint_bytes
from fathom.search.training import device
from fathom.search.training.device import fitted
from fathom.search.training.micro_batches import halved, is_out_of_memory
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS
from tests.support.toy import CPU
from tests.support.training import CONFIG, SHAPE, SHORT_PLAN, lack_memory, losses_of, new_training


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_losses_are_the_same_in_any_number_of_micro_batches(count: int, recomputes: bool) -> None:
    plan = replace(SHORT_PLAN, micro_batches=count, recomputes=recomputes)
    expected = losses_of(new_training(SHORT_PLAN))
    assert losses_of(new_training(plan)) == pytest.approx(expected, rel=1e-5)


def test_experts_are_balanced_alike_in_any_number_of_micro_batches() -> None:
    experts = Experts(number=4, top_k=2, balance="bias")
    for of_layer in (experts, replace(experts, balance=0.1)):
        training = new_training(
            replace(SHORT_PLAN, micro_batches=4), shape=replace(SHAPE, experts=of_layer)
        )
        assert losses_of(training)[-1] < losses_of(new_training(SHORT_PLAN))[0]
        assert [module.pieces for module in training.experts] == [4, 4]
    assert not new_training(SHORT_PLAN).experts


def test_a_step_that_runs_out_of_memory_is_begun_again_with_half_as_much() -> None:
    expected = losses_of(new_training(SHORT_PLAN))
    training = new_training(SHORT_PLAN)
    lack_memory(training, "embedding.weight", 5)
    lack_memory(training, "blocks.0.attention.into.weight", 8)
    assert losses_of(training) == pytest.approx(expected, rel=1e-5)
    assert training.micro_batches == 4


def test_single_sequences_are_not_halved() -> None:
    training = new_training(SHORT_PLAN)
    for count in (2, 4, 8):
        assert halved(training)
        assert training.micro_batches == count
    assert not halved(training)
    lack_memory(training, "embedding.weight", 1)
    with pytest.raises(torch.OutOfMemoryError):
        losses_of(training)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "NCCL error: unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
        "CUDA error: out of memory",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.",
    ],
)
def test_failed_allocations_of_libraries_count_as_out_of_memory(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError("CUDNN_STATUS_EXECUTION_FAILED"))


def test_micro_batches_follow_from_the_memory_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plan_with(memory: float) -> tuple[int, bool]:
        monkeypatch.setattr(device, "usable_memory", lambda *_: memory)
        plan = fitted(SHORT_PLAN, parse(TEXT), SHAPE, CPU, SINGLE_PROCESS)
        return plan.micro_batches, plan.recomputes

    assert plan_with(1e9) == (1, False)
    assert plan_with(140_000 + checkpoint_bytes(SHAPE))[0] in (2, 4)
    assert plan_with(1)[1], "not even a sequence fits, so layers are computed again"


TEXT = CONFIG.model_dump_json()
