"""Sizes in closed form against the model as built, against hand counts, and their errors."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.network.transformer import Transformer
from fathom.models.options import Normalization, Positions, Residual
from fathom.models.shape import LEAST_RATIO, Count, Shape
from tests.support.models import STANDARD

TINY = Shape(depth=2, d_model=12, d_ff=20, n_heads=3, head_dim=4, vocab_size=11, context=7)
GPT2_SMALL = Shape(
    depth=12, d_model=768, d_ff=3072, n_heads=12, head_dim=64, vocab_size=50257, context=1024,
    positions=Positions.LEARNED, norm=Normalization.LAYER,
)  # fmt: skip

SIZES: tuple[dict[str, Any], ...] = (
    {"depth": 1, "d_model": 1, "d_ff": 1, "n_heads": 1, "head_dim": 2},
    {"depth": 3, "d_model": 10, "d_ff": 0, "n_heads": 2, "head_dim": 6},
    {"depth": 2, "d_model": 48, "d_ff": 131, "n_heads": 1, "head_dim": 16},
    {"depth": 5, "d_model": 33, "d_ff": 7, "n_heads": 7, "head_dim": 8},
)
FLAGS = tuple(itertools.product((False, True), repeat=5))
"""Of `gated`, `tied`, `biases`, `smeared_keys` and `looped`."""


def built(shape: Shape) -> dict[str, int]:
    """Parameters of every tensor, counted on the meta device, where nothing takes memory."""
    with torch.device("meta"):
        model = Transformer(shape, STANDARD)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def group_of(name: str) -> str:
    """The structural group of a tensor, told from its name alone."""
    if "norm" in name:
        return "norms"
    if "skip" in name:
        return "skips"
    for group in ("attention", "feed_forward", "positions", "unembedding", "embedding"):
        if group in name:
            return group
    raise AssertionError(name)


@pytest.mark.parametrize("rank", [None, 6])
@pytest.mark.parametrize("positions", Positions)
@pytest.mark.parametrize("residual", Residual)
def test_closed_form_is_exact(residual: Residual, positions: Positions, rank: int | None) -> None:
    sizes: dict[str, Any] = {"vocab_size": 19, "context": 9, "embedding_rank": rank}
    for size, (gated, tied, biases, smeared_keys, looped) in itertools.product(SIZES, FLAGS):
        if looped and residual is Residual.ADMIN:
            continue
        shape = Shape(
            **size, **sizes, positions=positions, residual=residual, gated=gated, tied=tied,
            norm=Normalization.RMS if gated == tied else Normalization.LAYER, biases=biases,
            smeared_keys=smeared_keys, looped=looped, qk_norm=gated != biases,
            queries_per_key=size["n_heads"] if tied else 1,
        )  # fmt: skip
        check_counts(shape)


def check_counts(shape: Shape) -> None:
    counted = dict.fromkeys(shape.parameter_groups, 0)
    for name, number in built(shape).items():
        counted[group_of(name)] += number
    assert shape.parameter_groups == counted
    assert shape.params_total == shape.size(Count.TOTAL) == sum(counted.values())
    outside = counted["embedding"] + counted["positions"] + counted["unembedding"]
    assert shape.params_non_embedding == shape.params_total - outside
    assert shape.size(Count.NON_EMBEDDING) == shape.params_non_embedding


EXPERTS = tuple(
    Experts(number=number, top_k=top_k, shared=shared, every=every)
    for number, top_k in ((1, 1), (5, 2))
    for shared, every in itertools.product((0, 2), (1, 2, 3))
)


@pytest.mark.parametrize("experts", EXPERTS, ids=str)
def test_closed_form_is_exact_with_experts(experts: Experts) -> None:
    for gated, tied in itertools.product((False, True), repeat=2):
        check_counts(replace(TINY, depth=5, gated=gated, tied=tied, experts=experts))


def test_a_token_uses_the_experts_that_it_is_routed_to_and_the_shared_ones() -> None:
    shape = replace(TINY, depth=5, experts=Experts(number=8, top_k=2, shared=1, every=2))
    dense, network = replace(shape, experts=None), 2 * 12 * 20
    assert shape.expert_layers == 2
    assert shape.params_total - dense.params_total == 2 * (8 * network + 8 * 12)
    assert shape.size(Count.ACTIVE) == dense.params_total + 2 * (2 * network + 8 * 12)
    assert dense.size(Count.ACTIVE) == dense.params_total
    more = shape.forward_flops_per_token - dense.forward_flops_per_token
    assert more == 2 * 2 * (2 * network + 8 * 12)


STATE_SPACES = tuple(
    StateSpace(pattern=pattern, state=state, expand=expand, conv=conv)
    for pattern in ("M", "A", "MMMA", "AM")
    for state, expand, conv in ((5, 2, 4), (16, 1, 1))
)


@pytest.mark.parametrize("state_space", STATE_SPACES, ids=str)
def test_closed_form_is_exact_with_state_spaces(state_space: StateSpace) -> None:
    for tied, d_ff, norm in itertools.product((False, True), (0, 20), Normalization):
        shape = replace(TINY, depth=6, tied=tied, d_ff=d_ff, norm=norm, state_space=state_space)
        check_counts(shape)
    attends = "A" in state_space.pattern
    check_counts(
        replace(
            TINY,
            depth=7,
            qk_norm=attends,
            smeared_keys=attends,
            state_space=state_space,
            experts=Experts(number=3, top_k=1, every=2),
        )
    )


def test_a_recurrence_counts_its_two_products_with_the_state_and_its_convolution() -> None:
    shape = replace(TINY, depth=5, state_space=StateSpace(pattern="MMA", state=9, conv=3))
    dense, inner, features = replace(shape, state_space=None), 2 * 12, 2 * 12 + 2 * 9
    tokens = torch.ones(7, 1, 1)
    with FlopCounterMode(display=False) as counter:
        written = torch.bmm(tokens.expand(7, inner, 1), tokens.expand(7, 1, 9))
        torch.bmm(written, tokens.expand(7, 9, 1))
        weights = torch.ones(features, 1, 3)
        torch.nn.functional.conv1d(torch.ones(1, features, 7 + 2), weights, groups=features)
    maps = 12 * (2 * inner + 2 * 9 + 2 * 3) + inner * 12 - 4 * 12 * 12
    more = 4 * (2 * maps - 4 * 12 * (7 + 1) / 2 + counter.get_total_flops() / 7)
    assert shape.state_layers == 4
    assert shape.forward_flops_per_token - dense.forward_flops_per_token == more
    assert shape.size(Count.MATRICES) - dense.size(Count.MATRICES) == 4 * maps


@pytest.mark.parametrize(
    "options",
    [
        *(
            {name: True}
            for name in ("biases", "looped", "bidirectional", "qk_norm", "smeared_keys")
        ),
        *({"queries_per_key": 3}, {"encoder_depth": 1}, {"residual": Residual.POST}),
    ],
    ids=str,
)
def test_state_spaces_refuse_what_does_not_go_with_them(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="state_space"):
        replace(TINY, state_space=StateSpace(pattern="M"), **options)


@pytest.mark.parametrize("options", [{"pattern": ""}, {"pattern": "MB"}, {"state": 0}], ids=str)
def test_numbers_and_patterns_of_state_spaces_that_can_not_be_are_refused(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="must be"):
        StateSpace(**options)


@pytest.mark.parametrize("groups", [2, 4])
def test_closed_form_is_exact_with_groups(groups: int) -> None:
    for gated, biases, looped in itertools.product((False, True), repeat=3):
        shape = replace(
            TINY, d_ff=0 if gated and looped else 20, gated=gated, biases=biases, looped=looped,
            qk_norm=gated, queries_per_key=3 if biases else 1, groups=groups,
        )  # fmt: skip
        check_counts(shape)
        whole = replace(shape, groups=1).size(Count.MATRICES)
        assert shape.size(Count.MATRICES) * groups == whole


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"groups": 0}, "`groups` must be at least 1, got 0"),
        ({"groups": 5}, "`d_model` must be a multiple of `groups`, got 12 and 5; use 10"),
        ({"groups": 3}, "`d_ff` must be a multiple of `groups`, got 20 and 3; use 18"),
        ({"groups": 6, "d_ff": 24, "queries_per_key": 3}, "`d_kv` must be a multiple of `groups`"),
        ({"groups": 4, "experts": Experts(number=2, top_k=1)}, "`model.groups` does not go with"),
        ({"groups": 4, "state_space": StateSpace()}, "`model.groups` does not go with"),
        ({"groups": 4, "encoder_depth": 1}, "`model.groups` does not go with an encoder, got 4"),
    ],
    ids=str,
)
def test_groups_refuse_what_does_not_go_with_them(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match="groups") as refusal:
        replace(TINY, **options)
    assert str(refusal.value).startswith(text)


def test_mixtral_has_its_published_sizes() -> None:
    shape = Shape(
        depth=32, d_model=4096, d_ff=14336, n_heads=32, head_dim=128, queries_per_key=4,
        vocab_size=32000, context=32768, gated=True, tied=False,
        experts=Experts(number=8, top_k=2),
    )  # fmt: skip
    assert shape.params_total == 46_702_792_704
    assert shape.params_active == 12_879_925_248


@pytest.mark.parametrize(
    "options", [{"biases": True}, {"looped": True}, {"d_ff": 0}, {"encoder_depth": 1}], ids=str
)
def test_experts_refuse_what_does_not_go_with_them(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="experts"):
        replace(TINY, experts=Experts(number=2, top_k=1), **options)


@pytest.mark.parametrize("numbers", [(2, 3), (2, 0), (0, 0)])
def test_numbers_of_experts_that_can_not_be_are_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="must be at"):
        Experts(number=numbers[0], top_k=numbers[1])


def test_gpt2_small_has_its_published_size() -> None:
    assert replace(GPT2_SMALL, biases=True).params_total == 124_439_808
    assert GPT2_SMALL.params_non_embedding == 12 * (12 * 768**2 + 2 * 768) + 768
    assert sum(built(GPT2_SMALL).values()) == GPT2_SMALL.params_total


HOP_SIZES = {
    128: (413_440, 611_712, 809_984, 1_008_256, 1_206_528),
    256: (1_613_312, 2_403_072, 3_192_832, 3_982_592, 4_772_352),
}
"""Width -> parameters at 2 to 6 layers. Sanford et al. 2024, without an unembedding:
L (12 m^2 + 13 m) + 2 m + 30 m + 100 m."""


def test_hop_models_have_their_published_sizes() -> None:
    for width, published in HOP_SIZES.items():
        for depth, params in enumerate(published, start=2):
            shape = replace(
                GPT2_SMALL, depth=depth, d_model=width, d_ff=4 * width, n_heads=width // 32,
                head_dim=32, vocab_size=30, context=100, biases=True,
            )  # fmt: skip
            assert shape.params_total == sum(built(shape).values()) == params


def test_petty_families_have_their_published_size_at_every_depth() -> None:
    # Petty et al. 2024: L (4 d^2 + 3 d d_ff) without norms and embedding; d_ff pays for layers.
    for depth, d_ff in ((1, 4779), (2, 2048), (3, 1138), (5, 409), (7, 97)):
        shape = Shape(
            depth=depth, d_model=512, d_ff=d_ff, n_heads=6, head_dim=64, vocab_size=32_000,
            context=1024, gated=True, tied=False,
        )  # fmt: skip
        groups = replace(shape, n_heads=8).parameter_groups
        size = groups["attention"] + groups["feed_forward"]
        assert size == pytest.approx(8_388_608, rel=1e-3)


def test_options_have_the_parameters_and_operations_of_what_they_are() -> None:
    looped, deep = (replace(TINY, depth=7, looped=looped) for looped in (True, False))
    assert looped.parameter_groups == replace(TINY, depth=1).parameter_groups
    assert looped.forward_flops_per_token == deep.forward_flops_per_token

    low = replace(TINY, embedding_rank=3)
    assert low.parameter_groups["embedding"] == 11 * 3 + 3 * 12
    assert replace(low, tied=False).parameter_groups["unembedding"] == 11 * 3 + 3 * 12
    forward = TINY.forward_flops_per_token
    assert forward - low.forward_flops_per_token == 2 * (11 * 12 - (11 * 3 + 3 * 12) - 3 * 12)

    attention = TINY.depth * 4 * TINY.d_attention
    both, longer = replace(TINY, bidirectional=True), replace(TINY, context=9)
    assert both.forward_flops_per_token - forward == attention * (7 - (7 + 1) / 2)
    assert longer.forward_flops_per_token - forward == attention * 2 / 2
    assert replace(TINY, tied=False).forward_flops_per_token == forward


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"looped": True},
        {"embedding_rank": 5},
        {"gated": True, "tied": False},
        {"biases": False, "d_ff": 19, "experts": Experts(number=4, top_k=2, shared=1, every=2)},
        {"biases": False, "depth": 3, "state_space": StateSpace(pattern="AM", state=5)},
        {"groups": 4, "gated": True},
        {"groups": 2, "biases": False, "looped": True},
    ],
)
def test_the_matrix_products_are_those_that_torch_counts(options: dict[str, Any]) -> None:
    shape = replace(TINY, **{"biases": True} | options)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        Transformer(shape, STANDARD)(torch.ones((1, 7), dtype=torch.int64))
    # Attention, which torch counts only on some devices, is left out on both sides.
    products = counter.get_flop_counts()["Global"]
    ops = [torch.ops.aten.mm, torch.ops.aten.addmm]
    if shape.groups > 1:
        ops += [torch.ops.aten.bmm, torch.ops.aten.baddbmm]
    counted = sum(products.get(op, 0) for op in ops)
    beside = (shape.depth - shape.state_layers) * 4 * shape.d_attention * (7 + 1) / 2
    if shape.state_space:
        beside += shape.state_layers * shape.state_space.flops(shape.d_attention)
    assert counted == 7 * (shape.forward_flops_per_token - beside)


def test_a_shape_without_feed_forward_has_a_ratio_that_compares() -> None:
    bare = replace(TINY, d_ff=0)
    assert bare.ln_ff_ratio == math.log(LEAST_RATIO)
    assert TINY.ln_ff_ratio == math.log(TINY.ff_ratio) == math.log(20 / 12)
    assert TINY.off_ratio(20 / 12) == bare.off_ratio(0.0) == 0.0
    assert TINY.off_ratio(0.0) == pytest.approx(TINY.ln_ff_ratio - bare.ln_ff_ratio)


def test_forward_flops_of_a_model_counted_by_hand() -> None:
    # One layer, d_model 4, d_ff 8, two heads of 2, vocabulary 5, context 3. Multiply-adds a token:
    # qkv 4 * 12, attention output 4 * 4, feed-forward 4 * 8 twice, unembedding 4 * 5: 148; a token
    # sees 1, 2 or 3 positions, 2 on average, at 4 for the logits and 4 for the values each: 16.
    shape = Shape(depth=1, d_model=4, d_ff=8, n_heads=2, head_dim=2, vocab_size=5, context=3)
    assert shape.forward_flops_per_token == 2 * (48 + 16 + 64 + 20 + 16)
    assert shape.train_flops_per_token == 3 * shape.forward_flops_per_token


@pytest.mark.parametrize(
    ("size", "message"),
    [
        *(
            ({name: value}, f"`{name}` must be at least 1, got {value}")
            for name in ("depth", "d_model", "n_heads", "head_dim", "vocab_size", "context")
            for value in (0, -3)
        ),
        ({"d_ff": -1}, "`d_ff` must be at least 0, got -1"),
        ({"embedding_rank": 0}, "`embedding_rank` must be at least 1, got 0"),
        ({"head_dim": 5}, "`head_dim` must be even, got 5; use 6 or"),
        (
            {"looped": True, "residual": Residual.ADMIN},
            "`looped` layers share one block; use `residual: admin_closed`",
        ),
    ],
)
def test_an_impossible_size_is_refused_by_name_and_value(
    size: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        replace(TINY, **size)
    assert "\n" not in str(caught.value)


def test_the_way_out_of_a_refusal_is_one() -> None:
    assert replace(TINY, looped=True, residual=Residual.ADMIN_CLOSED).blocks == 1
    assert replace(TINY, head_dim=5, positions=Positions.LEARNED).head_dim == 5
