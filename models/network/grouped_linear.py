"""The linear maps of a block: whole matrices, or block-diagonal ones whose outputs are shuffled.

A map in G groups has G times fewer weights than a whole one of its width (ShuffleNet, Zhang et al.
2018). Each group reads an equal share of the features; shuffling gives each group of the next map
features of all groups.

Shapes: N tokens, I inputs, O outputs, G groups, J = I / G, P = O / G.
"""

import torch
from torch import Tensor, nn

from fathom.models.shape import Shape


class GroupedLinear(nn.Linear):
    """Block-diagonal map, (N, I) to (N, O): feature `p * G + g` is output `p` of group `g`.

    `weight` (O, J) and `bias` (O,) are in the order of the groups, as in `nn.Conv1d(I, O, 1,
    groups=G)`; `nn.ChannelShuffle(G)` then gives the order of the outputs.
    """

    def __init__(self, inputs: int, outputs: int, groups: int, *, bias: bool) -> None:
        super().__init__(inputs // groups, outputs, bias=bias)
        self.groups, self.has_bias = groups, bias

    def forward(self, x_NI: Tensor) -> Tensor:
        x_GNJ = x_NI.view(len(x_NI), self.groups, -1).transpose(0, 1)
        weight_GJP = self.weight.view(self.groups, -1, self.in_features).mT
        if self.has_bias:
            y_GNP = torch.baddbmm(self.bias.view(self.groups, 1, -1), x_GNJ, weight_GJP)
        else:
            y_GNP = torch.bmm(x_GNJ, weight_GJP)
        return y_GNP.permute(1, 2, 0).reshape(len(x_NI), -1)


def linear(shape: Shape, inputs: int, outputs: int) -> nn.Linear:
    """A map of a block of `shape`: a plain one without groups."""
    if shape.groups == 1:
        return nn.Linear(inputs, outputs, bias=shape.biases)
    return GroupedLinear(inputs, outputs, shape.groups, bias=shape.biases)


def whole_matrix(module: nn.Linear) -> Tensor:
    """The matrix (O, I) of a map, with zeros between groups."""
    if not isinstance(module, GroupedLinear):
        return module.weight
    matrix_OI: Tensor = torch.block_diag(*module.weight.chunk(module.groups))  # type: ignore[no-untyped-call]
    return matrix_OI.view(module.groups, -1, matrix_OI.shape[1]).transpose(0, 1).flatten(0, 1)
