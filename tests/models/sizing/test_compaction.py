"""The compact model: the same outputs, the sizes that are left, and every parameter counted."""

from dataclasses import replace

import pytest
import torch

from fathom.models.network.transformer import Transformer
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.models.sizing.auto_sizing import families
from fathom.models.sizing.compaction import compacted, padded, sizes_left
from fathom.models.sizing.group_penalty import SizedPart
from fathom.models.sizing.layer_sizes import LayerSizes, holding, params_left, whole_layers
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
PRE_NORM = replace(STANDARD, scheme=Scheme.COMPLETEP)


def pruned(shape: Shape, *, biases: bool = False) -> Transformer:
    """A model with random weights, of which auto-sizing would have deleted a part."""
    scheme = PRE_NORM if shape.residual is Residual.PRE else STANDARD
    model: Transformer = model_of(shape, scheme)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if biases or name.endswith((".weight", "smear", "skip")):
                weight.normal_(0.0, 0.5, generator=generator)
        for part, share in ((SizedPart.NEURONS, 0.5), (SizedPart.HEADS, 0.5)):
            for family in families(model, part):
                dead = torch.rand(len(family.weights[0][1]), generator=generator) < share
                for _, view in family.weights:
                    view[dead] = 0.0
        for layer, family in enumerate(families(model, SizedPart.BRANCHES)):
            if layer in (1, 2, 3, 6):  # a feed-forward, a whole layer, an attention
                for _, view in family.weights:
                    view.zero_()
    return model


def outputs(model: Transformer) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, 11, (3, 6), generator=generator)
    sources = [torch.randint(7, (3, 5), generator=generator)] * bool(model.shape.encoder_depth)
    logits: torch.Tensor = model(tokens, *sources)
    return logits


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("biases", [False, True])
def test_the_compact_model_has_outputs_and_size_of_the_pruned(name: str, biases: bool) -> None:
    model = pruned(SHAPES[name], biases=biases)
    small = compacted(model)
    left = params_left(model.shape, sizes_left(model))
    assert left == sum(weight.numel() for weight in small.parameters())
    assert left < model.shape.params_total
    largest = outputs(model).abs().max().item()
    torch.testing.assert_close(outputs(small), outputs(model), rtol=0.0, atol=1e-6 * largest)
    model = model.double()
    torch.testing.assert_close(outputs(compacted(model)), outputs(model), rtol=1e-12, atol=1e-12)


def test_sizes_are_those_of_what_is_not_zero() -> None:
    model = model_of(SHAPE, STANDARD)
    assert sizes_left(model) == whole_layers(SHAPE) == [LayerSizes(4, 12)] * 4
    assert params_left(SHAPE, sizes_left(model)) == SHAPE.params_total
    state, small = model.state_dict(), compacted(model).state_dict()
    assert small.keys() == state.keys()
    assert all(torch.equal(weight, state[name]) for name, weight in small.items())
    blocks, feed_forward = model.blocks, model.blocks[1].feed_forward
    with torch.no_grad():
        feed_forward.into.weight[:5] = 0.0  # neurons that read nothing
        feed_forward.out.weight[:, 5:7] = 0.0  # and such that nothing reads
        blocks[2].attention.out.weight[:, 4:8] = 0.0  # a head
        blocks[3].attention.into.weight[32:] = 0.0  # all values
    sizes = [(4, 12), (4, 5), (3, 12), (0, 12)]
    assert sizes_left(model) == [LayerSizes(*size) for size in sizes]


@pytest.mark.parametrize("name", [name for name in SHAPES if "stacks" not in name])
@pytest.mark.parametrize("biases", [False, True])
def test_a_model_of_equal_layers_computes_the_same(name: str, biases: bool) -> None:
    small = compacted(pruned(SHAPES[name], biases=biases).double())
    sizes = sizes_left(pruned(SHAPES[name], biases=biases))
    equal = padded(small, sizes).double()
    torch.testing.assert_close(outputs(equal), outputs(small), rtol=1e-6, atol=1e-6)
    assert equal.shape == holding(small.shape, sizes)
    assert equal.shape.params_total <= small.shape.params_total


def test_layers_without_branches_are_left_out_of_a_model_of_equal_layers() -> None:
    sizes = [LayerSizes(4, 5), LayerSizes(0, 0), LayerSizes(2, 0), LayerSizes(0, 7)]
    assert holding(SHAPE, sizes) == replace(SHAPE, depth=3, d_ff=7)
    assert holding(SHAPES["post"], sizes) == replace(SHAPES["post"], d_ff=7)
    nothing = [LayerSizes(0, 0)] * 4
    assert holding(SHAPE, nothing) == replace(SHAPE, depth=1, n_heads=1, d_ff=1)
