"""The cache of a decoder: the logits of decoding without one, and its exact bytes."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fathom.models.inference import cache_bytes, weight_bytes
from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.network.decoding_cache import DecodingCache
from fathom.models.options import Activation, Normalization, Positions, Residual
from tests.support.models import SMALL, model_of, some_tokens

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"positions": Positions.LEARNED, "biases": True, "norm": Normalization.LAYER},
    {"positions": Positions.NONE, "residual": Residual.POST, "tied": False},
    {"queries_per_key": 2, "qk_norm": True, "gated": True},
    {"queries_per_key": 4, "smeared_keys": True, "embedding_rank": 5},
    {"looped": True, "depth": 3, "activation": Activation.RELU2},
    {"residual": Residual.ADMIN_CLOSED, "d_ff": 0},
    {"residual": Residual.DEEPNORM, "smeared_keys": True, "looped": True, "depth": 3},
    {"residual": Residual.NONE},
    {"state_space": StateSpace(pattern="MMA", state=5, conv=3), "depth": 4},
    {"experts": Experts(number=3, top_k=2, shared=1)},
    {"state_space": StateSpace(pattern="M", expand=1, conv=1), "d_ff": 0},
    {"groups": 4, "biases": True, "smeared_keys": True},
)


def held_bytes(cache: DecodingCache) -> int:
    """Bytes of all tensors that a cache holds."""
    layers = cache.layers
    held = [
        tensor
        for layer in layers
        for tensor in (*(layer.decoded or ()), layer.last_key, layer.inputs, layer.state)
        if tensor is not None
    ]
    return sum(tensor.untyped_storage().nbytes() for tensor in held)


@pytest.mark.parametrize("room", [0, 4, 9])
@pytest.mark.parametrize("options", OPTIONS)
def test_decoding_with_a_cache_equals_the_whole_pass(options: dict[str, Any], room: int) -> None:
    shape = replace(SMALL, context=9, **options)
    model = model_of(shape, noise=0.3).eval()
    tokens, cache = some_tokens(shape, rows=3), model.new_cache(room)
    whole = model(tokens)
    for start, end in ((0, 4), (4, 5), (5, 7)):
        part = model.decode(tokens[:, start:end], cache)
        assert torch.allclose(part, whole[:, start:end], atol=1e-5)
    rows = torch.tensor([2, 0, 0])
    cache.select(rows)
    assert torch.allclose(model.decode(tokens[rows, 7:8], cache), whole[rows, 7:8], atol=1e-5)
    assert torch.allclose(model.decode(tokens[rows, 8:], cache), whole[rows, 8:], atol=1e-5)
    assert cache.length == 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", OPTIONS)
def test_the_bytes_of_weights_and_cache_are_exact(
    options: dict[str, Any], dtype: torch.dtype
) -> None:
    shape = replace(SMALL, context=9, **options)
    model, cache = model_of(shape).to(dtype).eval(), DecodingCache(room=8)
    for tokens in torch.chunk(some_tokens(shape, rows=3, length=8), 2, dim=1):
        model.decode(tokens, cache)
    weights = sum(weight.nbytes for weight in model.parameters())
    assert weight_bytes(shape, dtype.itemsize) == weights
    assert cache_bytes(shape, sequences=3, tokens=8, number=dtype.itemsize) == held_bytes(cache)


def test_a_model_that_attends_in_both_directions_does_not_decode() -> None:
    shape = replace(SMALL, bidirectional=True)
    model = model_of(shape)
    with pytest.raises(ValueError, match="does not decode token by token"):
        model.decode(some_tokens(shape), model.new_cache())
