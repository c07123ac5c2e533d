"""A model after auto-sizing: sizes by layer, and a smaller model with the same outputs.

Shapes: N tokens, D d_model, F d_ff, H heads, S heads of keys, K head dimension; a small f or s
counts those that are left.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from fathom.models.network.blocks import Block
from fathom.models.network.cross_attention import CrossAttention
from fathom.models.network.encoder_decoder import DecoderBlock, EncoderDecoder
from fathom.models.network.feed_forward import FeedForward
from fathom.models.network.transformer import Transformer
from fathom.models.parametrization import ForwardScales, Parametrization
from fathom.models.shape import Shape
from fathom.models.sizing.auto_sizing import AnyAttention, heads, neurons
from fathom.models.sizing.layer_sizes import LayerSizes, holding, layers_kept, params_left

BY_LAYER = "by_layer/"
"""Prefix of metrics of one layer each."""


def sizes_left(model: Transformer) -> list[LayerSizes]:
    """Sizes of each layer with weights of its own, without what adds nothing; an encoder's layers
    come first."""
    per_key = model.shape.queries_per_key
    return [
        LayerSizes(
            n_heads=per_key * len(heads_left(block.attention)),
            d_ff=len(neurons_left(block.feed_forward))
            if isinstance(block.feed_forward, FeedForward)
            else 0,
            cross_heads=per_key * len(heads_left(block.cross_attention))
            if isinstance(block, DecoderBlock)
            else 0,
        )
        for _, block in model.named_blocks()
    ]


def counts_left(model: Transformer) -> dict[str, float]:
    """Metric -> number of parameters, layers, branches, heads and neurons that are left; heads and
    neurons of each layer as well."""
    sizes = sizes_left(model)
    counts = {
        "parameters_left": params_left(model.shape, sizes),
        "layers_left": sum(layer.branches > 0 for layer in sizes),
        "branches_left": sum(layer.branches for layer in sizes),
        "heads_left": sum(layer.n_heads + layer.cross_heads for layer in sizes),
        "neurons_left": sum(layer.d_ff for layer in sizes),
    }
    digits = len(str(len(sizes)))
    for number, layer in enumerate(sizes, start=1):
        counts[f"{BY_LAYER}heads_left_{number:0{digits}}"] = layer.n_heads + layer.cross_heads
        counts[f"{BY_LAYER}neurons_left_{number:0{digits}}"] = layer.d_ff
    return {name: float(count) for name, count in counts.items()}


@torch.no_grad()
def neurons_left(module: FeedForward) -> Tensor:
    """Indices, (f,), of the neurons that add to the stream; one index if only a bias adds to it."""
    is_read = module.out.weight.any(0)
    is_fed = [neurons(module, weight).any(-1) for weight in module.into.parameters()]
    return _indices(torch.stack(is_fed).any(0).all(-1) & is_read, module.out.bias)


@torch.no_grad()
def heads_left(module: AnyAttention) -> Tensor:
    """Indices, (s,), of the heads of keys that add to the stream; one index if only a bias adds to
    it."""
    is_read = _by_head(module).any(-1).any(0)
    values = [views[-1] for _, views in heads(module) if len(views) > 1]
    has_values = torch.stack([view.any(-1) for view in values]).any(0)
    return _indices(has_values & is_read, module.out.bias)


def _by_head(module: AnyAttention) -> Tensor:
    """The weight that leads out of attention, (D, S, features of a head of keys)."""
    return module.out.weight.view(len(module.out.weight), module.kv_heads, -1)


def _indices(alive: Tensor, bias_D: Tensor | None) -> Tensor:
    indices = alive.nonzero().flatten()
    if not len(indices) and bias_D is not None and bias_D.any():
        return indices.new_zeros(1)
    return indices


class Absent(nn.Module):
    """A branch that was removed: its output is a scalar 0, which broadcasts."""

    def forward(self, x_ND: Tensor, *_others: Any) -> Tensor:
        return x_ND.new_zeros(())

    cached = forward


class CompactBlock(Block):
    """A block with the sizes of one layer, (N, D) to (N, D), without the branches of size 0."""

    def __init__(self, shape: Shape, scales: ForwardScales, sizes: LayerSizes) -> None:
        n_heads = sizes.n_heads or shape.queries_per_key
        compact_shape = replace(shape, n_heads=n_heads, d_ff=sizes.d_ff or min(1, shape.d_ff))
        super().__init__(compact_shape, scales)
        self.is_plain, self.rotated_heads = False, n_heads + n_heads // shape.queries_per_key
        gone = {"attention": not sizes.n_heads, "feed_forward": bool(shape.d_ff) and not sizes.d_ff}
        for branch in (name for name, is_gone in gone.items() if is_gone):
            self.remove(branch)

    def remove(self, branch: str) -> None:
        """Removes a branch and, in pre-norm blocks, the norm of its input."""
        norm = branch.removesuffix("_attention") + "_norm"
        self.add_module(branch, Absent())
        if not self.post_norm:
            self.add_module(norm, nn.Identity())

    def forward(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask_B11T: Tensor | None,
        *others: Any,
    ) -> Tensor:  # fmt: skip
        if turns_2TJP2 is not None:  # the same for every head
            turns_2TJP2 = turns_2TJP2[:, :, : self.rotated_heads]
        return super().forward(x_ND, T, turns_2TJP2, mask_B11T, *others)


class CompactDecoderBlock(CompactBlock, DecoderBlock):
    """A decoder's block with the sizes of one layer, without the branches of size 0."""

    def __init__(self, shape: Shape, scales: ForwardScales, sizes: LayerSizes) -> None:
        super().__init__(shape, scales, sizes)
        n_heads = sizes.cross_heads or shape.queries_per_key
        self.cross_attention = CrossAttention(replace(shape, n_heads=n_heads), scales.attention)
        if not sizes.cross_heads:
            self.remove("cross_attention")


def compact_model(
    shape: Shape, parametrization: Parametrization, sizes: Sequence[LayerSizes]
) -> Transformer:
    """A model of `shape` whose layers have `sizes` instead; its weights are not initialised."""
    alone = replace(shape, encoder_depth=0, source_vocab_size=0)
    if not shape.encoder_depth:
        small = Transformer(shape, parametrization)
        small.blocks = nn.ModuleList(CompactBlock(alone, small.scales, layer) for layer in sizes)
        return small
    both = EncoderDecoder(shape, parametrization)
    first, scales, depth = both.encoder, both.scales, shape.encoder_depth
    first.blocks = nn.ModuleList(CompactBlock(alone, first.scales, it) for it in sizes[:depth])
    both.blocks = nn.ModuleList(CompactDecoderBlock(alone, scales, it) for it in sizes[depth:])
    return both


@torch.no_grad()
def compacted(model: Transformer) -> Transformer:
    """A smaller model with the same outputs as `model`, without its neurons, heads and branches
    that are zero."""
    weight = model.embedding.weight
    with weight.device:
        small = compact_model(model.shape, model.parametrization, sizes_left(model))
    small.to(weight.dtype)
    state = model.state_dict()
    for name, block in model.named_blocks():
        for place, branch in block.named_children():
            if isinstance(branch, AnyAttention):
                parts = _left_of_attention(branch)
            elif isinstance(branch, FeedForward):
                parts = _left_of_feed_forward(branch)
            else:
                continue
            state |= {f"{name}.{place}.{inner}": part for inner, part in parts.items()}
    small.load_state_dict({name: state[name] for name in small.state_dict()})
    small.reset_tables()
    return small.train(model.training)


def _left_of_attention(module: AnyAttention) -> dict[str, Tensor]:
    """The weights of an attention that differ in the compact model, by their names in it."""
    left_s, names = heads_left(module), {weight: name for name, weight in module.named_parameters()}
    kept = {
        names[weight]: torch.cat([view[left_s].flatten() for view in views])
        .view(-1, *weight.shape[1:])
        for weight, views in heads(module)
    }  # fmt: skip
    kept["out.weight"] = _by_head(module)[:, left_s].flatten(1)
    if "smear" in names.values():
        kept["smear"] = dict(module.named_parameters())["smear"][left_s]
    return kept


def _left_of_feed_forward(module: FeedForward) -> dict[str, Tensor]:
    """The weights of a feed-forward that differ in the compact model, by their names in it."""
    left_f = neurons_left(module)
    kept = {
        f"into.{name}": neurons(module, w)[left_f].transpose(0, 1).reshape(-1, *w.shape[1:])
        for name, w in module.into.named_parameters()
    }
    return kept | {"out.weight": module.out.weight[:, left_f]}


@torch.no_grad()
def padded(small: Transformer, sizes: Sequence[LayerSizes]) -> Transformer:
    """A model of one stack and equal layers with the outputs of the compact model `small`, whose
    layers have `sizes`; zeros fill the layers up."""
    kept = layers_kept(small.shape, sizes)
    model = Transformer(holding(small.shape, sizes), small.parametrization)
    ratio = small.scales.residual / model.scales.residual  # it follows the depth
    state = small.state_dict()
    outside = {name: weight for name, weight in state.items() if not name.startswith("blocks.")}
    model.load_state_dict(outside, strict=False)
    sources = [block for _, block in small.named_blocks()]
    for (_, target), index in zip(model.named_blocks(), kept, strict=True):
        _pad(target, sources[index], ratio)
    return model.to(small.embedding.weight.dtype)


def _pad(target: Block, source: Block, ratio: float) -> None:
    """Copies the weights of a smaller block, with the outputs of its branches times `ratio`; the
    rest of the weights become zero."""
    into = dict(target.named_parameters())
    for weight in into.values():
        weight.zero_()
    for name, weight in source.named_parameters():
        if ".into." not in name:
            corner = tuple(slice(length) for length in weight.shape)
            into[name][corner] = weight * (ratio if ".out." in name else 1.0)
    if isinstance(source.attention, AnyAttention):
        pairs = zip(heads(target.attention), heads(source.attention), strict=True)
        for (_, places), (_, parts) in pairs:
            for place, part in zip(places, parts, strict=True):
                place[: len(part)] = part
    whole, compact = target.feed_forward, source.feed_forward
    if isinstance(compact, FeedForward) and isinstance(whole, FeedForward):
        for to, part in zip(whole.into.parameters(), compact.into.parameters(), strict=True):
            neurons(whole, to)[: compact.out.in_features] = neurons(compact, part)
