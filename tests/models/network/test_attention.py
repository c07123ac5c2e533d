"""Turning queries and keys in place is the same as operation by operation."""

import pytest
import torch
from torch import Tensor

from fathom.models.network.attention import attend, mixed, pattern, turned
from fathom.models.network.transformer import rotary_table
from fathom.models.options import Positions
from fathom.models.shape import Shape
from tests.support.operations import Operations


def inputs(
    T: int, H: int, K: int, dtype: torch.dtype, S: int | None = None
) -> tuple[Tensor, Tensor]:
    """Queries, keys and values of two sequences, and the turns of their positions."""
    S = S or H
    shape = Shape(
        depth=1, d_model=H * K, d_ff=1, n_heads=H, head_dim=K, vocab_size=2, context=max(T, 9),
        positions=Positions.ROTARY, queries_per_key=H // S,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(T)
    qkv = torch.randn(2, T, H + 2 * S, K, generator=generator, dtype=dtype)
    return qkv, rotary_table(shape, torch.device("cpu"))[:, :T]


@pytest.mark.parametrize(
    ("T", "H", "S", "K"),
    [(1, 1, 1, 2), (7, 3, 3, 8), (64, 2, 2, 16), (130, 1, 1, 6), (7, 6, 2, 8), (20, 4, 1, 4)],
)
def test_outputs_and_gradients_are_those_of_plain_code(T: int, H: int, S: int, K: int) -> None:
    qkv, turns = inputs(T, H, K, torch.float64, S)
    weights = torch.randn(2, T, H, K, generator=torch.Generator().manual_seed(0)).double()
    results = []
    for plain in (True, False):
        leaf = qkv.clone().requires_grad_()
        if plain:
            queries_and_keys = turned(leaf[:, :, :-S], turns[0])
            outputs = attend(torch.cat((queries_and_keys, leaf[:, :, -S:]), dim=2), S, None, 0.3)
        else:
            outputs = attend(leaf.clone(), S, turns, 0.3)
        (outputs * weights).sum().backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        results.append((outputs.detach(), leaf.grad))
    for plain_result, other in zip(*results, strict=True):
        assert torch.allclose(plain_result, other, rtol=1e-9, atol=1e-10)


def test_without_rotations_attention_ignores_the_order_of_keys() -> None:
    qkv, _ = inputs(5, 2, 4, torch.float32)
    swapped = qkv[:, [1, 0, 2, 3, 4]].clone()
    swapped[:, :2, :2] = qkv[:, :2, :2]
    assert torch.allclose(attend(qkv, 2, None, 0.5)[:, 2:], attend(swapped, 2, None, 0.5)[:, 2:])


def test_bfloat16_comes_near_float32() -> None:
    qkv, turns = inputs(20, 2, 16, torch.float32)
    exact = attend(qkv.clone(), 2, turns, 0.25)
    rounded = attend(qkv.bfloat16(), 2, turns, 0.25)
    assert rounded.dtype == torch.bfloat16
    assert torch.allclose(exact, rounded.float(), atol=0.05)


def test_a_pattern_is_computed_in_float32_whatever_the_model_computes_in() -> None:
    qkv = torch.randn(2, 8, 6, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        rounded = pattern(qkv, 2, None, 0.25)
    assert torch.equal(rounded, pattern(qkv, 2, None, 0.25))


def test_heads_are_taken_apart_without_filling_gradients_with_zeros() -> None:
    """The gradient of each slice would be a whole tensor of zeros but for its part."""
    qkv, turns = inputs(8, 4, 16, torch.bfloat16, 2)
    by_slices, by_parts = qkv.clone().requires_grad_(), qkv.clone().requires_grad_()
    qk = turned(by_slices[:, :, :-2], turns[0])
    apart = mixed(qk[:, :, :-2], qk[:, :, -2:], by_slices[:, :, -2:], 0.25, None)
    apart.sum().backward()  # type: ignore[no-untyped-call]
    with Operations() as seen:
        attend(by_parts, 2, turns, 0.25).sum().backward()  # type: ignore[no-untyped-call]
    assert "slice_backward" not in seen.names
    assert by_parts.grad is not None
    assert by_slices.grad is not None
    assert torch.equal(by_parts.grad, by_slices.grad)
