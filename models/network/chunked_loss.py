"""The loss of a large vocabulary in chunks of tokens, whose logits never exist all at once.

The gradients of a chunk are computed with its loss, so no product is computed twice.

Shapes: N tokens, D width of the head, V vocabulary, W rows of the head with those that are added,
C tokens of a chunk.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = {"cuda": 64}
"""Number, by kind of device, to a multiple of which the head's rows are padded in products: the
tensor cores of a GPU would not read 50,257 rows fast. The gain has not been measured."""
FEWEST_ROWS = 1024
"""Smallest vocabulary whose head is padded: in smaller ones the added rows would be more than a few
per cent."""


LossOfChunk = Callable[
    [Tensor, Tensor, int, Tensor, Tensor, bool, float], tuple[Tensor, Tensor, Tensor]
]
"""Type of `loss_of_chunk`, compiled or not."""


LossTerms = tuple[Tensor, Tensor, int, float]
"""The arguments of a loss besides the model's output: the target of each token (N), negative if it
has no weight; the weight of each token in the sum (N); the number of tokens whose logits exist at
once; and the share of each target that is spread over the whole vocabulary."""


def chunked_loss(
    x_ND: Tensor, head_VD: Tensor, targets_N: Tensor, weights_N: Tensor, chunk: int,
    smoothing: float = 0.0, of_chunk: LossOfChunk | None = None,
) -> Tensor:  # fmt: skip
    """Sum of the losses of all tokens in nats, each times its weight: a scalar.

    `chunk` tokens have their logits at once; `smoothing` is the share of each target that is spread
    over the vocabulary; `of_chunk` is the compiled `loss_of_chunk`, if there is one.
    """
    device, dtype = x_ND.device.type, x_ND.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    targets_N = targets_N.clamp(min=0)
    settings = (dtype, chunk, torch.is_grad_enabled(), smoothing, of_chunk or loss_of_chunk)
    with torch.autocast(device, enabled=False):
        loss: Tensor = _ChunkedLoss.apply(x_ND, head_VD, targets_N, weights_N, settings)  # type: ignore[no-untyped-call]
    return loss


def rows_in_products(vocab_size: int, device_type: str) -> int:
    """Number of rows of a head in its products; the rows beyond the vocabulary are zeros."""
    multiple = ROWS.get(device_type, 1) if vocab_size >= FEWEST_ROWS else 1
    return -(-vocab_size // multiple) * multiple


def _with_rows(head_VD: Tensor, W: int, dtype: torch.dtype) -> Tensor:
    """A head (W, D) as numbers of the type `dtype`, with rows of zeros after its own rows."""
    if len(head_VD) == W:
        return head_VD.to(dtype)
    head_WD = head_VD.new_zeros((W, head_VD.shape[1]), dtype=dtype)
    head_WD[: len(head_VD)] = head_VD
    return head_WD


def _logits(x_CD: Tensor, head_WD: Tensor, V: int) -> Tensor:
    """Logits of a chunk, always in float32, since shapes differ by thousandths of a nat. Logits of
    rows that are no tokens are minus infinity."""
    logits_CW = F.linear(x_CD, head_WD)
    logits_CW[:, V:] = -torch.inf
    return logits_CW.float()


def loss_of_chunk(
    x_CD: Tensor, head_WD: Tensor, V: int, targets_C: Tensor, weights_C: Tensor,
    differentiates: bool, smoothing: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Loss of a chunk, and, if `differentiates`, the gradients of the head's input and weights; V
    is the number of the head's rows that are tokens.

    A function of its own, so that its logits are freed before those of the next chunk.
    """
    targets_C1, weights_C1 = targets_C[:, None], weights_C[:, None]
    log_p_CW = F.log_softmax(_logits(x_CD, head_WD, V), dim=-1)
    log_p_C1 = log_p_CW.gather(1, targets_C1)
    if smoothing:
        mean_C1 = log_p_CW[:, :V].mean(1, keepdim=True)
        log_p_C1 = (1 - smoothing) * log_p_C1 + smoothing * mean_C1
    loss = -(log_p_C1 * weights_C1).sum()
    if not differentiates:
        return loss, x_CD, head_WD
    gradient = _compiled_gradient if torch.compiler.is_compiling() else _gradient
    d_CW = gradient(log_p_CW, targets_C1, weights_C1, V, smoothing, x_CD.dtype)
    return loss, d_CW @ head_WD, d_CW.t() @ x_CD


def _gradient(
    log_p_CW: Tensor, targets_C1: Tensor, weights_C1: Tensor, V: int, smoothing: float,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Gradient of the logits of a chunk, computed in the memory of `log_p_CW` if that has the type
    `dtype`."""
    p_CW = log_p_CW.exp_()
    p_CW.scatter_add_(1, targets_C1, p_CW.new_full(targets_C1.shape, smoothing - 1.0))
    if smoothing:
        p_CW[:, :V] -= smoothing / V
    d_CW = p_CW if p_CW.dtype == dtype else torch.empty_like(p_CW, dtype=dtype)
    return torch.mul(p_CW, weights_C1, out=d_CW)


def _compiled_gradient(
    log_p_CW: Tensor, targets_C1: Tensor, weights_C1: Tensor, V: int, smoothing: float,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Gradient of the logits of a chunk, equal to that of `_gradient` but without indexed writes,
    so that a compiler makes one pass of it."""
    rows_W = torch.arange(log_p_CW.shape[1], device=log_p_CW.device)
    d_CW = log_p_CW.exp() - (1.0 - smoothing) * (rows_W == targets_C1)
    if smoothing:
        d_CW = d_CW - smoothing / V * (rows_W < V)
    return (d_CW * weights_C1).to(dtype)


class _ChunkedLoss(torch.autograd.Function):
    """The loss as a function of autograd; its forward pass also computes both gradients, which the
    backward pass only scales."""

    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, head_VD: Tensor, targets_N: Tensor, weights_N: Tensor,
        settings: tuple[torch.dtype, int, bool, float, LossOfChunk],
    ) -> Tensor:  # fmt: skip
        dtype, chunk, differentiates, smoothing, of_chunk = settings
        V, loss = len(head_VD), torch.zeros((), device=x_ND.device)
        head_WD = _with_rows(head_VD, rows_in_products(V, x_ND.device.type), dtype)
        d_x_ND = torch.empty_like(x_ND) if differentiates else None
        d_head_WD = head_VD.new_zeros(head_WD.shape) if differentiates else None
        for at in range(0, len(x_ND), chunk):
            rows = slice(at, at + chunk)
            terms = (targets_N[rows], weights_N[rows], differentiates, smoothing)
            part, d_x_CD, d_head_of_chunk_WD = of_chunk(x_ND[rows].to(dtype), head_WD, V, *terms)
            loss += part
            if d_x_ND is not None and d_head_WD is not None:
                d_x_ND[rows] = d_x_CD
                d_head_WD += d_head_of_chunk_WD
            del d_x_CD, d_head_of_chunk_WD  # before those of the next chunk
        ctx.save_for_backward(d_x_ND, None if d_head_WD is None else d_head_WD[:V])
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_x_ND, d_head_VD = ctx.saved_tensors
        return d_x_ND.mul_(grad), d_head_VD.mul_(grad), None, None, None
