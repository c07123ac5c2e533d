"""Groups of weights that auto-sizing deletes: neurons, heads, rows and branches of a model.

Shapes: G groups, N weights of a group, D d_model, F d_ff, S heads of keys, K head dimension.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fathom.models.group_penalty import GroupNorm, SizedPart
from fathom.models.network.blocks import Attention
from fathom.models.network.cross_attention import CrossAttention
from fathom.models.network.feed_forward import FeedForward

AnyAttention = Attention | CrossAttention


@dataclass(frozen=True, slots=True)
class GroupFamily:
    """Groups of one kind in one layer."""

    weights: tuple[tuple[nn.Parameter, Tensor], ...]
    """Each weight of which groups have parts, with a view of these parts, (G, ...)."""

    def reach(self, norm: GroupNorm, rates: Mapping[Tensor, float]) -> float:
        """Norm of the step that a group takes when its weights move by their values in `rates`: L2
        for `l21`, L1 for `linf1`. It decides whether the group becomes zero."""
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
    """The linear maps of a branch; the last one makes its output."""
    return [child for child in module.children() if isinstance(child, nn.Linear)]


def neurons(module: FeedForward, into_FD: Tensor) -> Tensor:
    """View (F, 1 or 2, D) of the weight or bias into a feed-forward: each neuron's row, or the rows
    of its gate and its value."""
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
