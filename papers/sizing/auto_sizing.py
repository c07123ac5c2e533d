"""Auto-sizing: proximal steps that delete neurons, heads and branches while a model trains.

A proximal step follows each step of the optimizer (Murray et al. 2019, arXiv 1910.06717). It makes
whole groups of weights exactly zero. Every activation here is 0 at 0, so a neuron without input
weights and bias adds nothing, and neither does a head without values.

Shapes: G groups, N weights of a group.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fathom.models.group_penalty import GroupNorm, GroupPenalty, SizedPart
from fathom.models.network.transformer import Transformer
from fathom.models.optim import Optimizer
from fathom.papers.sizing.groups import families
from fathom.papers.sizing.left import counts_left


def shrunk(rows_GN: Tensor, amount: float) -> Tensor:
    """Groups (G, N) after a proximal step of the sum of their L2 norms: each norm is lower by
    `amount`, or 0.

    >>> shrunk(torch.tensor([[3.0, 4.0], [0.6, 0.8]]), 1.0).tolist()
    [[2.4000000953674316, 3.200000047683716], [0.0, 0.0]]
    """
    norms_G1 = torch.linalg.vector_norm(rows_GN, dim=1, keepdim=True)
    least = torch.finfo(norms_G1.dtype).tiny
    factors_G1: Tensor = (1 - amount / norms_G1.clamp(min=least)).clamp(min=0)
    return rows_GN * factors_G1


def clipped(rows_GN: Tensor, amount: float) -> Tensor:
    """Groups (G, N) after a proximal step of the sum of their largest magnitudes: in each group the
    magnitudes above a ceiling are cut to it, so that their sum falls by `amount`, or to 0.

    >>> clipped(torch.tensor([[5.0, -3.0, 1.0]]), 4.0).tolist()
    [[2.0, -2.0, 1.0]]
    """
    largest_GN = rows_GN.abs().sort(dim=1, descending=True).values
    counts_N = torch.arange(1, rows_GN.shape[1] + 1, device=rows_GN.device)
    # Cutting the n largest alone to one height would need this ceiling; the highest one is right.
    ceilings_GN = (largest_GN.cumsum(dim=1) - amount) / counts_N
    ceiling_G1 = ceilings_GN.amax(dim=1, keepdim=True).clamp(min=0)
    return torch.minimum(torch.maximum(rows_GN, -ceiling_G1), ceiling_G1)


PROXIMAL_STEPS: Mapping[GroupNorm, Callable[[Tensor, float], Tensor]] = {
    GroupNorm.L21: shrunk,
    GroupNorm.LINF1: clipped,
}


class AutoSizing:
    """The proximal steps of a training; its only state is in the weights."""

    def __init__(
        self, model: Transformer, optimizer: Optimizer, penalty: GroupPenalty, *, steps: int
    ) -> None:
        """`steps` is the number of steps of the whole training."""
        self._model = model
        scales: dict[Tensor, float] = {
            weight: group["lr_scale"]
            for group in optimizer.param_groups
            for weight in group["params"]
        }
        self._step, self._penalised = PROXIMAL_STEPS[penalty.norm], round(penalty.share * steps)
        # Groups inside others come first: their steps together are that of the nested penalty
        # (Jenatton et al. 2011).
        self._families = [
            (family, penalty.strength * family.reach(penalty.norm, scales))
            for part in SizedPart
            if part in penalty.parts
            for family in families(model, part)
        ]

    @torch.no_grad()
    def around(self, update: Callable[[], None], *, step: int, learning_rate: float) -> None:
        """Calls `update`, a step of the optimizer, then takes the proximal steps at
        `learning_rate`. After the share of steps that penalise, groups that were zero before
        `update` are set to zero again instead. `step` counts from 0."""
        if step < self._penalised:
            update()
            for family, amount in self._families:
                family.apply(self._step, learning_rate * amount)
            return
        gone = [family.zero() for family, _ in self._families]
        update()
        for (family, _), groups_G in zip(self._families, gone, strict=True):
            family.clear(groups_G)

    def counts(self) -> dict[str, float]:
        """Metrics of what is left of the model; see `left.py`."""
        return counts_left(self._model)
