"""The step of Muon: momentum, made orthogonal (Jordan et al. 2024).

Shapes: W matrices of a size, M rows, N columns; R the smaller of both, S the larger.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from fathom.models.memory import MUON_AT_ONCE


class BatchedMuon(torch.optim.Muon):
    """PyTorch's Muon, but matrices of one size go through one product, in float32 on a CPU.

    PyTorch's own step takes one matrix after another, always in bfloat16: on a CPU without
    instructions for it that is 20 times slower. The learning rate of a group is the spectral norm
    of its step.
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Takes a step along the gradients."""
        for group in self.param_groups:
            for weights in _batches(group["params"]):
                self._move(group, weights)

    def _move(self, group: dict[str, Any], weights: list[Tensor]) -> None:
        momentum = group["momentum"]
        gradients: list[Any] = [weight.grad for weight in weights]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        buffers = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead_WMN = torch.stack(torch._foreach_lerp(gradients, buffers, momentum))
        steps = orthogonal(ahead_WMN, group["ns_coefficients"], group["ns_steps"], group["eps"])
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, steps.to(weights[0].dtype).unbind(), alpha=-group["lr"])


def orthogonal(
    x_WMN: Tensor, coefficients: tuple[float, float, float], iterations: int, eps: float
) -> Tensor:
    """A nearly orthogonal matrix for each of W matrices, (W, M, N), by Newton-Schulz iterations.

    `coefficients` are those of the quintic polynomial of each iteration; norms are at least `eps`.
    """
    a, b, c = coefficients
    tall = x_WMN.shape[1] > x_WMN.shape[2]
    x_WRS = (x_WMN.mT if tall else x_WMN).to(torch.bfloat16 if x_WMN.is_cuda else torch.float32)
    x_WRS = x_WRS / torch.linalg.matrix_norm(x_WRS, keepdim=True).clamp_(min=eps)
    for _ in range(iterations):
        gram_WRR = x_WRS @ x_WRS.mT
        gram_WRR = torch.baddbmm(gram_WRR, gram_WRR, gram_WRR, beta=b, alpha=c)
        x_WRS = torch.baddbmm(x_WRS, gram_WRR, x_WRS, beta=a)
    return x_WRS.mT if tall else x_WRS


def _batches(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Yields matrices of equal size, as many at once as `MUON_AT_ONCE` allows."""
    by_size = defaultdict(list)
    for weight in weights:
        by_size[weight.shape].append(weight)
    for same_size in by_size.values():
        most = max(1, MUON_AT_ONCE // same_size[0].numel())
        for first in range(0, len(same_size), most):
            yield same_size[first : first + most]
