"""Estimates from a data sheet, against published times that did not give their constants."""

import pytest

from fathom.models.shape import Shape
from fathom.search.serving.data_sheet import estimate
from fathom.search.serving.values import Request
from fathom.search.study.hardware.gpus import gpu_named

PUBLISHED = {
    (80, 576): 57.49, (60, 672): 43.53, (48, 768): 33.14, (40, 832): 30.65, (32, 960): 24.21,
    (24, 1088): 18.52, (20, 1216): 15.59, (16, 1344): 12.68, (12, 1536): 8.94, (10, 1792): 7.60,
}  # fmt: skip
"""Depth and width -> ms a token of one prompt on a large GPU (hbfreed/inference-pareto,
results/raw/param_matched_sweep.csv); its 8 and 100 layers gave the constants."""
ONE = Request(batch=1, prompt=512, tokens=100)


def shape_of(depth: int, d_model: int, vocab_size: int = 49_152) -> Shape:
    return Shape(
        depth=depth, d_model=d_model, d_ff=4 * d_model, n_heads=d_model // 32, head_dim=32,
        vocab_size=vocab_size, context=2048,
    )  # fmt: skip


@pytest.mark.parametrize(("size", "milliseconds"), PUBLISHED.items())
def test_a_decoded_token_takes_what_was_published_within_15_percent(
    size: tuple[int, int], milliseconds: float
) -> None:
    found = estimate(shape_of(*size), ONE, gpu_named("H100"))
    assert 1000 * found.token.seconds == pytest.approx(milliseconds, rel=0.15)
    assert not found.measured


def test_a_large_model_waits_for_its_memory_and_a_long_prompt_for_products() -> None:
    wide, gpu = shape_of(8, 16_384), gpu_named("H100")
    token = estimate(wide, ONE, gpu).token.seconds
    assert token > 2 * wide.params_total / gpu.bandwidth
    assert estimate(wide, ONE, gpu_named("H200")).token.seconds < token
    long = Request(batch=8, prompt=2000, tokens=2)
    assert estimate(wide, long, gpu).prefill.seconds > 10 * estimate(wide, ONE, gpu).prefill.seconds
