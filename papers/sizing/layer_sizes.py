"""Sizes of layers that differ from each other, and the parameters of a model that has them.

Standard library only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fathom.models.shape import Shape


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Heads and feed-forward neurons of one layer."""

    n_heads: int
    """Heads; 0 if attention adds nothing and is removed."""
    d_ff: int
    """Feed-forward neurons; 0 if the feed-forward branch adds nothing and is removed."""
    cross_heads: int = 0
    """Heads of attention to an encoder's output; 0 if there is no such attention or it is
    removed."""

    @property
    def branches(self) -> int:
        """Number of residual branches."""
        return bool(self.n_heads) + bool(self.d_ff) + bool(self.cross_heads)


def whole_layers(shape: Shape) -> list[LayerSizes]:
    """Sizes of the layers of a shape that have weights of their own, the encoder's first."""
    plain = LayerSizes(shape.n_heads, shape.d_ff)
    cross = replace(plain, cross_heads=shape.n_heads if shape.encoder_depth else 0)
    return [plain] * shape.encoder_depth + [cross] * (shape.blocks - shape.encoder_depth)


def params_left(shape: Shape, sizes: Iterable[LayerSizes]) -> int:
    """Number of parameters of a model of `shape` whose layers have `sizes` instead."""
    whole = sum(_layer_params(shape, layer) for layer in whole_layers(shape))
    return shape.params_total - whole + sum(_layer_params(shape, layer) for layer in sizes)


def _layer_params(shape: Shape, sizes: LayerSizes) -> int:
    """Number of a layer's parameters that can be removed: all, except norms and skip connections in
    post-norm layers."""
    single = replace(shape, depth=1, encoder_depth=0, source_vocab_size=0, d_ff=sizes.d_ff)
    params = single.parameter_groups["feed_forward"]
    params += sum(_attention_params(shape, heads) for heads in (sizes.n_heads, sizes.cross_heads))
    if not shape.post_norm:
        params += sizes.branches * shape.d_model * (2 if shape.norm_biases else 1)
    return params


def _attention_params(shape: Shape, n_heads: int) -> int:
    """Parameters of an attention with `n_heads` heads; 0 without heads."""
    if not n_heads:
        return 0
    single = replace(shape, depth=1, encoder_depth=0, source_vocab_size=0, n_heads=n_heads)
    return single.parameter_groups["attention"] + shape.params_of_head_norms
