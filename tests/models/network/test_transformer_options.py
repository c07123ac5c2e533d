"""Each option of a shape against the mathematics, written out plainly a second time."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.models.network.attention import PADDING
from fathom.models.network.blocks import Norm
from fathom.models.network.transformer import Transformer
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape

STANDARD = Parametrization(
    scheme=Scheme.STANDARD, base_width=16, base_depth=1, base_head_dim=4, init_std=0.2
)
SHAPE = Shape(
    depth=3,
    d_model=12,
    d_ff=20,
    n_heads=3,
    head_dim=6,
    vocab_size=13,
    context=8,
    positions=Positions.LEARNED,
)
EACH = (
    *(replace(SHAPE, residual=residual) for residual in Residual),
    *(replace(SHAPE, residual=residual, d_ff=0) for residual in Residual),
    *(replace(SHAPE, residual=residual, norm=Normalization.LAYER) for residual in Residual),
    replace(SHAPE, biases=True),
    replace(SHAPE, activation=Activation.RELU2),
    replace(SHAPE, queries_per_key=3),
    replace(SHAPE, qk_norm=True),
    replace(SHAPE, qk_norm=True, n_heads=4, queries_per_key=2, positions=Positions.ROTARY),
    replace(SHAPE, embedding_rank=5),
    replace(SHAPE, embedding_rank=5, tied=False),
    replace(SHAPE, smeared_keys=True),
    replace(SHAPE, looped=True),
    replace(SHAPE, bidirectional=True),
)
"""One option at a time."""
MIXED = tuple(
    replace(
        SHAPE,
        residual=residual,
        norm=norm,
        biases=True,
        embedding_rank=5,
        smeared_keys=True,
        n_heads=4,
        queries_per_key=2,
        qk_norm=True,
        looped=residual is not Residual.ADMIN,
        bidirectional=bidirectional,
        gated=gated,
        tied=not gated,
        positions=positions,
    )
    for residual, bidirectional, norm, (gated, positions) in itertools.product(
        Residual,
        (False, True),
        Normalization,
        ((False, Positions.ROTARY), (True, Positions.LEARNED)),
    )
)
"""All at once."""
ALL = [*EACH, *MIXED]


def model_of(shape: Shape, parametrization: Parametrization = STANDARD) -> Transformer:
    """A model in float64 whose vectors are no longer at their constant initial values."""
    model = Transformer(shape, parametrization).double()
    generator = torch.Generator().manual_seed(0)
    model.initialise(generator)
    for weight in model.parameters():
        if weight.dim() == 1:
            weight.data += torch.randn(weight.shape, generator=generator).double() / 4
    return model


def some_tokens(shape: Shape = SHAPE, *, length: int = 8, seed: int = 1) -> Tensor:
    """Random token ids without padding."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, shape.vocab_size, (3, length), generator=generator)


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
            part[..., K * own : K * (own + 1)] for part, own in ((q, head), (k, other), (v, other))
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
        own = {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
        for branch in ("attention", "feed_forward") if shape.d_ff else ("attention",):
            x = joined(x, branch, own, shape, tokens)
    if not post_norm:
        x = normed(x, weights, "final_norm", shape)
    return x @ head.T


@pytest.mark.parametrize("shape", ALL)
def test_logits_are_those_of_the_definitions(shape: Shape) -> None:
    model, tokens = model_of(shape), some_tokens(shape)
    tokens[1, 5:] = PADDING
    # The table of rotary positions is kept in float32.
    atol = 1e-5 if shape.positions is Positions.ROTARY else 1e-10
    assert torch.allclose(model(tokens), reference(model, tokens), rtol=0, atol=atol)


@pytest.mark.parametrize("shape", ALL)
def test_every_parameter_has_a_gradient(shape: Shape) -> None:
    model, tokens = model_of(shape), some_tokens(shape)
    F.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()  # type: ignore[no-untyped-call]
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 1e-9, name


@pytest.mark.parametrize("shape", [shape for shape in ALL if not shape.bidirectional])
def test_a_later_token_never_changes_an_earlier_logit(shape: Shape) -> None:
    model, tokens = model_of(shape), some_tokens(shape)
    before = model(tokens)
    for changed in range(1, 8):
        other = tokens.clone()
        other[:, changed] = other[:, changed] % 12 + 1
        after = model(other)
        assert torch.allclose(before[:, :changed], after[:, :changed], rtol=0, atol=1e-12)
        assert not torch.allclose(before[:, changed], after[:, changed], atol=1e-6)


@pytest.mark.parametrize("shape", [shape for shape in ALL if shape.bidirectional])
def test_both_sides_are_seen_and_padding_is_not(shape: Shape) -> None:
    model, tokens = model_of(shape), some_tokens(shape, length=5)
    alone = model(tokens)
    other = tokens.clone()
    other[:, -1] = other[:, -1] % 12 + 1
    assert not torch.allclose(alone[:, 0], model(other)[:, 0], atol=1e-6)
    padded = F.pad(tokens, (0, 3), value=PADDING)
    assert torch.allclose(model(padded)[:, :5], alone, rtol=0, atol=1e-12)


def test_a_sequence_of_nothing_but_padding_has_numbers_for_logits() -> None:
    tokens = some_tokens()
    tokens[1] = PADDING
    logits = model_of(replace(SHAPE, bidirectional=True))(tokens)
    assert logits.isfinite().all()


def test_a_causal_model_needs_no_mask_for_padding_on_the_right() -> None:
    model, tokens = model_of(SHAPE), some_tokens(length=5)
    padded = F.pad(tokens, (0, 3), value=PADDING)
    assert torch.allclose(model(padded)[:, :5], model(tokens), rtol=0, atol=1e-12)


def test_rms_norm_keeps_the_mean_and_has_no_bias() -> None:
    layer, rms = (replace(SHAPE, norm=norm, biases=True) for norm in Normalization)
    norms = [name for name in dict(model_of(rms).named_parameters()) if "norm" in name]
    assert norms
    assert not [name for name in norms if name.endswith("bias")]
    assert layer.params_total - rms.params_total == (2 * SHAPE.depth + 1) * SHAPE.d_model
    assert replace(SHAPE, norm=Normalization.LAYER).params_total == SHAPE.params_total
    x = torch.randn(5, SHAPE.d_model, generator=torch.Generator().manual_seed(0))
    for shape, moved in ((layer, False), (rms, True)):
        norm = Norm(shape, 1.0)
        assert torch.allclose(norm(x), norm(x + 1), atol=1e-3) is not moved


def test_a_looped_model_is_the_deep_one_whose_blocks_are_all_alike() -> None:
    looped, deep = model_of(replace(SHAPE, looped=True)), model_of(SHAPE)
    state = looped.state_dict()
    for layer in (1, 2):
        own = {
            k.replace("blocks.0", f"blocks.{layer}"): w
            for k, w in looped.state_dict().items()
            if k.startswith("blocks.0")
        }
        state |= own
    deep.load_state_dict(state)
    assert torch.equal(looped(some_tokens()), deep(some_tokens()))


def test_a_full_rank_factorisation_is_the_embedding_in_one_piece() -> None:
    whole, factors = model_of(SHAPE), model_of(replace(SHAPE, embedding_rank=SHAPE.d_model))
    state = whole.state_dict() | {"embedding_projection": torch.eye(SHAPE.d_model)}
    factors.load_state_dict(state)
    assert torch.allclose(whole(some_tokens()), factors(some_tokens()), rtol=0, atol=1e-12)


def test_factors_start_with_the_spread_of_an_embedding_in_one_piece() -> None:
    shape = replace(SHAPE, vocab_size=300, d_model=240, embedding_rank=60)
    model = Transformer(shape, STANDARD)
    model.initialise(torch.Generator().manual_seed(0))
    assert model.embedding_projection is not None
    product = model.embedding.weight @ model.embedding_projection
    assert float(product.detach().std()) == pytest.approx(0.2, rel=0.05)


def test_keys_smear_in_equal_parts_at_first_and_not_at_all_at_a_large_alpha() -> None:
    model, plain = (model_of(replace(SHAPE, smeared_keys=smeared)) for smeared in (True, False))
    plain.load_state_dict({k: w for k, w in model.state_dict().items() if "smear" not in k})
    for block in model.blocks:
        block.get_parameter("attention.smear").data.fill_(50.0)
    assert torch.allclose(model(some_tokens()), plain(some_tokens()), rtol=0, atol=1e-12)
    model.initialise(torch.Generator().manual_seed(0))
    assert model.blocks[0].get_parameter("attention.smear").abs().max() == 0.0
    assert not torch.allclose(model(some_tokens()), plain(some_tokens()), atol=1e-3)


def test_in_bfloat16_every_option_comes_near_its_exact_logits() -> None:
    for shape in ALL:
        model, tokens = model_of(shape).float(), some_tokens(shape)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = model(tokens).float()
        exact = model(tokens)
        error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
        assert 0 < error < 0.1, shape
