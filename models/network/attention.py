"""Self-attention: rotary positions, causal or masked, and keys that are smeared.

Operation by operation, rotating queries and keys takes a tenth of a step on a CPU. Here a pair of
features is a complex number, and one product in place rotates all pairs, in the forward and the
backward pass.

Shapes: B batch, T time, U time of the keys, H heads, S heads of keys and as many of values,
J = H + S heads that positions rotate, G = H + 2 S, K head dimension, P = K / 2 pairs of features.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

PADDING = 0
"""Token id of padding, which bidirectional attention leaves out."""


def attend(
    qkv_BTGK: Tensor,
    S: int,
    turns_2TJP2: Tensor | None,
    scale: float,
    mask_B11T: Tensor | None = None,
) -> Tensor:
    """Outputs of attention, (B, T, H, K), of queries, keys and values; S counts heads of keys.

    Queries and keys are rotated first if `turns_2TJP2` are given, and `scale` multiplies their
    products. Without `mask_B11T` attention is causal; with it, every token sees the keys where it
    is True. The arguments may be overwritten.
    """
    return mixed(*rotated(qkv_BTGK, S, turns_2TJP2), scale, mask_B11T)


def mixed(
    q_BTHK: Tensor, k_BUSK: Tensor, v_BUSK: Tensor, scale: float, mask: Tensor | None
) -> Tensor:
    """Values mixed by the attention of queries to keys, (B, T, H, K).

    `scale` multiplies the products of queries and keys. Without `mask` attention is causal: there
    are as many queries as keys, or only the last query, which sees all keys.
    """
    y_BHTK = F.scaled_dot_product_attention(
        q_BTHK.transpose(1, 2),
        k_BUSK.transpose(1, 2),
        v_BUSK.transpose(1, 2),
        attn_mask=mask,
        is_causal=mask is None and q_BTHK.shape[1] > 1,
        scale=scale,
        enable_gqa=q_BTHK.shape[2] > k_BUSK.shape[2],
    )
    return y_BHTK.transpose(1, 2)


def pattern(
    qkv_BTGK: Tensor,
    S: int,
    turns_2TJP2: Tensor | None,
    scale: float,
    mask_B11T: Tensor | None = None,
) -> Tensor:
    """Attention weights (B, H, T, T) by which `attend` mixes values: a row for each query.

    The arguments are those of `attend`; `scale` multiplies the products of queries and keys.
    """
    q_BTHK, k_BTSK, _ = rotated(qkv_BTGK, S, turns_2TJP2)
    k_BTHK = of_each_query(k_BTSK, q_BTHK.shape[2])
    with full_precision(q_BTHK):
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


def apart(qkv_BTGK: Tensor, S: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (B, T, H, K), keys and values (B, T, S, K) as views; S counts heads of keys."""
    sizes = [qkv_BTGK.shape[2] - 2 * S, S, S]
    q_BTHK, k_BTSK, v_BTSK = qkv_BTGK.split_with_sizes(sizes, dim=2)
    return q_BTHK, k_BTSK, v_BTSK


def of_each_query(x_BTSK: Tensor, H: int) -> Tensor:
    """Keys or values repeated for each of the H heads of queries that share them, (B, T, H, K)."""
    return x_BTSK.repeat_interleave(H // x_BTSK.shape[2], dim=2)


def smeared(qkv_BTGK: Tensor, smear_S: Tensor, last_key_B1SK: Tensor | None = None) -> Tensor:
    """Queries, keys and values (B, T, G, K), each key mixed with that of the token before it.

    The share of a token's own key is sigmoid(`smear_S`) (Olsson et al. 2022). `last_key_B1SK` is
    the key of the token before the first; if it is None, the first token keeps its own key.
    """
    q_BTHK, k_BTSK, v_BTSK = apart(qkv_BTGK, len(smear_S))
    first_B1SK = k_BTSK[:, :1] if last_key_B1SK is None else last_key_B1SK
    before_BTSK = torch.cat((first_B1SK, k_BTSK[:, :-1]), dim=1)
    own_S1 = torch.sigmoid(smear_S)[:, None].to(k_BTSK.dtype)
    mixed_BTSK = own_S1 * k_BTSK + (1 - own_S1) * before_BTSK
    return torch.cat((q_BTHK, mixed_BTSK, v_BTSK), dim=2)


def turned(x_BTJK: Tensor, turns_TJP2: Tensor) -> Tensor:
    """Features (B, T, J, K), each pair rotated by the angle of its position (Su et al. 2021).

    These are several operations, which a compiler fuses into one.
    """
    cos_TJP, sin_TJP = turns_TJP2.to(x_BTJK.dtype).unbind(-1)
    a_BTJP, b_BTJP = x_BTJK.view(*x_BTJK.shape[:-1], -1, 2).unbind(-1)
    pairs = (a_BTJP * cos_TJP - b_BTJP * sin_TJP, a_BTJP * sin_TJP + b_BTJP * cos_TJP)
    return torch.stack(pairs, dim=-1).flatten(-2)


def rotated(qkv_BTGK: Tensor, S: int, turns_2TJP2: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries (B, T, H, K), rotated keys and values (B, T, S, K)."""
    if turns_2TJP2 is None:
        return apart(qkv_BTGK, S)
    if not is_exact_on_cpu(qkv_BTGK):
        H = qkv_BTGK.shape[2] - 2 * S
        qk_BTJK, v_BTSK = qkv_BTGK.split_with_sizes([H + S, S], dim=2)
        q_BTHK, k_BTSK = turned(qk_BTJK, turns_2TJP2[0]).split_with_sizes([H, S], dim=2)
        return q_BTHK, k_BTSK, v_BTSK
    in_place: Tensor = _TurnedInPlace.apply(qkv_BTGK, turns_2TJP2)  # type: ignore[no-untyped-call]
    return apart(in_place, S)


class _TurnedInPlace(torch.autograd.Function):
    """Rotation of queries and keys, in one pass forward and one backward; values pass through."""

    @staticmethod
    def forward(ctx: Any, qkv_BTGK: Tensor, turns_2TJP2: Tensor) -> Tensor:
        there_TJP, ctx.back = as_complex(turns_2TJP2, qkv_BTGK.dtype)
        return turn_in_place(qkv_BTGK.detach(), there_TJP)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BTGK: Tensor) -> tuple[Tensor, None]:
        # Nobody else has this gradient: taking queries, keys and values apart has just made it.
        return turn_in_place(grad_BTGK, ctx.back), None


def as_complex(turns_2TJP2: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Forward and backward rotations as complex numbers, (T, J, P) each, for a feature type."""
    return torch.view_as_complex(turns_2TJP2.to(dtype)).unbind(0)


def turn_in_place(qkv_BTGK: Tensor, turns_TJP: Tensor) -> Tensor:
    """Returns `qkv_BTGK` itself, (B, T, G, K), after rotating its queries and keys in place.

    `turns_TJP` are the rotations as complex numbers, (T, J, P).
    """
    qkv_BTGK.view(turns_TJP.dtype)[:, :, : turns_TJP.shape[1]].mul_(turns_TJP)
    return qkv_BTGK


def full_precision(x: Tensor) -> torch.autocast:
    """Context in which products have the precision of their factors, on the device of `x`, of any
    shape; without it autocast rounds float32 numbers too."""
    return torch.autocast(x.device.type, enabled=False)


def is_exact_on_cpu(x: Tensor) -> bool:
    """True if `x`, of any shape, is float32 or float64 on a CPU and is not being compiled."""
    exact = x.dtype in (torch.float32, torch.float64)
    return exact and x.device.type == "cpu" and not torch.compiler.is_compiling()
