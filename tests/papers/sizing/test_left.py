"""What auto-sizing has left: the sizes of each layer, and every parameter counted."""

from dataclasses import replace

import pytest
import torch

from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.papers.sizing.layer_sizes import LayerSizes, params_left, whole_layers
from fathom.papers.sizing.left import sizes_left
from tests.support.models import SMALL, model_of, scheme_of

STANDARD = scheme_of(init_std=0.1)
SHAPE = replace(SMALL, depth=4)
SHAPES = {
    "plain": SHAPE,
    "biases": replace(SHAPE, biases=True, norm=Normalization.LAYER),
    "gated": replace(SHAPE, gated=True, biases=True, tied=False),
    "relu2": replace(SHAPE, activation=Activation.RELU2, positions=Positions.LEARNED),
    "grouped": replace(SHAPE, queries_per_key=2, qk_norm=True, smeared_keys=True),
    "looped": replace(SHAPE, looped=True, embedding_rank=5),
    "bidirectional": replace(SHAPE, bidirectional=True),
    "post": replace(SHAPE, residual=Residual.POST, biases=True),
    "admin": replace(SHAPE, residual=Residual.ADMIN_CLOSED),
    "deepnorm": replace(SHAPE, residual=Residual.DEEPNORM, gated=True),
    "two_stacks": replace(SHAPE, encoder_depth=2, source_vocab_size=7, qk_norm=True),
    "two_stacks_grouped": replace(
        SHAPE, encoder_depth=2, queries_per_key=2, residual=Residual.POST, biases=True
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_layers_of_equal_smaller_sizes_have_the_parameters_of_that_shape(name: str) -> None:
    shape = SHAPES[name]
    smaller = replace(shape, n_heads=2, d_ff=5)
    assert params_left(shape, whole_layers(smaller)) == smaller.params_total < shape.params_total


def test_sizes_are_those_of_what_is_not_zero() -> None:
    model = model_of(SHAPE, STANDARD)
    assert sizes_left(model) == whole_layers(SHAPE) == [LayerSizes(4, 12)] * 4
    assert params_left(SHAPE, sizes_left(model)) == SHAPE.params_total
    blocks, feed_forward = model.blocks, model.blocks[1].feed_forward
    with torch.no_grad():
        feed_forward.into.weight[:5] = 0.0  # neurons that read nothing
        feed_forward.out.weight[:, 5:7] = 0.0  # and such that nothing reads
        blocks[2].attention.out.weight[:, 4:8] = 0.0  # a head
        blocks[3].attention.into.weight[32:] = 0.0  # all values
    sizes = [(4, 12), (4, 5), (3, 12), (0, 12)]
    assert sizes_left(model) == [LayerSizes(*size) for size in sizes]
