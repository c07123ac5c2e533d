"""Kinds of residuals: how their matrices start, and what each does to a deep model's signals."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fathom.models.network.transformer import Transformer
from fathom.models.options import Normalization, Residual
from fathom.models.parametrization import Role, Scheme, deepnorm_gain, forward_scales, rules
from fathom.models.shape import Shape
from fathom.papers.admin import profile
from tests.support.models import model_of, scheme_of, some_tokens

STANDARD = scheme_of(width=64, depth=2, head_dim=16, init_std=0.02)
SHAPE = Shape(depth=4, d_model=32, d_ff=128, n_heads=2, head_dim=16, vocab_size=50, context=16)
TOKENS = some_tokens(SHAPE, 4)
OTHERS = [residual for residual in Residual if residual is not Residual.PRE]


def built(shape: Shape, seed: int = 0) -> Transformer:
    model: Transformer = model_of(shape, STANDARD, seed=seed)
    if shape.residual is Residual.ADMIN:
        profile(model, TOKENS)
    return model


def test_deepnorm_starts_with_its_published_constants() -> None:
    # Wang et al. 2022, table 1: N encoder and M decoder layers; the encoder by both, the decoder by
    # its own; without an encoder alpha is (2 M)^(1/4), beta (8 M)^(-1/4).
    for encoder, decoder in ((0, 1), (0, 6), (0, 100), (6, 6), (12, 1), (18, 60)):
        shape = replace(
            SHAPE, depth=encoder + decoder, encoder_depth=encoder, residual=Residual.DEEPNORM
        )
        branches = 3 if encoder else 2
        assert forward_scales(STANDARD, shape).skip == pytest.approx((branches * decoder) ** 0.25)
        assert deepnorm_gain(shape) == pytest.approx((4 * branches * decoder) ** -0.25)
        if encoder:
            both = encoder**4 * decoder
            skip = forward_scales(STANDARD, shape.encoder, read_by=decoder).skip
            assert skip == pytest.approx(0.81 * both ** (1 / 16))
            assert deepnorm_gain(shape.encoder, decoder) == pytest.approx(0.87 * both ** (-1 / 16))


def test_deepnorms_gain_is_on_the_values_of_an_encoders_output() -> None:
    shape = replace(
        SHAPE, depth=3, encoder_depth=1, d_model=96, n_heads=6, head_dim=24,
        residual=Residual.DEEPNORM,
    )  # fmt: skip
    weight = (
        model_of(shape, STANDARD)
        .get_parameter("blocks.0.cross_attention.key_value.weight")
        .detach()
    )
    keys, values = weight.chunk(2)
    assert float(values.std() / keys.std()) == pytest.approx(deepnorm_gain(shape), rel=0.05)


@pytest.mark.parametrize("residual", OTHERS)
def test_hidden_matrices_start_by_glorots_rule_and_deepnorms_gain(residual: Residual) -> None:
    shape = replace(SHAPE, d_model=96, d_ff=240, n_heads=6, head_dim=24, residual=residual)
    gain = deepnorm_gain(shape) if residual is Residual.DEEPNORM else 1.0
    weights = {k: weight.detach() for k, weight in built(shape).blocks[1].named_parameters()}
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
def test_without_pre_norm_completep_is_refused_and_mup_scales_rates(residual: Residual) -> None:
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
        model = built(shape, seed)
        seen: list[Tensor] = []
        (model.final_norm or model.blocks[-1]).register_forward_hook(
            lambda _module, _inputs, output, seen=seen: seen.append(output)
        )
        model(TOKENS)
        generator = torch.Generator().manual_seed(seed + 5)
        for weight in model.blocks.parameters():
            if weight.dim() == 2:
                noise = torch.randn(weight.shape, generator=generator)
                weight.add_(noise * weight.std() / 100)
        model(TOKENS)
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
    model, seen = built(shape), []
    model.blocks[-1].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    model(TOKENS)
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
