"""Self-attention: rotary positions, causal or masked, and keys that are smeared.

Operation by operation, rotating queries and keys takes a tenth of a step on a CPU. Here a pair of
features is a complex number, and one product in place turns all of them, there and on the way back.

Shapes: B batch, T time, H heads, K head dimension, P = K / 2 pairs of features.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

PADDING = 0
"""Token id of padding, which bidirectional attention leaves out."""


def attend(
    qkv_BT3HK: Tensor,
    turns_2T2HP2: Tensor | None,
    scale: float,
    mask_B11T: Tensor | None = None,
) -> Tensor:
    """Outputs of attention, (B, T, H, K); queries and keys are rotated first if turns are given.

    Without a mask attention is causal; with one, all keys that it allows are seen. The arguments
    may be overwritten.
    """
    q_BTHK, k_BTHK, v_BTHK = _apart(qkv_BT3HK, turns_2T2HP2)
    y_BHTK = F.scaled_dot_product_attention(
        q_BTHK.transpose(1, 2),
        k_BTHK.transpose(1, 2),
        v_BTHK.transpose(1, 2),
        attn_mask=mask_B11T,
        is_causal=mask_B11T is None,
        scale=scale,
    )
    return y_BHTK.transpose(1, 2)


def pattern(
    qkv_BT3HK: Tensor,
    turns_2T2HP2: Tensor | None,
    scale: float,
    mask_B11T: Tensor | None = None,
) -> Tensor:
    """Attention weights (B, H, T, T) by which `attend` mixes values, a row for each query."""
    q_BTHK, k_BTHK, _ = _apart(qkv_BT3HK, turns_2T2HP2)
    logits_BHTT = scale * torch.einsum("bthk,bshk->bhts", q_BTHK.float(), k_BTHK.float())
    if mask_B11T is None:
        mask_B11T = torch.ones(logits_BHTT.shape[-2:], device=q_BTHK.device).tril().bool()
    return logits_BHTT.masked_fill(~mask_B11T, -torch.inf).softmax(-1)


def not_padding(tokens_BT: Tensor) -> Tensor:
    """Mask of bidirectional attention, (B, 1, 1, T): True where a key is not padding.

    A sequence of padding alone is seen whole, since a softmax over no keys is not a number.
    """
    real_BT = tokens_BT != PADDING
    return (real_BT | ~real_BT.any(-1, keepdim=True))[:, None, None]


def smeared(qkv_BT3HK: Tensor, smear_H: Tensor) -> Tensor:
    """Keys mixed with the ones before, sigmoid(smear) being their own share (Olsson et al. 2022).

    The first token keeps its key: it has none before it.
    """
    q_BTHK, k_BTHK, v_BTHK = qkv_BT3HK.unbind(2)
    before_BTHK = torch.cat((k_BTHK[:, :1], k_BTHK[:, :-1]), dim=1)
    own_H1 = torch.sigmoid(smear_H)[:, None].to(k_BTHK.dtype)
    mixed_BTHK = own_H1 * k_BTHK + (1 - own_H1) * before_BTHK
    return torch.stack((q_BTHK, mixed_BTHK, v_BTHK), dim=2)


def turned(x_BT2HK: Tensor, turns_T2HP2: Tensor) -> Tensor:
    """Features (B, T, 2, H, K), each pair rotated by the angle of its position (Su et al. 2021).

    These are several operations, which a compiler fuses into one.
    """
    cos_T2HP, sin_T2HP = turns_T2HP2.to(x_BT2HK.dtype).unbind(-1)
    a_BT2HP, b_BT2HP = x_BT2HK.view(*x_BT2HK.shape[:-1], -1, 2).unbind(-1)
    pairs = (a_BT2HP * cos_T2HP - b_BT2HP * sin_T2HP, a_BT2HP * sin_T2HP + b_BT2HP * cos_T2HP)
    return torch.stack(pairs, dim=-1).flatten(-2)


def _apart(qkv_BT3HK: Tensor, turns_2T2HP2: Tensor | None) -> tuple[Tensor, ...]:
    """Splits features into rotated queries, rotated keys and values, (B, T, H, K) each."""
    if turns_2T2HP2 is None:
        return qkv_BT3HK.unbind(2)
    if not is_exact_on_cpu(qkv_BT3HK):
        return *turned(qkv_BT3HK[:, :, :2], turns_2T2HP2[0]).unbind(2), qkv_BT3HK[:, :, 2]
    in_place: Tensor = _TurnedInPlace.apply(qkv_BT3HK, turns_2T2HP2)  # type: ignore[no-untyped-call]
    return in_place.unbind(2)


class _TurnedInPlace(torch.autograd.Function):
    """Rotation of queries and keys, in one pass forward and one backward; values pass through."""

    @staticmethod
    def forward(ctx: Any, qkv_BT3HK: Tensor, turns_2T2HP2: Tensor) -> Tensor:
        there_T2HP, ctx.back = as_complex(turns_2T2HP2, qkv_BT3HK.dtype)
        return turn_in_place(qkv_BT3HK.detach(), there_T2HP)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BT3HK: Tensor) -> tuple[Tensor, None]:
        # Nobody else has this gradient: taking queries, keys and values apart has just made it.
        return turn_in_place(grad_BT3HK, ctx.back), None


def as_complex(turns_2T2HP2: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Forward and backward rotations as complex numbers, (T, 2, H, P) each, for a feature type."""
    return torch.view_as_complex(turns_2T2HP2.to(dtype)).unbind(0)


def turn_in_place(qkv_BT3HK: Tensor, turns_T2HP: Tensor) -> Tensor:
    """The same tensor with its queries and keys rotated in place, as complex numbers."""
    qkv_BT3HK.view(turns_T2HP.dtype)[:, :, :2].mul_(turns_T2HP)
    return qkv_BT3HK


def is_exact_on_cpu(x: Tensor) -> bool:
    """True if a tensor is in full precision on a CPU and no compiler fuses its operations."""
    exact = x.dtype in (torch.float32, torch.float64)
    return exact and x.device.type == "cpu" and not torch.compiler.is_compiling()
