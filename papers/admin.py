"""Admin's profile: the initial weight of each skip connection, from one forward pass.

Liu et al. 2020, arXiv 2004.08249. A post-norm layer whose branches are as strong as its stream
amplifies every change of a weight; omega lets the stream dominate its branches.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fathom.models.network.blocks import Block
from fathom.models.network.encoder_decoder import EncoderDecoder
from fathom.models.network.transformer import Transformer


@torch.no_grad()
def profile(model: Transformer, *tokens: Tensor) -> list[float]:
    """Sets each omega of a model of `residual: admin` from its initial weights and returns them.

    `tokens` are the arguments of the model: (B, T), and (B, U) for an encoder. The first omega is
    1; each next one is the root of the variance of the previous sum, omega * x + f(x), over all
    elements. An encoder and a decoder begin with 1 each; the encoder's come first. No other weight
    changes, and the same tokens give the same omegas.
    """
    stacks = [model.encoder, model] if isinstance(model, EncoderDecoder) else [model]
    omegas, hooks = [[1.0] for _ in stacks], []
    for stack, omegas_of_stack in zip(stacks, omegas, strict=True):
        for block in stack.blocks:
            assert isinstance(block, Block)
            for branch, skip in block.branches():
                assert isinstance(skip, nn.Parameter)
                hooks.append(branch.register_forward_hook(partial(_see, omegas_of_stack, skip)))
    model(*tokens)
    for hook in hooks:
        hook.remove()
    return [omega for omegas_of_stack in omegas for omega in omegas_of_stack[:-1]]


def _see(
    omegas: list[float], skip_D: Tensor, _: nn.Module, inputs: tuple[Any, ...], branch_ND: Tensor
) -> None:
    """Forward hook that sets a skip connection's omega and appends the next one's omega to
    `omegas`."""
    omega = omegas[-1]
    skip_D.fill_(omega)
    x_ND = inputs[0]
    omegas.append(math.sqrt(float((omega * x_ND).var() + branch_ND.var())))
