"""Auto-sizing: proximal steps that delete neurons, heads and branches while a model trains.

A proximal step follows each step of the optimizer (Murray et al. 2019, arXiv 1910.06717). It makes
whole groups of weights exactly zero. Every activation here is 0 at 0, so a neuron without input
weights and bias adds nothing, and neither does a head without values.

Shapes: G groups, N weights of a group, D d_model, F d_ff, S heads of keys, K head dimension.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fathom.models.network.blocks import Attention
from fathom.models.network.cross_attention import CrossAttention
from fathom.models.network.feed_forward import FeedForward
from fathom.models.optim import Optimizer
from fathom.models.sizing.group_penalty import GroupNorm, GroupPenalty, SizedPart

AnyAttention = Attention | CrossAttention


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
    magnitudes above a ceiling are cut to it, which takes `amount` off their sum, or all of it.

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


@dataclass(frozen=True, slots=True)
class GroupFamily:
    """Groups of one kind in one layer."""

    weights: tuple[tuple[nn.Parameter, Tensor], ...]
    """Each weight that groups have a part of, with a view of these parts, (G, ...)."""

    def reach(self, norm: GroupNorm, rates: Mapping[Tensor, float]) -> float:
        """Norm of the step of a group whose weights move by their values in `rates`; whether the
        group becomes zero depends on it. L2 for `l21`, L1 for `linf1`."""
        moves = [(rates[weight], view[0].numel()) for weight, view in self.weights]
        if norm is GroupNorm.L21:
            return math.sqrt(sum(rate**2 * count for rate, count in moves))
        return sum(rate * count for rate, count in moves)

    def zero(self) -> Tensor:
        """True for each group (G,) whose weights are all zero."""
        return ~torch.stack([view.flatten(1).any(1) for _, view in self.weights]).any(0)

    def clear(self, groups_G: Tensor) -> None:
        """Sets the groups to zero, in place, where `groups_G` is True."""
        for _, view in self.weights:
            view.masked_fill_(groups_G.view(-1, *[1] * (view.dim() - 1)), 0.0)

    def apply(self, step: Callable[[Tensor, float], Tensor], amount: float) -> None:
        """Takes the proximal step `step` of size `amount` on all groups, in place."""
        views = [view for _, view in self.weights]
        parts = [view.flatten(1) for view in views]
        sizes = [part.shape[1] for part in parts]
        after = step(torch.cat(parts, dim=1), amount).split_with_sizes(sizes, dim=1)
        for view, part in zip(views, after, strict=True):
            view.copy_(part.view(view.shape))


class AutoSizing:
    """The proximal steps of a training; its only state is in the weights."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, penalty: GroupPenalty, *, steps: int
    ) -> None:
        """`steps` is the number of steps of the whole training."""
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


def families(model: nn.Module, part: SizedPart) -> Iterator[GroupFamily]:
    """Yields the groups of the kind `part` of every attention and feed-forward in a model."""
    for module in model.modules():
        if not isinstance(module, Attention | CrossAttention | FeedForward):
            continue
        if part is SizedPart.BRANCHES:
            weights = [weight for linear in linears(module) for weight in linear.parameters()]
            yield GroupFamily(tuple((weight, weight.detach()[None]) for weight in weights))
        elif isinstance(module, FeedForward):
            if part is SizedPart.NEURONS:
                into = module.into.parameters()
                yield GroupFamily(tuple((w, neurons(module, w.detach())) for w in into))
        elif part is SizedPart.HEADS:
            views = [(weight, view) for weight, parts in heads(module) for view in parts]
            yield GroupFamily(tuple(views))
        elif part is SizedPart.ATTENTION_ROWS:
            for linear in linears(module)[:-1]:
                rows = [(w, w.detach().view(len(w), -1)) for w in linear.parameters()]
                yield GroupFamily(tuple(rows))


def linears(module: AnyAttention | FeedForward) -> list[nn.Linear]:
    """The linear maps of a branch; the last one is its output's."""
    return [child for child in module.children() if isinstance(child, nn.Linear)]


def neurons(module: FeedForward, into_FD: Tensor) -> Tensor:
    """View (F, 1 or 2, D) of the weight or bias into a feed-forward branch: each neuron's row, or
    the rows of its gate and its value."""
    gates = 2 if module.gated else 1
    return into_FD.view(gates, len(into_FD) // gates, -1).transpose(0, 1)


def heads(module: AnyAttention) -> list[tuple[nn.Parameter, tuple[Tensor, ...]]]:
    """The weights and biases into attention, each with views (S, ...) of the part that belongs to
    each head of keys: queries, keys, values, or some of these; values come last."""
    S, d_kv = module.kv_heads, module.kv_heads * module.head_dim
    queries = module.n_heads * module.head_dim
    if isinstance(module, Attention):
        maps = [(module.into, [queries, d_kv, d_kv])]
    else:
        maps = [(module.query, [queries]), (module.key_value, [d_kv, d_kv])]
    return [
        (weight, tuple(part.view(S, -1) for part in weight.detach().split_with_sizes(rows)))
        for linear, rows in maps
        for weight in linear.parameters()
    ]
