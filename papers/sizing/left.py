"""What auto-sizing has left of a model: sizes by layer, and their counts as metrics.

Shapes: D d_model, S heads of keys; a small f or s counts those that are left.
"""

import torch
from torch import Tensor

from fathom.models.group_penalty import BY_LAYER
from fathom.models.network.encoder_decoder import DecoderBlock
from fathom.models.network.feed_forward import FeedForward
from fathom.models.network.transformer import Transformer
from fathom.papers.sizing.groups import AnyAttention, heads, neurons
from fathom.papers.sizing.layer_sizes import LayerSizes, params_left


def sizes_left(model: Transformer) -> list[LayerSizes]:
    """Sizes of each layer with weights of its own, without parts that add nothing; the layers of an
    encoder come first."""
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
    """Numbers of parameters, layers, branches, heads and neurons that are left, by the metric's
    name; heads and neurons of each layer as well."""
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
    out_DS = module.out.weight
    is_read = out_DS.view(len(out_DS), module.kv_heads, -1).any(-1).any(0)  # by head of keys
    values = [views[-1] for _, views in heads(module) if len(views) > 1]
    has_values = torch.stack([view.any(-1) for view in values]).any(0)
    return _indices(has_values & is_read, module.out.bias)


def _indices(alive: Tensor, bias_D: Tensor | None) -> Tensor:
    indices = alive.nonzero().flatten()
    if not len(indices) and bias_D is not None and bias_D.any():
        return indices.new_zeros(1)
    return indices
