"""Experts in place of a feed-forward network: a router sends each token to a few of them.

Without biases a router's scores are probabilities. A token's experts have weights that sum to 1, as
in Mixtral; a single expert has its probability as weight (Fedus et al. 2022), as otherwise no
gradient would reach the router. With biases scores are sigmoids, as in DeepSeek-V3, and biases
change the choice alone.

Shapes: N tokens, D d_model, E experts, K experts of a token, C = N * K choices, F d_ff, W width of
an expert's first map.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.network.feed_forward import FeedForward, activation_of
from fathom.models.shape import Shape

BIAS_STEP = 1e-3
"""Amount that a step adds to the bias of an expert with less than the mean load (DeepSeek-V3)."""
ALIGNMENT = 16
"""Number of bytes that must divide each row of matrices in grouped products."""


class MixtureOfExperts(nn.Module):
    """Feed-forward branch of experts, (N, D) to (N, D).

    `into` and `out` have the weights of all experts, one below the other, and are never applied
    whole.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        assert shape.experts is not None
        self.top_k, self.balance = shape.experts.top_k, shape.experts.balance
        number, width = shape.experts.number, shape.d_ff * (2 if shape.gated else 1)
        self.activation = activation_of(shape)
        self.router = nn.Linear(shape.d_model, number, bias=False)
        self.into = nn.Linear(shape.d_model, number * width, bias=False)
        self.out = nn.Linear(shape.d_ff, number * shape.d_model, bias=False)
        self.bias: Tensor | None
        self.register_buffer("bias", torch.zeros(number) if shape.experts.has_bias else None)
        self.shared = None
        if shape.experts.shared:
            self.shared = FeedForward(replace(shape, d_ff=shape.experts.shared * shape.d_ff))
        self.pieces = 1
        """Number of micro-batches of a step; each of them does its part of the balancing."""

    def forward(self, x_ND: Tensor) -> Tensor:
        weights_NK, chosen_NK, load_E = self.routed(x_ND)
        order_C = chosen_NK.flatten().argsort(stable=True)
        # Repeated and then ordered, so that gradients add up in the same order on every device.
        x_CD = x_ND.repeat_interleave(self.top_k, 0)[order_C]
        hidden_CF = self.activation(products(x_CD, self.into.weight, load_E))
        y_CD = products(hidden_CF, self.out.weight, load_E)[order_C.argsort()]
        y_ND = (y_CD.view(*chosen_NK.shape, -1) * weights_NK[..., None]).sum(1).to(x_ND.dtype)
        return y_ND if self.shared is None else y_ND + self.shared(x_ND)

    def routed(self, x_ND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The weights (N, K) of each token's experts, their indices (N, K), and the load (E,): the
        number of choices that fall on each expert. In training it also balances the experts, once
        the gradient of the scores is there."""
        logits_NE = self.router(x_ND).float()
        scores_NE = logits_NE.softmax(-1) if self.bias is None else logits_NE.sigmoid()
        ranked_NE = scores_NE if self.bias is None else scores_NE + self.bias
        chosen_NK = ranked_NE.topk(self.top_k, dim=-1).indices
        expert_C = chosen_NK.flatten()  # counted without waiting for the device
        load_E = torch.zeros_like(ranked_NE[0], dtype=torch.long)
        load_E.scatter_add_(0, expert_C, torch.ones_like(expert_C))
        if self.training and scores_NE.requires_grad:
            self._balance(scores_NE, load_E.float())
        weights_NK = scores_NE.gather(1, chosen_NK)
        if self.top_k > 1 or self.bias is not None:
            weights_NK = weights_NK / weights_NK.sum(-1, keepdim=True)
        return weights_NK, chosen_NK, load_E

    def _balance(self, scores_NE: Tensor, load_E: Tensor) -> None:
        """Adds the gradient of the balance loss to that of the scores, or moves the biases. The
        loss is the number of experts times a sum over them: the choices per token that fall on an
        expert, times its mean score. Either is done in the backward pass, as a layer may be
        computed twice."""
        N, E = scores_NE.shape

        def add_loss(grad_NE: Tensor) -> Tensor:
            return grad_NE + float(self.balance) / self.pieces * E / N**2 * load_E

        def move_biases(_: Tensor) -> None:
            assert self.bias is not None
            self.bias.add_((load_E.mean() - load_E).sign(), alpha=BIAS_STEP / self.pieces)

        scores_NE.register_hook(add_loss if self.bias is None else move_biases)  # type: ignore[no-untyped-call]


def products(x_CI: Tensor, weight: Tensor, load_E: Tensor) -> Tensor:
    """Choices (C, I), ordered by their experts, times the expert's matrix, (C, O).

    `weight` (E * O, I) has the matrices of all experts; `load_E` is the number of choices of each.
    Where PyTorch has grouped products and the sizes suit them, one kernel computes all.
    """
    weight_EOI, device = weight.view(len(load_E), -1, x_CI.shape[1]), x_CI.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        x_CI, weight_EOI = x_CI.to(dtype), weight_EOI.to(dtype)
    if is_grouped(weight_EOI):
        ends_E = load_E.cumsum(0).to(torch.int32)
        return torch._grouped_mm(x_CI, weight_EOI.mT, offs=ends_E)
    parts = zip(x_CI.split(load_E.tolist()), weight_EOI, strict=True)  # type: ignore[no-untyped-call]
    return torch.cat([F.linear(part, matrix) for part, matrix in parts])


def is_grouped(weight_EOI: Tensor) -> bool:
    """True if PyTorch has grouped products for matrices of this size and kind on this device."""
    rows = [size * weight_EOI.element_size() for size in weight_EOI.shape[1:]]
    kind = not weight_EOI.is_cuda or weight_EOI.dtype is torch.bfloat16
    suits = kind and not any(row % ALIGNMENT for row in rows)
    return suits and hasattr(torch, "_grouped_mm") and len(weight_EOI) > 1
