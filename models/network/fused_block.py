"""A pre-norm block as one node of autograd, for training small models on a CPU.

Around the operations of such a step, modules and autograd take a fifth of its time. The operations
here, and their order, are those of `Block` and its parts without options, so the numbers are the
same. The block is written in one piece, to save the work between operations.

Shapes: B batch, T time, N = B * T, D d_model, H heads, K head dimension, A = H * K, F d_ff.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fathom.models.network.attention import turn_in_place

_attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_attend_back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_norm_back = torch.ops.aten.native_layer_norm_backward.default
_gelu_back = torch.ops.aten.gelu_backward.default

Settings = tuple[int, int, float, float, bool, bool]
"""Settings of a block: number of tokens, number of heads, scale of attention, epsilon of the norms,
True for layer norms (else RMS norms), True for squared ReLU (else GELU)."""
Turns = tuple[Tensor, ...] | None
"""Forward and backward rotations from `as_complex`; None without rotary positions."""
GRADIENTS = (True, True, False)
"""Output mask of a norm's backward pass: gradients of input and gain, none of a bias."""


def fused_block(settings: Settings, turns: Turns, x_ND: Tensor, *weights: Tensor) -> Tensor:
    """Output (N, D) of a pre-norm block for a residual stream (N, D).

    `weights` are the gain of the norm and both matrices of each branch.
    """
    out_ND: Tensor = _FusedBlock.apply(settings, turns, x_ND, *weights)  # type: ignore[no-untyped-call]
    return out_ND


def _layer_norm(x_ND: Tensor, gain_D: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The normed stream, and the mean and inverse deviation of each token, (N, 1)."""
    return torch.native_layer_norm(x_ND, gain_D.shape, gain_D, None, eps)


def _layer_norm_back(
    d_ND: Tensor, x_ND: Tensor, mean_N1: Tensor, rstd_N1: Tensor, gain_D: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the stream and of the gain."""
    d_x_ND, d_gain_D, _ = _norm_back(
        d_ND, x_ND, gain_D.shape, mean_N1, rstd_N1, gain_D, None, GRADIENTS
    )
    return d_x_ND, d_gain_D


def _rms_norm(x_ND: Tensor, gain_D: Tensor, eps: float) -> tuple[Tensor, Tensor | None, Tensor]:
    """The normed stream, no mean, and the inverse root mean square of each token, (N, 1)."""
    length_N1 = torch.linalg.vector_norm(x_ND, dim=1, keepdim=True)
    rstd_N1 = length_N1.square_().div_(x_ND.shape[1]).add_(eps).rsqrt_()
    return (x_ND * rstd_N1).mul_(gain_D), None, rstd_N1


def _rms_norm_back(
    d_ND: Tensor, x_ND: Tensor, mean_N1: None, rstd_N1: Tensor, gain_D: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the stream and of the gain."""
    scaled_ND = x_ND * rstd_N1
    d_gain_ND = d_ND * scaled_ND
    along_N1 = torch.mv(d_gain_ND, gain_D).div_(x_ND.shape[1]).unsqueeze(1)
    d_x_ND = (d_ND * gain_D).addcmul_(scaled_ND, along_N1, value=-1).mul_(rstd_N1)
    return d_x_ND, d_gain_ND.sum(0)


class _FusedBlock(torch.autograd.Function):
    """Fused block with its own backward pass; names end in 1 for attention, 2 for feed-forward.

    `x` is the stream that a branch adds to.
    """

    @staticmethod
    def forward(
        ctx: Any, settings: Settings, turns: Turns, x1: Tensor,
        gain1: Tensor, into1: Tensor, out1: Tensor, gain2: Tensor, into2: Tensor, out2: Tensor,
    ) -> Tensor:  # fmt: skip
        T, H, scale, eps, centres, squares = settings
        A, norm = out1.shape[1], _layer_norm if centres else _rms_norm
        normed1, mean1, rstd1 = norm(x1, gain1, eps)
        qkv_BT3HK = F.linear(normed1, into1).view(-1, T, 3, H, A // H)
        if turns is not None:
            turn_in_place(qkv_BT3HK.view(-1, T, 3 * H, A // H), turns[0])
        q, k, v = qkv_BT3HK.transpose(1, 3).unbind(2)
        y_BHTK, lse_BHT = _attend(q, k, v, 0.0, True, scale=scale)
        y_NA = y_BHTK.transpose(1, 2).reshape(-1, A)
        x2 = F.linear(y_NA, out1).add_(x1)
        normed2, mean2, rstd2 = norm(x2, gain2, eps)
        before_NF = F.linear(normed2, into2)
        hidden_NF = F.relu(before_NF).square_() if squares else F.gelu(before_NF)
        ctx.save_for_backward(
            x1, gain1, into1, out1, normed1, mean1, rstd1, q, k, v, y_BHTK, lse_BHT, y_NA,
            x2, gain2, into2, out2, normed2, mean2, rstd2, before_NF, hidden_NF,
        )  # fmt: skip
        ctx.scale, ctx.turns, ctx.centres, ctx.squares = scale, turns, centres, squares
        return F.linear(hidden_NF, out2).add_(x2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (
            x1, gain1, into1, out1, normed1, mean1, rstd1, q, k, v, y_BHTK, lse_BHT, y_NA,
            x2, gain2, into2, out2, normed2, mean2, rstd2, before_NF, hidden_NF,
        ) = ctx.saved_tensors  # fmt: skip
        B, H, T, K = q.shape
        mm, norm_back = torch.mm, _layer_norm_back if ctx.centres else _rms_norm_back
        d_out2 = mm(grad.t(), hidden_NF)
        d_NF = mm(grad, out2)
        d_NF = d_NF.mul_(F.relu(before_NF).mul_(2)) if ctx.squares else _gelu_back(d_NF, before_NF)
        d_into2 = mm(d_NF.t(), normed2)
        d_x2, d_gain2 = norm_back(mm(d_NF, into2), x2, mean2, rstd2, gain2)
        d_x2.add_(grad)
        d_out1 = mm(d_x2.t(), y_NA)
        d_y = mm(d_x2, out1).view(B, T, H, K).transpose(1, 2)
        dq, dk, dv = _attend_back(d_y, q, k, v, y_BHTK, lse_BHT, 0.0, True, scale=ctx.scale)
        d_qkv = torch.cat((dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)), 2)
        if ctx.turns is not None:
            turn_in_place(d_qkv.view(B, T, 3 * H, K), ctx.turns[1])
        d_qkv = d_qkv.view(B * T, -1)
        d_into1 = mm(d_qkv.t(), normed1)
        d_x1, d_gain1 = norm_back(mm(d_qkv, into1), x1, mean1, rstd1, gain1)
        return None, None, d_x1.add_(d_x2), d_gain1, d_into1, d_out1, d_gain2, d_into2, d_out2
