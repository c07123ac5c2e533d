"""Kinds of residuals: how their matrices start, and what each does to a deep model's signals."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fathom.models.admin import profile
from fathom.models.network.encoder_decoder import EncoderDecoder
from fathom.models.network.transformer import Transformer
from fathom.models.options import Normalization, Residual
from fathom.models.parametrization import (
    Parametrization,
    Role,
    Scheme,
    deepnorm_gain,
    deepnorm_skip,
    forward_scales,
    rules,
)
from fathom.models.shape import Shape

STANDARD = Parametrization(
    scheme=Scheme.STANDARD, base_width=64, base_depth=2, base_head_dim=16, init_std=0.02
)
SHAPE = Shape(
    depth=4, d_model=32, d_ff=128, n_heads=2, head_dim=16, vocab_size=50, context=16
)  # fmt: skip
OTHERS = [residual for residual in Residual if residual is not Residual.PRE]


def model_of(shape: Shape, seed: int = 0) -> Transformer:
    model = Transformer(shape, STANDARD)
    model.initialise(torch.Generator().manual_seed(seed))
    if shape.residual is Residual.ADMIN:
        profile(model, some_tokens(shape))
    return model


def some_tokens(shape: Shape = SHAPE) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, shape.vocab_size, (4, shape.context), generator=generator)


def test_deepnorm_starts_with_its_published_constants() -> None:
    # Wang et al. 2022, decoder only, M layers: alpha (2 M)^(1/4), beta (8 M)^(-1/4).
    for layers in (1, 6, 18, 100):
        shape = replace(SHAPE, depth=layers, residual=Residual.DEEPNORM)
        assert deepnorm_skip(shape) == pytest.approx((2 * layers) ** 0.25)
        assert forward_scales(STANDARD, shape).skip == deepnorm_skip(shape)
        assert deepnorm_gain(shape) == pytest.approx((8 * layers) ** -0.25)


def test_deepnorm_of_two_stacks_starts_with_its_published_constants() -> None:
    # Wang et al. 2022, N encoder and M decoder layers; the encoder by both, the decoder by its own.
    for encoder, decoder in ((6, 6), (12, 1), (18, 60)):
        shape = replace(
            SHAPE, depth=encoder + decoder, encoder_depth=encoder, residual=Residual.DEEPNORM
        )
        both = encoder**4 * decoder
        own = forward_scales(STANDARD, shape.encoder, read_by=decoder).skip
        assert own == pytest.approx(0.81 * both ** (1 / 16))
        assert deepnorm_gain(shape.encoder, decoder) == pytest.approx(0.87 * both ** (-1 / 16))
        assert forward_scales(STANDARD, shape).skip == pytest.approx((3 * decoder) ** 0.25)
        assert deepnorm_gain(shape) == pytest.approx((12 * decoder) ** -0.25)


def test_deepnorms_gain_is_on_the_values_of_an_encoders_output() -> None:
    shape = replace(
        SHAPE, depth=3, encoder_depth=1, d_model=96, n_heads=6, head_dim=24,
        residual=Residual.DEEPNORM,
    )  # fmt: skip
    model = EncoderDecoder(shape, STANDARD)
    model.initialise(torch.Generator().manual_seed(0))
    weight = model.get_parameter("blocks.0.cross_attention.key_value.weight").detach()
    keys, values = weight.chunk(2)
    assert float(values.std() / keys.std()) == pytest.approx(deepnorm_gain(shape), rel=0.05)


@pytest.mark.parametrize("residual", OTHERS)
def test_hidden_matrices_start_by_glorots_rule_and_deepnorms_gain(residual: Residual) -> None:
    shape = replace(SHAPE, d_model=96, d_ff=240, n_heads=6, head_dim=24, residual=residual)
    gain = deepnorm_gain(shape) if residual is Residual.DEEPNORM else 1.0
    weights = {k: weight.detach() for k, weight in model_of(shape).blocks[1].named_parameters()}
    into = weights["attention.into.weight"]
    attention, feed_forward = math.sqrt(2 / (96 + 144)), math.sqrt(2 / (96 + 240))
    for part, std in (
        (into[: 2 * 144], attention),
        (into[2 * 144 :], gain * attention),
        (weights["attention.out.weight"], gain * attention),
        (weights["feed_forward.into.weight"], gain * feed_forward),
        (weights["feed_forward.out.weight"], gain * feed_forward),
    ):
        assert float(part.std()) == pytest.approx(std, rel=5 / math.sqrt(2 * part.numel()))


@pytest.mark.parametrize("residual", OTHERS)
def test_without_pre_norm_completep_is_refused_in_one_line_and_mup_scales_rates(
    residual: Residual,
) -> None:
    shape = replace(SHAPE, residual=residual, d_model=256)
    with pytest.raises(ValueError, match=rf"completep.*got `residual: {residual.value}`; use") as e:
        Transformer(shape, replace(STANDARD, scheme=Scheme.COMPLETEP))
    assert "\n" not in str(e.value)
    by_role = rules(replace(STANDARD, scheme=Scheme.MUP), shape)
    assert by_role[Role.ATTENTION_IN].learning_rate == 64 / 256
    assert by_role[Role.SKIP].learning_rate == 1.0
    assert by_role[Role.SKIP].weight_decay == by_role[Role.SMEAR].weight_decay == 0.0


@torch.no_grad()
def change_of_output(residual: Residual, depth: int) -> float:
    """Mean square change of the normed stream when every matrix moves by one part in a hundred.

    In log, mean of seeds.
    """
    logs = []
    for seed in range(3):
        shape = replace(SHAPE, residual=residual, depth=depth, norm=Normalization.LAYER)
        model = model_of(shape, seed)
        seen: list[Tensor] = []
        (model.final_norm or model.blocks[-1]).register_forward_hook(
            lambda _module, _inputs, output, seen=seen: seen.append(output)
        )
        model(some_tokens())
        generator = torch.Generator().manual_seed(seed + 5)
        for weight in model.blocks.parameters():
            if weight.dim() == 2:
                noise = torch.randn(weight.shape, generator=generator)
                weight.add_(noise * weight.std() / 100)
        model(some_tokens())
        logs.append(math.log(float((seen[1] - seen[0]).square().mean())))
    return sum(logs) / len(logs)


GROWTH = {
    Residual.PRE: (0.8, 1.2),
    Residual.POST: (10, 30),
    Residual.ADMIN: (1.5, 4),
    Residual.ADMIN_CLOSED: (2, 4),
    Residual.DEEPNORM: (0.4, 1),
}
"""How many times as far the output moves with 96 layers as with 6, at least and at most."""


@pytest.mark.parametrize("residual", GROWTH)
def test_deep_post_norm_amplifies_every_change_and_its_remedies_do_not(residual: Residual) -> None:
    # Liu et al. 2020: O(N) for N post-norm layers, 16 here, which is why they diverge; O(log N)
    # with Admin. DeepNorm keeps the change bounded.
    growth = math.exp(change_of_output(residual, 96) - change_of_output(residual, 6))
    low, high = GROWTH[residual]
    assert low < growth < high


@torch.no_grad()
def spread_of_tokens(residual: Residual, *, bidirectional: bool) -> float:
    """Rank ratio of the stream after 6 attention layers: the share that tokens do not share."""
    shape = replace(SHAPE, depth=6, d_ff=0, residual=residual, bidirectional=bidirectional)
    model, seen = model_of(shape), []
    model.blocks[-1].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    model(some_tokens())
    x_BTD = seen[0].view(4, shape.context, -1)
    return float((x_BTD - x_BTD.mean(1, keepdim=True)).norm() / x_BTD.norm())


def test_tokens_become_equal_without_skip_connections_only() -> None:
    # Dong et al. 2021; a causal mask, which leaves the first token alone, only slows it down.
    collapsed = spread_of_tokens(Residual.NONE, bidirectional=True)
    causal = spread_of_tokens(Residual.NONE, bidirectional=False)
    assert collapsed < 1e-3
    assert causal > 100 * collapsed
    for residual in Residual:
        if residual is not Residual.NONE:
            assert spread_of_tokens(residual, bidirectional=True) > 0.3
