"""Compiling is for long trials on a GPU."""

from dataclasses import replace

import pytest

from fathom.models.shape import Shape
from fathom.search.training.compile_policy import pays, uses_cuda_graphs

SHAPE = Shape(depth=12, d_model=256, d_ff=1024, n_heads=4, head_dim=64, vocab_size=256, context=256)


def test_a_long_trial_on_a_gpu_pays_and_a_short_one_does_not() -> None:
    assert pays(SHAPE, steps=1_000_000, tokens_per_step=8192, device_type="cuda")
    assert not pays(SHAPE, steps=10, tokens_per_step=8192, device_type="cuda")


def test_on_a_cpu_it_never_pays() -> None:
    assert not pays(SHAPE, steps=1_000_000, tokens_per_step=8192, device_type="cpu")


@pytest.mark.parametrize("tokens_per_step", [1024, 2**20])
def test_once_it_pays_more_steps_pay_as_well(tokens_per_step: int) -> None:
    answers = [
        pays(SHAPE, steps=10**power, tokens_per_step=tokens_per_step, device_type="cuda")
        for power in range(8)
    ]
    assert answers == sorted(answers)


def test_only_small_models_on_a_gpu_are_cuda_graphs() -> None:
    small, large = replace(SHAPE, depth=2), replace(SHAPE, depth=24)
    assert uses_cuda_graphs(small, "cuda")
    assert not uses_cuda_graphs(large, "cuda")
    assert not uses_cuda_graphs(small, "cpu")


def test_compiling_takes_no_longer_for_a_deeper_model_whose_blocks_are_compiled() -> None:
    """So what pays for a shallow model pays for a deep one, whose steps take longer."""
    for steps in (100, 1000, 10_000):
        shallow, deep = (
            pays(
                replace(SHAPE, depth=depth), steps=steps, tokens_per_step=2**16, device_type="cuda"
            )
            for depth in (14, 48)
        )
        assert deep >= shallow
