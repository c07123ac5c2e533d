"""A transformer against the mathematics of each option, written out plainly a second time."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.models.network.attention import PADDING
from fathom.models.network.transformer import Transformer, role_of
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Role, Scheme, rules
from fathom.models.shape import Shape
from tests.support.models import COMPLETEP, model_of, scheme_of, some_tokens

SHAPE = Shape(
    depth=3, d_model=12, d_ff=20, n_heads=3, head_dim=6, vocab_size=13, context=8,
    positions=Positions.LEARNED,
)  # fmt: skip
ONE_AT_A_TIME: tuple[dict[str, Any], ...] = (
    *({"residual": residual} for residual in Residual),
    *({"residual": residual, "d_ff": 0} for residual in Residual),
    *({"residual": residual, "norm": Normalization.LAYER} for residual in Residual),
    *({"positions": positions} for positions in (Positions.NONE, Positions.ROTARY)),
    *({name: True} for name in ("gated", "biases", "qk_norm", "smeared_keys", "looped")),
    {"bidirectional": True},
    {"activation": Activation.RELU2},
    {"queries_per_key": 3},
    {"qk_norm": True, "n_heads": 4, "queries_per_key": 2, "positions": Positions.ROTARY},
    {"embedding_rank": 5},
    {"embedding_rank": 5, "tied": False},
)
ALL_AT_ONCE = tuple(
    {
        "residual": residual, "norm": norm, "looped": residual is not Residual.ADMIN,
        "bidirectional": bidirectional, "gated": gated, "tied": not gated, "positions": positions,
        "biases": True, "embedding_rank": 5, "smeared_keys": True, "qk_norm": True,
        "n_heads": 4, "queries_per_key": 2,
    }
    for residual, bidirectional, norm, (gated, positions) in itertools.product(
        Residual,
        (False, True),
        Normalization,
        ((False, Positions.ROTARY), (True, Positions.LEARNED)),
    )
)  # fmt: skip
ALL = [replace(SHAPE, **options) for options in (*ONE_AT_A_TIME, *ALL_AT_ONCE)]


def exact_model(shape: Shape) -> Transformer:
    """A model in float64 whose vectors are no longer at their constant initial values."""
    model: Transformer = model_of(shape, noise=0.25).double()
    return model


def texts(shape: Shape = SHAPE, length: int = 8) -> Tensor:
    return some_tokens(shape, 3, length)


# The model a second time: one head, one matrix, one definition after the other.


def normed(x: Tensor, weights: Mapping[str, Tensor], name: str, shape: Shape) -> Tensor:
    rms = shape.norm is Normalization.RMS
    centred = x if rms else x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * weights[f"{name}.weight"] + weights.get(f"{name}.bias", 0)


def mapped(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)


def turned(x_BTK: Tensor) -> Tensor:
    K = x_BTK.shape[-1]
    pairs = torch.view_as_complex(x_BTK.reshape(*x_BTK.shape[:-1], K // 2, 2).contiguous())
    angles = [[t * 10_000 ** (-2 * i / K) for i in range(K // 2)] for t in range(x_BTK.shape[1])]
    turns = torch.polar(torch.ones(1).double(), torch.tensor(angles).double())
    return torch.view_as_real(pairs * turns).flatten(-2)


def attended(x: Tensor, weights: Mapping[str, Tensor], shape: Shape, tokens: Tensor) -> Tensor:
    K, outputs = shape.head_dim, []
    widths = [shape.d_attention, shape.d_kv, shape.d_kv]
    q, k, v = mapped(x, weights, "attention.into").split_with_sizes(widths, dim=-1)
    allowed = torch.ones(x.shape[1], x.shape[1]).tril().bool().expand(len(x), -1, -1)
    if shape.bidirectional:
        allowed = (tokens != PADDING)[:, None].expand(-1, x.shape[1], -1)
    for head in range(shape.n_heads):
        other = head // shape.queries_per_key
        query, key, value = (
            part[..., K * at : K * (at + 1)] for part, at in ((q, head), (k, other), (v, other))
        )
        if shape.qk_norm:
            query, key = (
                part
                / (part.square().mean(-1, keepdim=True) + 1e-5).sqrt()
                * weights[f"attention.{name}_norm.weight"]
                for name, part in (("q", query), ("k", key))
            )
        if shape.smeared_keys:
            share = 1 / (1 + torch.exp(-weights["attention.smear"][other]))
            old, key = key, key.clone()
            for t in range(1, x.shape[1]):
                key[:, t] = share * old[:, t] + (1 - share) * old[:, t - 1]
        if shape.positions is Positions.ROTARY:
            query, key = turned(query), turned(key)
        logits = (query @ key.mT / math.sqrt(K)).masked_fill(~allowed, -math.inf)
        outputs.append(logits.softmax(-1) @ value)
    return mapped(torch.cat(outputs, -1), weights, "attention.out")


def fed_forward(x: Tensor, weights: Mapping[str, Tensor], shape: Shape) -> Tensor:
    hidden = mapped(x, weights, "feed_forward.into")
    if shape.gated:
        gate, value = hidden.chunk(2, dim=-1)
        return mapped(gate * gate.sigmoid() * value, weights, "feed_forward.out")
    if shape.activation is Activation.RELU2:
        return mapped(hidden.clamp(min=0) ** 2, weights, "feed_forward.out")
    return mapped(hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2, weights, "feed_forward.out")


def joined(
    x: Tensor, branch: str, weights: Mapping[str, Tensor], shape: Shape, tokens: Tensor
) -> Tensor:
    def f(inputs: Tensor) -> Tensor:
        if branch == "attention":
            return attended(inputs, weights, shape, tokens)
        return fed_forward(inputs, weights, shape)

    norm, branches = f"{branch}_norm", shape.depth * (2 if shape.d_ff else 1)
    match shape.residual:
        case Residual.PRE:
            return x + f(normed(x, weights, norm, shape))
        case Residual.NONE:
            return f(normed(x, weights, norm, shape))
        case Residual.POST:
            return normed(x + f(x), weights, norm, shape)
        case Residual.DEEPNORM:
            return normed(branches**0.25 * x + f(x), weights, norm, shape)
        case Residual.ADMIN | Residual.ADMIN_CLOSED:
            return normed(weights[f"{branch}_skip"] * x + f(x), weights, norm, shape)


def reference(model: Transformer, tokens: Tensor) -> Tensor:
    """Logits of the definitions, from the weights of a model under the standard scheme."""
    shape = model.shape
    weights: dict[str, Tensor] = dict(model.named_parameters())
    table, head = weights["embedding.weight"], weights["embedding.weight"]
    if not shape.tied:
        head = weights["unembedding.weight"]
    if shape.embedding_rank:
        table = table @ weights["embedding_projection"]
        head = head @ weights[("" if shape.tied else "un") + "embedding_projection"]
    x = table[tokens]
    if shape.positions is Positions.LEARNED:
        x = x + weights["positions"][: tokens.shape[1]]
    post_norm = shape.residual not in (Residual.PRE, Residual.NONE)
    if post_norm:
        x = normed(x, weights, "embedding_norm", shape)
    for layer in range(shape.depth):
        prefix = f"blocks.{0 if shape.looped else layer}."
        parts = {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
        for branch in ("attention", "feed_forward") if shape.d_ff else ("attention",):
            x = joined(x, branch, parts, shape, tokens)
    if not post_norm:
        x = normed(x, weights, "final_norm", shape)
    return x @ head.T


def backward(model: Transformer, tokens: Tensor) -> None:
    F.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("shape", ALL)
def test_logits_are_those_of_the_definitions_and_all_learn(shape: Shape) -> None:
    model, tokens = exact_model(shape), texts(shape)
    backward(model, tokens)
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 1e-9, name
    tokens[1, 5:] = PADDING
    # The table of rotary positions is kept in float32.
    atol = 1e-5 if shape.positions is Positions.ROTARY else 1e-10
    assert torch.allclose(model(tokens), reference(model, tokens), rtol=0, atol=atol)


@pytest.mark.parametrize("shape", [shape for shape in ALL if not shape.bidirectional])
def test_a_later_token_never_changes_an_earlier_logit(shape: Shape) -> None:
    model, tokens = exact_model(shape), texts(shape)
    before = model(tokens)
    for changed in range(1, 8):
        other = tokens.clone()
        other[:, changed] = other[:, changed] % 12 + 1
        after = model(other)
        assert torch.allclose(before[:, :changed], after[:, :changed], rtol=0, atol=1e-12)
        assert not torch.allclose(before[:, changed], after[:, changed], atol=1e-6)


@pytest.mark.parametrize("shape", [shape for shape in ALL if shape.bidirectional])
def test_both_sides_are_seen_and_padding_is_not(shape: Shape) -> None:
    model, tokens = exact_model(shape), texts(shape, length=5)
    alone = model(tokens)
    other = tokens.clone()
    other[:, -1] = other[:, -1] % 12 + 1
    assert not torch.allclose(alone[:, 0], model(other)[:, 0], atol=1e-6)
    padded = F.pad(tokens, (0, 3), value=PADDING)
    assert torch.allclose(model(padded)[:, :5], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("positions", Positions)
def test_padding_on_the_right_changes_nothing_before_it(positions: Positions) -> None:
    shape = replace(SHAPE, positions=positions)
    model, tokens = exact_model(shape), texts(length=5)
    padded = F.pad(tokens, (0, 3), value=PADDING)
    assert torch.allclose(model(padded)[:, :5], model(tokens), rtol=0, atol=1e-12)


def test_factors_start_with_the_spread_of_an_embedding_in_one_piece() -> None:
    shape = replace(SHAPE, vocab_size=300, d_model=240, embedding_rank=60)
    model = model_of(shape)
    product = model.embedding.weight @ model.embedding_projection
    assert float(product.detach().std()) == pytest.approx(0.2, rel=0.05)


def test_in_bfloat16_every_option_comes_near_its_exact_logits() -> None:
    for shape in ALL:
        model, tokens = exact_model(shape).float(), texts(shape)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = model(tokens).float()
        exact = model(tokens)
        error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
        assert 0 < error < 0.1, shape


def test_initialising_is_a_function_of_the_generator_alone() -> None:
    weights = [dict(model_of(SHAPE, seed=seed).named_parameters()) for seed in (7, 7, 8)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    drawn = [name for name in weights[0] if "norm" not in name]
    assert not any(torch.equal(weights[0][name], weights[2][name]) for name in drawn)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("gated", [False, True])
def test_every_weight_starts_with_the_spread_of_its_role(scheme: Scheme, gated: bool) -> None:
    shape = replace(
        SHAPE, d_model=96, d_ff=160, n_heads=4, head_dim=32, vocab_size=97, context=64, gated=gated,
        tied=False, biases=True, embedding_rank=40, smeared_keys=True,
    )  # fmt: skip
    parametrization = scheme_of(scheme)
    by_role, roles = rules(parametrization, shape), set()
    for name, weight in model_of(shape, parametrization).named_parameters():
        role = role_of(name)
        roles.add(role)
        if weight.dim() == 1:
            start = 1.0 if "norm.weight" in name else 0.0
            assert torch.equal(weight, torch.full_like(weight, start))
            continue
        std = by_role[role].init_std
        # Five standard errors of a mean and of a standard deviation.
        assert abs(weight.mean()) < 5 * std / math.sqrt(weight.numel())
        assert abs(weight.std() / std - 1) < 5 / math.sqrt(2 * weight.numel())
    others = {Role.SKIP, Role.CROSS_QUERY, Role.CROSS_KEY_VALUE, Role.ROUTER}
    others |= {Role.STATE_IN, Role.STATE_OUT, Role.STATE}
    assert roles == set(Role) - others


def test_tied_weights_are_one_tensor_with_the_gradients_of_both_uses() -> None:
    tied, untied = model_of(SHAPE), model_of(replace(SHAPE, tied=False))
    assert tied.unembedding is None
    shared = tied.embedding.weight.detach().clone()
    untied.load_state_dict(tied.state_dict() | {"unembedding.weight": shared})
    tokens = texts()
    for model in (tied, untied):
        backward(model, tokens)
    both = untied.embedding.weight.grad + untied.unembedding.weight.grad
    assert torch.allclose(tied.embedding.weight.grad, both, atol=1e-6)


def test_a_branch_of_weight_zero_leaves_its_block_an_identity() -> None:
    model, tokens = model_of(replace(SHAPE, positions=Positions.NONE), COMPLETEP), texts()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("out.weight"):
                weight.zero_()
    embedded = F.rms_norm(model.embedding(tokens), (SHAPE.d_model,), eps=1e-5)
    expected = embedded @ model.embedding.weight.T * model.scales.logits
    assert torch.allclose(model(tokens), expected, atol=1e-5)


def test_an_unknown_parameter_has_no_role() -> None:
    with pytest.raises(KeyError):
        role_of("blocks.0.attention.into.scale")
