"""Admin: omegas as profiled and in closed form, against the method written out by hand."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.models.network.transformer import Transformer
from fathom.models.options import Normalization, Positions, Residual
from fathom.models.parametrization import first_skip
from fathom.models.shape import Shape
from fathom.papers.admin import profile
from tests.support.models import model_of, scheme_of, some_tokens

STANDARD = scheme_of(width=64, depth=2, head_dim=16, init_std=0.02)
SHAPE = Shape(
    depth=4, d_model=32, d_ff=128, n_heads=4, head_dim=8, vocab_size=50, context=16,
    positions=Positions.LEARNED, residual=Residual.ADMIN, norm=Normalization.LAYER,
)  # fmt: skip
TOKENS = some_tokens(SHAPE, 8, low=0)


def skips(model: Transformer) -> list[Tensor]:
    """The skip connections in the order of a forward pass."""
    return [weight.detach() for name, weight in model.named_parameters() if "skip" in name]


@torch.no_grad()
def profiled_by_hand(model: Transformer, tokens: Tensor) -> list[float]:
    """Layer by layer, each normed by hand: omega is the root of all variances so far."""
    x = model.embedding(tokens)
    assert model.positions is not None
    x = F.layer_norm(x + model.positions, (model.shape.d_model,)).flatten(0, 1)
    omegas = []
    running = 1.0
    for block in model.blocks:
        for name in ("attention", "feed_forward"):
            branch = block.get_submodule(name)
            found = branch(x, tokens.shape[1], None, None) if name == "attention" else branch(x)
            omegas.append(math.sqrt(running))
            running += float(found.var())
            x = F.layer_norm(omegas[-1] * x + found, (model.shape.d_model,))
    return omegas


def test_a_profile_adds_up_the_variances_of_the_branches() -> None:
    model = model_of(SHAPE, STANDARD)
    model.embedding.weight.data *= 1000  # far above the epsilon of its norm
    expected = profiled_by_hand(model, TOKENS)
    omegas = profile(model, TOKENS)
    assert omegas == pytest.approx(expected, rel=1e-3)
    assert omegas[0] == 1.0
    assert all(a < b for a, b in itertools.pairwise(omegas))
    for omega, skip in zip(omegas, skips(model), strict=True):
        assert torch.equal(skip, torch.full((32,), omega))
    attention_alone = model_of(replace(SHAPE, d_ff=0), STANDARD)
    assert len(profile(attention_alone, TOKENS)) == len(skips(attention_alone)) == 4


def test_profiling_changes_no_other_weight_and_repeats_exactly() -> None:
    model, fresh = model_of(SHAPE, STANDARD), model_of(SHAPE, STANDARD)
    first = profile(model, TOKENS)
    assert profile(model, TOKENS) == first
    for (name, weight), other in zip(model.named_parameters(), fresh.parameters(), strict=True):
        assert torch.equal(weight, other) == ("skip" not in name or name.startswith("blocks.0.att"))


MEASURED = {1: 1.00, 2: 1.06, 3: 1.20, 4: 1.29, 8: 1.71, 12: 2.12, 24: 3.31, 48: 4.95}
"""Branch -> omega of a random causal post-norm model, 24 layers, width 128, by independent code."""


def test_a_profile_equals_the_reference_implementations() -> None:
    shape = replace(SHAPE, depth=24, d_model=128, d_ff=512, n_heads=4, head_dim=32, context=32)
    omegas = profile(model_of(shape, STANDARD), some_tokens(shape, 8, low=0))
    for branch, omega in MEASURED.items():
        assert omegas[branch - 1] == pytest.approx(omega, rel=0.05)


CLOSED = {4: 1.451, 8: 1.760, 12: 2.017, 24: 2.601, 48: 3.404, 96: 4.495, 200: 6.075}
"""Branches -> omega, of microsoft/admin-torch's O(log n)."""


def test_the_closed_form_is_the_published_one() -> None:
    for branches, omega in CLOSED.items():
        shape = replace(SHAPE, depth=branches // 2, residual=Residual.ADMIN_CLOSED)
        assert first_skip(shape) == pytest.approx(omega, abs=5e-4)
        start = torch.full((32,), first_skip(shape))
        assert all(torch.equal(skip, start) for skip in skips(model_of(shape, STANDARD)))
    assert first_skip(SHAPE) == 1.0, "a profile sets it"


def test_encoder_and_decoder_are_profiled_apart_and_grow_as_a_root() -> None:
    shape = replace(SHAPE, depth=36, encoder_depth=24, d_model=64, n_heads=4, head_dim=16, d_ff=256)
    model = model_of(shape, STANDARD)
    both = torch.randint(1, shape.vocab_size, (2, 4, shape.context))
    omegas = profile(model, *both)
    encoder, decoder = omegas[: 2 * 24], omegas[2 * 24 :]
    assert len(decoder) == 3 * 12
    for stack in (encoder, decoder):
        assert stack[0] == 1.0
        assert stack == sorted(stack)
        growth = math.log(stack[-1] / stack[7]) / math.log(len(stack) / 8)
        assert growth == pytest.approx(0.5, abs=0.12)
    order = [skip for block in model.blocks for _, skip in block.branches()]
    assert [float(skip.detach()[0]) for skip in order] == pytest.approx(decoder)
    assert profile(model, *both) == pytest.approx(omegas)


def test_the_closed_form_of_two_stacks_is_of_admin_torch() -> None:
    shape = replace(
        SHAPE, depth=200, encoder_depth=100, residual=Residual.ADMIN_CLOSED, d_model=8, d_ff=8
    )
    assert first_skip(shape.encoder) == pytest.approx(6.075, abs=5e-4)
    assert first_skip(shape) == pytest.approx(7.193, abs=5e-4)
    small = replace(shape, depth=5, encoder_depth=2)
    model = model_of(small, STANDARD)
    found = {name: skip for name, skip in model.named_parameters() if name.endswith("_skip")}
    assert len(found) == 2 * 2 + 3 * 3
    for name, skip in found.items():
        n = 4 if name.startswith("encoder.") else 9
        assert float(skip[0].detach()) == pytest.approx(math.sqrt((n + 1) / math.log(n + 1) - 1))
