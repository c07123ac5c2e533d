"""The loss of each token, in nats.

Shapes: B batch, T time, N = B * T, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.keys import logit_tokens


def over_rows(compute: Callable[[Model, Batch], Tensor], model: Model, batch: Batch) -> Tensor:
    """The tensor that `compute` returns for a model and a batch. Its first dimension has the same
    number of entries for each row of the batch, in their order.

    Where several processes evaluate the model, each computes some rows; `compute` is sent to them,
    so it must be a function of a module, or a `partial` of one. Errors end the evaluation: the
    other processes wait for this one.
    """
    spread = getattr(model, "over_rows", None)
    found: Tensor = compute(model, batch) if spread is None else spread(compute, batch)
    return found


def processes_of(model: Model) -> int:
    """Number of processes that evaluate a model together, as `over_rows` does."""
    spread = getattr(model, "over_rows", None)
    return 1 if spread is None else int(spread.processes)


def token_losses(model: Model, batch: Batch) -> Tensor:
    """Loss of each token in nats, (N,); in training with the label smoothing of the model."""
    return over_rows(_token_losses, model, batch)


def _token_losses(model: Model, batch: Batch) -> Tensor:
    logits_NV, targets_N = model(*batch.read).flatten(0, 1), batch.targets.flatten()
    smoothing = _smoothing(model)
    if smoothing or torch.compiler.is_compiling():
        return F.cross_entropy(
            logits_NV.float(), targets_N, reduction="none", label_smoothing=smoothing
        )
    losses_N: Tensor = _CrossEntropy.apply(logits_NV, targets_N)  # type: ignore[no-untyped-call]
    return losses_N


def mean_loss(model: Model, batch: Batch) -> Tensor:
    """Mean loss over all targets in nats, a scalar."""
    chunk, count = _chunk(model), batch.targets.numel()
    if chunk is None or count <= chunk:
        return token_losses(model, batch).mean()
    weights_N = torch.full((count,), 1 / count, device=batch.targets.device)
    return _chunked(model, batch, weights_N, chunk)


def masked_loss(model: Model, batch: Batch) -> Tensor:
    """Mean loss over the targets that are not `IGNORED`, in nats, a scalar."""
    asked_N = (batch.targets != IGNORED).flatten()
    chunk = _chunk(model)
    if chunk is not None and len(asked_N) > chunk:
        return _chunked(model, batch, asked_N / asked_N.sum().clamp(min=1), chunk)
    losses_N = token_losses(model, batch._replace(targets=batch.targets.clamp(min=0)))
    return (losses_N * asked_N).sum() / asked_N.sum().clamp(min=1)  # a micro-batch may have none


def _smoothing(model: Model) -> float:
    """Label smoothing of a model that trains; 0 for one that is evaluated."""
    inner: Any = getattr(model, "module", model)  # the model of this rank, if there are several
    return getattr(inner, "label_smoothing", 0.0) if getattr(inner, "training", False) else 0.0


def _chunk(model: Model) -> int | None:
    """Number of tokens whose logits may exist at once; None if the model returns only logits, which
    then all exist."""
    inner: Any = getattr(model, "module", model)
    computes = getattr(inner, "computes_loss", False)
    return logit_tokens(inner.shape.vocab_size) if computes else None


def _chunked(model: Any, batch: Batch, weights_N: Tensor, chunk: int) -> Tensor:
    """The sum of weighted losses, which the model computes in chunks of tokens."""
    terms = (batch.targets.flatten(), weights_N, chunk, _smoothing(model))
    loss: Tensor = model(*batch.read, terms)
    return loss


def answers(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of each target in nats, 0 if ignored; True if it is not ignored; True if the most
    likely token is right. All (B, T)."""
    losses_BT, asked_BT, right_BT = over_rows(_answers, model, batch).unbind(-1)
    return losses_BT, asked_BT.bool(), right_BT.bool()


def _answers(model: Model, batch: Batch) -> Tensor:
    """The three parts of `answers` as numbers, (B, T, 3)."""
    asked_BT = batch.targets != IGNORED
    targets_BT = batch.targets.clamp(min=0)
    logits_BTV = model(*batch.read)
    losses_BT = F.cross_entropy(
        logits_BTV.flatten(0, 1).float(), targets_BT.flatten(), reduction="none"
    ).view_as(targets_BT)
    right_BT = logits_BTV.argmax(-1) == targets_BT
    return torch.stack((losses_BT * asked_BT, asked_BT, right_BT & asked_BT), dim=-1)


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy whose gradient takes three passes over the vocabulary; PyTorch's takes five."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        # In float32 whatever the model computes in: shapes differ by thousandths of a nat.
        log_p_NV = F.log_softmax(logits_NV, dim=-1, dtype=torch.float32)
        ctx.save_for_backward(log_p_NV, targets_N[:, None])
        ctx.dtype = logits_NV.dtype
        return -log_p_NV.gather(1, targets_N[:, None])[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor, None]:
        log_p_NV, targets_N1 = ctx.saved_tensors
        p_NV = log_p_NV.exp_()
        p_NV.scatter_add_(1, targets_N1, p_NV.new_full(targets_N1.shape, -1.0))
        return p_NV.mul_(grad_N[:, None]).to(ctx.dtype), None
