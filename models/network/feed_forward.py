"""The feed-forward network of a layer: two maps with an activation or gates between them.

Shapes: N tokens, D d_model, W width of the first map, F d_ff.
"""

from collections.abc import Callable, Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.network.grouped_linear import linear
from fathom.models.options import Activation
from fathom.models.shape import Shape


def squared_relu(x: Tensor) -> Tensor:
    """Squared positive parts (So et al. 2021)."""
    return F.relu(x).square()


def swiglu(hidden_NW: Tensor) -> Tensor:
    """The second half of the features times the SiLU of the first, (N, F) (Shazeer 2020)."""
    gate_NF, value_NF = hidden_NW.chunk(2, dim=-1)
    return F.silu(gate_NF) * value_NF


ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    Activation.GELU: F.gelu,
    Activation.RELU2: squared_relu,
}


def activation_of(shape: Shape) -> Callable[[Tensor], Tensor]:
    """The function between both maps, (N, W) to (N, F)."""
    return swiglu if shape.gated else ACTIVATIONS[shape.activation]


class FeedForward(nn.Module):
    """Feed-forward network, (N, D) to (N, D)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gated, self.activation = shape.gated, activation_of(shape)
        self.squares = shape.activation is Activation.RELU2
        width = shape.d_ff * (2 if shape.gated else 1)
        self.into = linear(shape, shape.d_model, width)
        self.out = linear(shape, shape.d_ff, shape.d_model)

    def forward(self, x_ND: Tensor) -> Tensor:
        out: Tensor = self.out(self.activation(self.into(x_ND)))
        return out
