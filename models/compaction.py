"""What auto-sizing leaves of a model: sizes by layer, and a smaller model with the same outputs.

Shapes: N tokens, D d_model, F d_ff, H heads, S heads of keys, K head dimension; a small f or s
counts those that are left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fathom.models.auto_sizing import heads, neurons
from fathom.models.blocks import Attention, Block, FeedForward
from fathom.models.layer_sizes import LayerSizes, holding, layers_kept, params_left
from fathom.models.parametrization import ForwardScales, Parametrization
from fathom.models.shape import Shape
from fathom.models.transformer import Transformer

BY_LAYER = "by_layer/"
"""Prefix of metrics of one layer each."""


def sizes_left(model: Transformer) -> list[LayerSizes]:
    """Sizes of each layer with weights of its own, without what adds nothing."""
    per_key = model.shape.queries_per_key
    return [
        LayerSizes(
            n_heads=per_key * len(heads_left(block.attention)),
            d_ff=0 if block.feed_forward is None else len(neurons_left(block.feed_forward)),
        )
        for block in blocks_of(model)
    ]


def blocks_of(model: Transformer) -> list[Block]:
    """The blocks of a model."""
    return [block for block in model.blocks if isinstance(block, Block)]


def counts_left(model: Transformer) -> dict[str, float]:
    """Parameters, layers, branches, heads and neurons that are left, and the latter by layer."""
    sizes = sizes_left(model)
    counts = {
        "parameters_left": params_left(model.shape, sizes),
        "layers_left": sum(own.branches > 0 for own in sizes),
        "branches_left": sum(own.branches for own in sizes),
        "heads_left": sum(own.n_heads for own in sizes),
        "neurons_left": sum(own.d_ff for own in sizes),
    }
    digits = len(str(len(sizes)))
    for layer, own in enumerate(sizes, start=1):
        counts[f"{BY_LAYER}heads_left_{layer:0{digits}}"] = own.n_heads
        counts[f"{BY_LAYER}neurons_left_{layer:0{digits}}"] = own.d_ff
    return {name: float(count) for name, count in counts.items()}


@torch.no_grad()
def neurons_left(module: FeedForward) -> Tensor:
    """Indices (f,) of the neurons that add to the stream; of one if only a bias does."""
    is_read = module.out.weight.any(0)
    is_fed = [neurons(module, one).any(-1) for one in module.into.parameters()]
    return _indices(torch.stack(is_fed).any(0).all(-1) & is_read, module.out.bias)


@torch.no_grad()
def heads_left(module: Attention) -> Tensor:
    """Indices (s,) of the heads of keys that add to the stream; of one if only a bias does."""
    is_read = module.out.weight.view(len(module.out.weight), module.kv_heads, -1).any(-1).any(0)
    has_values = [heads(module, one)[-1].any(-1) for one in module.into.parameters()]
    return _indices(torch.stack(has_values).any(0) & is_read, module.out.bias)


def _indices(alive: Tensor, bias_D: Tensor | None) -> Tensor:
    indices = alive.nonzero().flatten()
    if not len(indices) and bias_D is not None and bias_D.any():
        return indices.new_zeros(1)
    return indices


class CompactBlock(Block):
    """A block with sizes of its own, perhaps without one of its branches or both."""

    def __init__(self, shape: Shape, scales: ForwardScales, sizes: LayerSizes) -> None:
        n_heads, d_ff = sizes.n_heads or shape.queries_per_key, sizes.d_ff or min(1, shape.d_ff)
        super().__init__(replace(shape, n_heads=n_heads, d_ff=d_ff), scales)
        self.is_plain, self.has_attention = False, sizes.n_heads > 0
        if not self.has_attention:
            del self.attention
            if not shape.post_norm:
                del self.attention_norm
        if not sizes.d_ff:
            self.feed_forward = None
            if not shape.post_norm:
                self.feed_forward_norm = None

    def compute(
        self, x_ND: Tensor, T: int, turns_2TJP2: Tensor | None, mask_B11T: Tensor | None
    ) -> Tensor:
        """The stream (N, D) after the block."""
        if self.has_attention:
            if turns_2TJP2 is not None:  # the same for every head
                rotated = self.attention.n_heads + self.attention.kv_heads
                turns_2TJP2 = turns_2TJP2[:, :, :rotated]
            x_ND = self._joined(
                *(x_ND, self.attention_norm, self.attention_skip, self.attention),
                *(T, turns_2TJP2, mask_B11T),
            )
        elif self.post_norm:
            x_ND = self.attention_norm(x_ND * self.attention_skip)
        if self.feed_forward_norm is None:
            return x_ND
        if self.feed_forward is None:
            normed_ND: Tensor = self.feed_forward_norm(x_ND * self.feed_forward_skip)
            return normed_ND
        return self._joined(x_ND, self.feed_forward_norm, self.feed_forward_skip, self.feed_forward)


class CompactTransformer(Transformer):
    """A transformer whose layers differ in size; `shape` is the one that it comes from."""

    def __init__(
        self, shape: Shape, parametrization: Parametrization, sizes: Sequence[LayerSizes]
    ) -> None:
        super().__init__(shape, parametrization)
        self.sizes = tuple(sizes)
        self.blocks = torch.nn.ModuleList(CompactBlock(shape, self.scales, one) for one in sizes)


@torch.no_grad()
def padded(small: CompactTransformer) -> Transformer:
    """A model of equal layers with the same outputs: what its layers lack is zero."""
    kept = layers_kept(small.shape, small.sizes)
    model = Transformer(holding(small.shape, small.sizes), small.parametrization)
    ratio = small.scales.residual / model.scales.residual  # it follows the depth
    own = small.state_dict()
    outside = {name: one for name, one in own.items() if not name.startswith("blocks.")}
    model.load_state_dict(outside, strict=False)
    for target, index in zip(blocks_of(model), kept, strict=True):
        source = small.blocks[index]
        assert isinstance(source, CompactBlock)
        _pad(target, source, ratio)
    return model.to(small.embedding.weight.dtype)


def _pad(target: Block, source: CompactBlock, ratio: float) -> None:
    """Fill a block with the weights of a smaller one, its branches times a number, and zeros."""
    into = dict(target.named_parameters())
    for weight in into.values():
        weight.zero_()
    for name, weight in source.named_parameters():
        if ".into." not in name:
            corner = tuple(slice(length) for length in weight.shape)
            into[name][corner] = weight * (ratio if ".out." in name else 1.0)
    if source.has_attention:
        for to, own in _weights_into(target.attention, source.attention):
            places, parts = heads(target.attention, to), heads(source.attention, own)
            for place, part in zip(places, parts, strict=True):
                place[: len(part)] = part
    if source.feed_forward is not None and target.feed_forward is not None:
        for to, own in _weights_into(target.feed_forward, source.feed_forward):
            part = neurons(source.feed_forward, own)
            neurons(target.feed_forward, to)[: len(part)] = part


def _weights_into(
    target: Attention | FeedForward, source: Attention | FeedForward
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the weight, and the bias, into a branch of two blocks."""
    return zip(target.into.parameters(), source.into.parameters(), strict=True)


@torch.no_grad()
def compacted(model: Transformer) -> CompactTransformer:
    """A smaller model with the same outputs, without what is zero."""
    weight = model.embedding.weight
    with weight.device:
        small = CompactTransformer(model.shape, model.parametrization, sizes_left(model))
    small.to(weight.dtype)
    state = model.state_dict()
    for index, block in enumerate(blocks_of(model)):
        parts = _left_of_attention(block.attention)
        if block.feed_forward is not None:
            parts |= _left_of_feed_forward(block.feed_forward)
        state |= {f"blocks.{index}.{name}": own for name, own in parts.items()}
    small.load_state_dict({name: state[name] for name in small.state_dict()})
    small.reset_tables()
    return small.train(model.training)


def _left_of_attention(module: Attention) -> dict[str, Tensor]:
    """The weights of attention that differ in the compact model, by their names in a block."""
    left_s = heads_left(module)
    kept = {
        f"attention.into.{name}": torch.cat([part[left_s].flatten() for part in heads(module, one)])
        .view(-1, *one.shape[1:])
        for name, one in module.into.named_parameters()
    }  # fmt: skip
    out_DSK = module.out.weight.view(len(module.out.weight), module.kv_heads, -1)
    kept["attention.out.weight"] = out_DSK[:, left_s].flatten(1)
    if module.smear is not None:
        kept["attention.smear"] = module.smear[left_s]
    return kept


def _left_of_feed_forward(module: FeedForward) -> dict[str, Tensor]:
    """The weights of a feed-forward that differ in the compact model, by their names in a block."""
    left_f = neurons_left(module)
    kept = {
        f"feed_forward.into.{name}": neurons(module, one)[left_f].transpose(0, 1)
        .reshape(-1, *one.shape[1:])
        for name, one in module.into.named_parameters()
    }  # fmt: skip
    return kept | {"feed_forward.out.weight": module.out.weight[:, left_f]}
