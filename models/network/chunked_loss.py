"""The loss of a large vocabulary in chunks of tokens, whose logits never exist all at once.

The gradients of a chunk are computed with its loss, so no product is computed twice.

Shapes: N tokens, D width of the head, V vocabulary, C tokens of a chunk.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


class LossTerms(NamedTuple):
    """What a loss is besides the model's output."""

    targets_N: Tensor
    """The next token of each; negative for a token without weight."""
    weights_N: Tensor
    """Weight of each token's loss in the sum."""
    chunk: int
    """Number of tokens whose logits exist at once."""
    smoothing: float = 0.0
    """Share of each target that is spread over the whole vocabulary."""


def chunked_loss(
    x_ND: Tensor, head_VD: Tensor, targets_N: Tensor, weights_N: Tensor, chunk: int,
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Sum of the losses of all tokens in nats, each times its weight: a scalar.

    `chunk` tokens have their logits at once; `smoothing` is the share of each target that is spread
    over the vocabulary.
    """
    device, dtype = x_ND.device.type, x_ND.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    targets_N = targets_N.clamp(min=0)
    settings = (dtype, chunk, torch.is_grad_enabled(), smoothing)
    with torch.autocast(device, enabled=False):
        loss: Tensor = _ChunkedLoss.apply(x_ND, head_VD, targets_N, weights_N, settings)  # type: ignore[no-untyped-call]
    return loss


def _of_chunk(
    x_CD: Tensor, head_VD: Tensor, targets_C: Tensor, weights_C: Tensor, differentiates: bool,
    smoothing: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Loss of a chunk, and the gradients of the head's input and weights if they are asked for.

    A function of its own, so that its logits are freed before those of the next chunk.
    """
    targets_C1, weights_C1 = targets_C[:, None], weights_C[:, None]
    # In float32 whatever the model computes in: shapes differ by thousandths of a nat.
    log_p_CV = F.log_softmax(F.linear(x_CD, head_VD), dim=-1, dtype=torch.float32)
    log_p_C1 = log_p_CV.gather(1, targets_C1)
    if smoothing:
        log_p_C1 = (1 - smoothing) * log_p_C1 + smoothing * log_p_CV.mean(1, keepdim=True)
    loss = -(log_p_C1 * weights_C1).sum()
    if not differentiates:
        return loss, x_CD, head_VD
    p_CV = log_p_CV.exp_()
    p_CV.scatter_add_(1, targets_C1, p_CV.new_full(targets_C1.shape, smoothing - 1.0))
    if smoothing:
        p_CV -= smoothing / p_CV.shape[1]
    d_CV = p_CV.mul_(weights_C1).to(x_CD.dtype)
    return loss, d_CV @ head_VD, d_CV.t() @ x_CD


class _ChunkedLoss(torch.autograd.Function):
    """The loss, and in its forward pass both gradients, which backward only scales."""

    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, head_VD: Tensor, targets_N: Tensor, weights_N: Tensor,
        settings: tuple[torch.dtype, int, bool, float],
    ) -> Tensor:  # fmt: skip
        dtype, chunk, differentiates, smoothing = settings
        loss = torch.zeros((), device=x_ND.device)
        d_x_ND = torch.empty_like(x_ND) if differentiates else None
        d_head_VD = torch.zeros_like(head_VD) if differentiates else None
        head_VD = head_VD.to(dtype)
        for at in range(0, len(x_ND), chunk):
            x_CD = x_ND[at : at + chunk].to(dtype)
            loss_of_chunk, d_x_CD, d_head_of_chunk_VD = _of_chunk(
                x_CD,
                head_VD,
                targets_N[at : at + chunk],
                weights_N[at : at + chunk],
                differentiates,
                smoothing,
            )
            loss += loss_of_chunk
            if d_x_ND is not None and d_head_VD is not None:
                d_x_ND[at : at + chunk] = d_x_CD
                d_head_VD += d_head_of_chunk_VD
        ctx.save_for_backward(d_x_ND, d_head_VD)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_x_ND, d_head_VD = ctx.saved_tensors
        return d_x_ND.mul_(grad), d_head_VD.mul_(grad), None, None, None
