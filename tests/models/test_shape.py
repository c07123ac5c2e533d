"""Sizes in closed form against the model as built, against hand counts, and their errors."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from models.parametrization import Parametrization, Scheme
from models.shape import Count, Positions, Shape
from models.transformer import Transformer

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=64, base_depth=2, base_head_dim=16, init_std=0.02
)
TINY = Shape(depth=2, d_model=12, d_ff=20, n_heads=3, head_dim=4, vocab_size=11, context=7)
GPT2_SMALL = Shape(
    depth=12,
    d_model=768,
    d_ff=3072,
    n_heads=12,
    head_dim=64,
    vocab_size=50257,
    context=1024,
    positions=Positions.LEARNED,
)

SIZES = (
    {"depth": 1, "d_model": 1, "d_ff": 1, "n_heads": 1, "head_dim": 2},
    {"depth": 3, "d_model": 10, "d_ff": 0, "n_heads": 2, "head_dim": 6},
    {"depth": 2, "d_model": 48, "d_ff": 131, "n_heads": 1, "head_dim": 16},
    {"depth": 5, "d_model": 33, "d_ff": 7, "n_heads": 7, "head_dim": 8},
)
OPTIONS = tuple(itertools.product(SIZES, Positions, (False, True), (False, True)))


def built(shape: Shape) -> dict[str, int]:
    """Parameters of every tensor, counted on the meta device, where nothing takes memory."""
    with torch.device("meta"):
        model = Transformer(shape, PARAMETRIZATION)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def group_of(name: str) -> str:
    """The structural group of a tensor, told from its name alone."""
    if "norm" in name:
        return "norms"
    for group in ("attention", "feed_forward", "positions", "unembedding", "embedding"):
        if group in name:
            return group
    raise AssertionError(name)


@pytest.mark.parametrize(("size", "positions", "gated", "tied"), OPTIONS)
def test_closed_form_equals_the_model_as_built(
    size: dict[str, int], positions: Positions, gated: bool, tied: bool
) -> None:
    shape = Shape(**size, vocab_size=19, context=9, positions=positions, gated=gated, tied=tied)
    counted = dict.fromkeys(shape.parameter_groups, 0)
    for name, number in built(shape).items():
        counted[group_of(name)] += number
    assert shape.parameter_groups == counted
    assert shape.params_total == shape.params(Count.TOTAL) == sum(counted.values())
    outside = counted["embedding"] + counted["positions"] + counted["unembedding"]
    assert shape.params_non_embedding == shape.params_total - outside
    assert shape.params(Count.NON_EMBEDDING) == shape.params_non_embedding


def test_gpt2_small_has_its_published_size_less_the_biases() -> None:
    # The release counts 124,439,808: this many, and biases of 13 d in each block (qkv 3, attention
    # output 1, feed-forward 4 + 1, two norms 2 ... 11 d) and of one final norm.
    biases = 12 * (3 + 1 + 4 + 1 + 2) * 768 + 768
    assert GPT2_SMALL.params_total + biases == 124_439_808
    assert GPT2_SMALL.params_non_embedding == 12 * (12 * 768**2 + 2 * 768) + 768
    assert sum(built(GPT2_SMALL).values()) == GPT2_SMALL.params_total


def test_hop_models_have_their_published_sizes_less_the_biases() -> None:
    # Sanford et al. 2024: L (12 m^2 + 13 m) + 2 m + 30 m + 100 m, without an unembedding.
    for depth, published in ((2, 413_440), (3, 611_712), (6, 1_206_528)):
        shape = Shape(
            depth=depth,
            d_model=128,
            d_ff=512,
            n_heads=4,
            head_dim=32,
            vocab_size=30,
            context=100,
            positions=Positions.LEARNED,
        )
        assert shape.params_total + 128 * (11 * depth + 1) == published


def test_tying_saves_exactly_one_embedding() -> None:
    untied = replace(TINY, tied=False)
    assert untied.params_total - TINY.params_total == TINY.vocab_size * TINY.d_model
    assert untied.params_non_embedding == TINY.params_non_embedding


def test_gating_costs_one_more_matrix_a_block() -> None:
    gated = replace(TINY, gated=True)
    assert gated.params_total - TINY.params_total == 2 * 12 * 20


def test_forward_flops_of_a_model_counted_by_hand() -> None:
    # One layer, d_model 4, d_ff 8, two heads of 2, vocabulary 5, context 3. Multiply-adds a token:
    # qkv 4 * 12, attention output 4 * 4, feed-forward 4 * 8 twice, unembedding 4 * 5: 148; a token
    # sees 1, 2 or 3 positions, 2 on average, at 4 for the logits and 4 for the values each: 16.
    shape = Shape(depth=1, d_model=4, d_ff=8, n_heads=2, head_dim=2, vocab_size=5, context=3)
    assert shape.forward_flops_per_token == 2 * (48 + 16 + 64 + 20 + 16)
    assert shape.train_flops_per_token == 3 * shape.forward_flops_per_token


def test_flops_do_not_depend_on_tying_and_grow_with_the_context() -> None:
    assert replace(TINY, tied=False).forward_flops_per_token == TINY.forward_flops_per_token
    longer = replace(TINY, context=9)
    grown = longer.forward_flops_per_token - TINY.forward_flops_per_token
    assert grown == TINY.depth * 4 * TINY.d_attention * 2 / 2


def test_flops_of_a_large_model_are_close_to_six_for_each_parameter() -> None:
    large = replace(GPT2_SMALL, depth=24, d_model=4096, d_ff=16384, n_heads=64)
    assert large.train_flops_per_token == pytest.approx(6 * large.params_total, rel=0.02)


def test_derived_sizes() -> None:
    assert TINY.ff_ratio == 20 / 12
    assert replace(TINY, n_heads=5).d_attention == 20


@pytest.mark.parametrize(
    "name", ["depth", "d_model", "n_heads", "head_dim", "vocab_size", "context"]
)
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_below_one_is_refused_by_name_and_value(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be at least 1, got {value}"):
        replace(TINY, **{name: value})


def test_a_negative_feed_forward_width_is_refused() -> None:
    with pytest.raises(ValueError, match="`d_ff` must be at least 0, got -1"):
        replace(TINY, d_ff=-1)


def test_an_odd_head_with_rotary_positions_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match="`head_dim` must be even, got 5; use 6 or") as caught:
        replace(TINY, head_dim=5)
    assert "\n" not in str(caught.value)
    assert replace(TINY, head_dim=5, positions=Positions.LEARNED).head_dim == 5
