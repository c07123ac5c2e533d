"""Causal self-attention with rotary positions.

Operation by operation, turning queries and keys takes a tenth of a step on a CPU. Here a pair of
features is a complex number, and one product in place turns all of them, there and on the way back.

Shapes: B batch, T time, H heads, K head dimension, P = K / 2 pairs of features.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def attend(qkv_BT3HK: Tensor, turns_2T2HP2: Tensor | None, scale: float) -> Tensor:
    """Outputs (B, T, H, K); queries and keys are turned first where there are turns.

    What it is given may be overwritten.
    """
    q_BTHK, k_BTHK, v_BTHK = _apart(qkv_BT3HK, turns_2T2HP2)
    y_BHTK = F.scaled_dot_product_attention(
        q_BTHK.transpose(1, 2),
        k_BTHK.transpose(1, 2),
        v_BTHK.transpose(1, 2),
        is_causal=True,
        scale=scale,
    )
    return y_BHTK.transpose(1, 2)


def turned(x_BT2HK: Tensor, turns_T2HP2: Tensor) -> Tensor:
    """Each pair of neighbouring features turned by the angle of its position (Su et al. 2021).

    Operation by operation, which a compiler makes one of.
    """
    cos_T2HP, sin_T2HP = turns_T2HP2.to(x_BT2HK.dtype).unbind(-1)
    a_BT2HP, b_BT2HP = x_BT2HK.view(*x_BT2HK.shape[:-1], -1, 2).unbind(-1)
    pairs = (a_BT2HP * cos_T2HP - b_BT2HP * sin_T2HP, a_BT2HP * sin_T2HP + b_BT2HP * cos_T2HP)
    return torch.stack(pairs, dim=-1).flatten(-2)


def _apart(qkv_BT3HK: Tensor, turns_2T2HP2: Tensor | None) -> tuple[Tensor, ...]:
    """Turned queries, turned keys, values."""
    if turns_2T2HP2 is None:
        return qkv_BT3HK.unbind(2)
    exact = qkv_BT3HK.dtype in (torch.float32, torch.float64)
    if torch.compiler.is_compiling() or qkv_BT3HK.device.type != "cpu" or not exact:
        return *turned(qkv_BT3HK[:, :, :2], turns_2T2HP2[0]).unbind(2), qkv_BT3HK[:, :, 2]
    in_place: Tensor = _TurnedInPlace.apply(qkv_BT3HK, turns_2T2HP2)  # type: ignore[no-untyped-call]
    return in_place.unbind(2)


class _TurnedInPlace(torch.autograd.Function):
    """Queries and keys turned in one pass there and one back; values pass through."""

    @staticmethod
    def forward(ctx: Any, qkv_BT3HK: Tensor, turns_2T2HP2: Tensor) -> Tensor:
        turns_2T2HP = torch.view_as_complex(turns_2T2HP2.to(qkv_BT3HK.dtype))
        ctx.back = turns_2T2HP[1]
        qkv_BT3HK = qkv_BT3HK.detach()
        _queries_and_keys(qkv_BT3HK).mul_(turns_2T2HP[0])
        return qkv_BT3HK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BT3HK: Tensor) -> tuple[Tensor, None]:
        # Nobody else has this gradient: taking queries, keys and values apart has just made it.
        _queries_and_keys(grad_BT3HK).mul_(ctx.back)
        return grad_BT3HK, None


def _queries_and_keys(qkv_BT3HK: Tensor) -> Tensor:
    """Pairs of features as complex numbers, in the same memory."""
    B, T, _, H, K = qkv_BT3HK.shape
    return torch.view_as_complex(qkv_BT3HK.view(B, T, 3, H, K // 2, 2))[:, :, :2]
