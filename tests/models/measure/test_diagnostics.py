"""Known answers for what is measured inside a model."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.models.measure.diagnostics import (
    block_norms,
    gradient_layers,
    layers_on_repeats,
    layers_on_text,
    prefix_matching,
    rank_ratio,
    repeated_tokens,
)
from fathom.models.network.attention import attend, pattern
from fathom.models.network.encoder_decoder import EncoderDecoder
from fathom.models.network.transformer import rotary_table
from fathom.models.options import Positions, Residual
from fathom.models.shape import Shape
from tests.support.models import model_of, optimizer_of, scheme_of, some_tokens

SHAPE = Shape(depth=3, d_model=32, d_ff=64, n_heads=2, head_dim=16, vocab_size=64, context=100)
SAN = Shape(
    depth=12, d_model=128, d_ff=0, n_heads=4, head_dim=32, vocab_size=256, context=64,
    residual=Residual.NONE, positions=Positions.NONE,
)  # fmt: skip
"""Self-attention alone: no skip connection, no feed-forward."""


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def built(shape: Shape, init_std: float = 0.02) -> Any:
    return model_of(shape, scheme_of(width=32, depth=2, head_dim=16, init_std=init_std))


def tokens(shape: Shape) -> Tensor:
    return some_tokens(shape, 3)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_pattern_mixes_values_as_attention_does(turned: bool, masked: bool) -> None:
    qkv_BTGK = torch.randn(2, 100, 6, 16, generator=generator(), dtype=torch.float64).float()
    turns = rotary_table(SHAPE, torch.device("cpu")) if turned else None
    mask_B11T = (torch.rand(2, 1, 1, 100, generator=generator()) < 0.7) if masked else None
    weights_BHTT = pattern(qkv_BTGK.clone(), 2, turns, 0.3, mask_B11T)
    torch.testing.assert_close(weights_BHTT.sum(-1), torch.ones(2, 2, 100))
    mixed_BTHK = torch.einsum("bhts,bshk->bthk", weights_BHTT, qkv_BTGK[:, :, 4:])
    torch.testing.assert_close(mixed_BTHK, attend(qkv_BTGK.clone(), 2, turns, 0.3, mask_B11T))


def test_the_rank_ratio_is_0_for_equal_tokens_and_1_without_a_mean() -> None:
    x_BTD = torch.randn(2, 8, 5, generator=generator())
    assert float(rank_ratio(x_BTD[:, :1].expand(2, 8, 5))) == pytest.approx(0, abs=1e-6)
    assert float(rank_ratio(torch.cat((x_BTD, -x_BTD), dim=1))) == pytest.approx(1)
    assert float(rank_ratio(7 * x_BTD)) == pytest.approx(float(rank_ratio(x_BTD)))


def test_without_skips_tokens_become_equal_fast_if_bidirectional_and_slowly_if_causal() -> None:
    """Dong et al. 2021 prove the first; the second is what the proof does not cover."""
    ratios = {}
    for bidirectional in (True, False):
        model = built(replace(SAN, bidirectional=bidirectional), init_std=0.1)
        ratios[bidirectional] = layers_on_text(model, tokens(SAN))["rank_ratio"].tolist()
    assert ratios[True][2] < 1e-2
    assert ratios[False][2] > 0.3
    assert ratios[False][-1] < ratios[False][0]
    whole = built(replace(SAN, residual=Residual.PRE, d_ff=512), init_std=0.1)
    assert layers_on_text(whole, tokens(SAN))["rank_ratio"][-1] > 0.2


def test_untrained_attention_has_the_entropy_and_mass_of_a_uniform_one() -> None:
    model = built(SHAPE)
    with torch.no_grad():
        for block in model.blocks:
            block.attention.into.weight.zero_()
    seen = layers_on_text(model, tokens(SHAPE))
    entropy = sum(math.log(t) for t in range(1, 101)) / 100
    itself = sum(1 / t for t in range(1, 101)) / 100
    before = sum(1 / t for t in range(2, 101)) / 99
    for name, expected in (
        ("attention_entropy", entropy), ("mass_self", itself), ("mass_previous", before),
        ("previous_token", before),
    ):  # fmt: skip
        assert seen[name].tolist() == pytest.approx([expected] * 3, rel=1e-5)


def test_prefix_matching_is_1_for_a_perfect_head_and_small_for_a_uniform_one() -> None:
    T, period = 100, 25
    perfect_TT = torch.eye(T)
    for row in range(period, T):
        perfect_TT[row] = torch.eye(T)[row - period + 1]
    spread_TT = torch.ones(T, T).tril() / torch.arange(1, T + 1)[:, None]
    weights_BHTT = torch.stack((perfect_TT, spread_TT)).expand(2, 2, T, T)
    perfect, spread = prefix_matching(weights_BHTT, period).tolist()
    assert perfect == pytest.approx(1)
    # One, two, then three places of t + 1 are right: their expected share.
    expected = [(row // period) / (row + 1) for row in range(period, T)]
    assert spread == pytest.approx(sum(expected) / len(expected), rel=1e-5)


def test_repeated_blocks_have_distinct_tokens_and_no_padding() -> None:
    repeats_BT, period = repeated_tokens(built(SHAPE), seed=3)
    assert (period, repeats_BT.shape[1]) == (25, 100)
    assert int(repeats_BT.min()) >= 1
    for row in repeats_BT:
        assert len(set(row[:period].tolist())) == period
        assert torch.equal(row[:period].repeat(4), row)


def test_a_head_that_writes_the_token_it_reads_has_a_full_copying_score() -> None:
    """Embeddings at right angles, and values that go through unchanged."""
    shape = replace(SHAPE, depth=1, d_model=64, n_heads=1, head_dim=64, d_ff=0)
    model = built(shape)
    with torch.no_grad():
        model.embedding.weight.copy_(torch.eye(64))
        attention = model.blocks[0].attention
        attention.into.weight[2 * 64 :] = torch.eye(64)
        attention.out.weight.copy_(torch.eye(64))
    assert float(layers_on_repeats(model, 0)["copying"]) == pytest.approx(1, abs=1e-3)
    assert float(layers_on_repeats(built(shape), 0)["copying"]) < 0.2


def test_the_copying_score_is_computed_in_float32_whatever_the_model_computes_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, einsum = list[torch.dtype](), torch.einsum

    def watched(*given: Any) -> torch.Tensor:
        seen.append(einsum(*given).dtype)
        return einsum(*given)

    monkeypatch.setattr(torch, "einsum", watched)
    with torch.autocast("cpu", torch.bfloat16):
        layers_on_repeats(built(SHAPE), 0)
    assert set(seen) == {torch.float32}


def test_a_context_too_short_for_a_repeat_has_no_induction_metrics() -> None:
    assert layers_on_repeats(built(replace(SHAPE, context=6)), 0) == {}


@pytest.mark.parametrize(
    "options",
    [
        {}, {"looped": True}, {"smeared_keys": True}, {"embedding_rank": 8}, {"tied": False},
        {"residual": Residual.ADMIN}, {"bidirectional": True}, {"d_ff": 0}, {"biases": True},
        {"queries_per_key": 2, "qk_norm": True},
    ],
    ids=str,
)  # fmt: skip
def test_every_kind_of_model_is_measured_and_left_as_it_was(options: dict[str, object]) -> None:
    shape = replace(SHAPE, **options)  # type: ignore[arg-type]
    model, text = built(shape), tokens(shape)
    before = model(text)
    seen = layers_on_text(model, text) | layers_on_repeats(model, 0)
    assert len(seen) == 7
    for values in seen.values():
        assert values.shape == (3,)
        assert values.isfinite().all()
    assert torch.equal(model(text), before)


def test_layers_of_an_encoder_come_before_those_of_the_decoder() -> None:
    shape = replace(SHAPE, encoder_depth=1)
    model, text = built(shape), tokens(shape)
    sources = text[:, :-3]
    assert isinstance(model, EncoderDecoder)

    both = layers_on_text(model, text, sources)
    alone = layers_on_text(model.encoder, sources)

    for name, values in both.items():
        assert values.shape == (3,)
        assert values[0] == alone[name][0]


@pytest.mark.parametrize("encoder_depth", [0, 1])
def test_the_gradient_of_a_block_is_that_of_its_parameters_together(encoder_depth: int) -> None:
    shape = replace(SHAPE, encoder_depth=encoder_depth)
    model = built(shape)
    optimizer = optimizer_of(model, eps=1e-8)
    read = [tokens(shape)] * (2 if encoder_depth else 1)
    model(*read).square().mean().backward()
    expected = [
        math.hypot(*(float(w.grad.norm()) for w in block.parameters() if w.grad is not None))
        for _, block in model.named_blocks()
    ]
    optimizer.clipped_step(1.0)
    assert gradient_layers(model, optimizer).tolist() == pytest.approx(expected, rel=1e-5)
    assert optimizer.norms_P is not None
    both = block_norms(model, optimizer, torch.stack((optimizer.norms_P, 2 * optimizer.norms_P)))
    assert both[1].tolist() == pytest.approx([2 * norm for norm in expected], rel=1e-5)
