"""The computation of the model: causal, relative where it should be, every option in use."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.models.network.attention import turned
from fathom.models.network.transformer import Transformer, role_of, rotary_table
from fathom.models.options import Activation, Positions
from fathom.models.parametrization import Parametrization, Role, Scheme, rules
from fathom.models.shape import Shape

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=16, base_depth=1, base_head_dim=4, init_std=0.2
)
SHAPE = Shape(depth=2, d_model=24, d_ff=40, n_heads=3, head_dim=8, vocab_size=13, context=10)
OPTIONS = tuple(
    replace(SHAPE, positions=positions, gated=gated, tied=tied, d_ff=d_ff, n_heads=n_heads)
    for positions, gated, tied, d_ff, n_heads in itertools.product(
        Positions, (False, True), (False, True), (0, 40), (3, 2)
    )
)


def model_of(
    shape: Shape, *, seed: int = 0, parametrization: Parametrization = PARAMETRIZATION
) -> Transformer:
    model = Transformer(shape, parametrization)
    model.initialise(torch.Generator().manual_seed(seed))
    return model


def some_tokens(shape: Shape = SHAPE, *, batch: int = 2, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(shape.vocab_size, (batch, shape.context), generator=generator)


def some_loss(model: Transformer, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@pytest.mark.parametrize("shape", OPTIONS)
def test_a_later_token_never_changes_an_earlier_logit(shape: Shape) -> None:
    model, tokens = model_of(shape), some_tokens(shape)
    before = model(tokens)
    for changed in range(1, shape.context):
        other = tokens.clone()
        other[:, changed] = (other[:, changed] + 1) % shape.vocab_size
        after = model(other)
        assert torch.allclose(before[:, :changed], after[:, :changed], atol=1e-6)
        assert not torch.allclose(before[:, changed], after[:, changed], atol=1e-3)


@pytest.mark.parametrize("shape", OPTIONS)
def test_every_parameter_has_a_gradient(shape: Shape) -> None:
    model = model_of(shape)
    some_loss(model, some_tokens(shape)).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        # The last learned position is never used: the last token is only a target.
        rows = gradient[:-1] if name == "positions" else gradient
        assert rows.abs().sum(-1).min() > 0 or name == "embedding.weight", name
        assert gradient.abs().max() > 0, name


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("gated", True),
        ("queries_per_key", 3),
        ("qk_norm", True),
        ("activation", Activation.RELU2),
        ("tied", False),
        ("positions", Positions.NONE),
        ("positions", Positions.LEARNED),
        ("depth", 3),
        ("d_model", 20),
        ("d_ff", 41),
        ("d_ff", 0),
        ("n_heads", 2),
        ("head_dim", 6),
        ("vocab_size", 14),
        ("embedding_rank", 7),
        ("smeared_keys", True),
        ("looped", True),
        ("bidirectional", True),
    ],
)
def test_each_knob_of_a_shape_changes_the_output(knob: str, value: Any) -> None:
    tokens = some_tokens()
    before, after = model_of(SHAPE)(tokens), model_of(replace(SHAPE, **{knob: value}))(tokens)
    assert not torch.allclose(before, after[..., : SHAPE.vocab_size], atol=1e-3)


def test_the_context_sets_how_many_positions_are_learned() -> None:
    shape = replace(SHAPE, positions=Positions.LEARNED, context=17)
    positions = model_of(shape).positions
    assert positions is not None
    assert positions.shape == (17, SHAPE.d_model)


@pytest.mark.parametrize("scheme", Scheme)
def test_each_scheme_gives_another_model(scheme: Scheme) -> None:
    tokens = some_tokens()
    outputs = [
        model_of(SHAPE, parametrization=replace(PARAMETRIZATION, scheme=other))(tokens)
        for other in Scheme
        if other is not scheme
    ]
    own = model_of(SHAPE, parametrization=replace(PARAMETRIZATION, scheme=scheme))(tokens)
    assert all(not torch.allclose(own, other, atol=1e-3) for other in outputs)


def rotated_product(query: Tensor, key: Tensor, at: int, to: int) -> Tensor:
    """The attention logit of a query at one position for a key at another."""
    table = rotary_table(replace(SHAPE, context=64), torch.device("cpu"))
    both = torch.stack((query, key)).repeat_interleave(3, 0).expand(1, 64, 6, -1)
    after = turned(both, table[0])
    return after[0, at, 0] @ after[0, to, 3]


def test_rotary_logits_depend_on_the_offset_alone() -> None:
    query, key = torch.randn(2, SHAPE.head_dim, generator=torch.Generator().manual_seed(0))
    for offset in (0, 1, 5, 17):
        products = [rotated_product(query, key, at + offset, at) for at in (0, 1, 7, 40)]
        assert torch.allclose(torch.stack(products), products[0], atol=1e-4)
    unlike = torch.stack([rotated_product(query, key, offset, 0) for offset in range(8)])
    assert unlike.std() > 0.05


def test_a_rotation_keeps_lengths_and_does_nothing_at_the_first_position() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, SHAPE.context, 6, SHAPE.head_dim, generator=generator)
    after = turned(x, rotary_table(SHAPE, torch.device("cpu"))[0])
    assert torch.allclose(after.norm(dim=-1), x.norm(dim=-1), rtol=1e-5)
    assert torch.equal(after[:, 0], x[:, 0])


def test_rotary_turns_each_pair_by_its_own_angle() -> None:
    # A pair (2i, 2i + 1) is a complex number; position t turns it by t * 10000^(-2i/K).
    K, t = SHAPE.head_dim, 3
    x = torch.randn(1, SHAPE.context, 6, K, generator=torch.Generator().manual_seed(0))
    after = turned(x, rotary_table(SHAPE, torch.device("cpu"))[0])[0, t, 0]
    for i in range(K // 2):
        angle = t * 10_000 ** (-2 * i / K)
        value = complex(x[0, t, 0, 2 * i], x[0, t, 0, 2 * i + 1])
        expected = value * complex(math.cos(angle), math.sin(angle))
        assert abs(complex(after[2 * i], after[2 * i + 1]) - expected) < 1e-5


def first_logits_of_reordered(positions: Positions) -> tuple[Tensor, Tensor]:
    """Logits of a last token after a prefix and after the same prefix in another order."""
    model = model_of(replace(SHAPE, positions=positions, depth=1))
    tokens = some_tokens(batch=1)
    other = torch.cat((tokens[:, :-1].flip(1), tokens[:, -1:]), dim=1)
    return model(tokens)[:, -1], model(other)[:, -1]


def test_one_layer_without_positions_cannot_tell_the_order_and_with_them_it_can() -> None:
    assert torch.allclose(*first_logits_of_reordered(Positions.NONE), atol=1e-5)
    assert not torch.allclose(*first_logits_of_reordered(Positions.ROTARY), atol=1e-4)
    assert not torch.allclose(*first_logits_of_reordered(Positions.LEARNED), atol=1e-4)


def test_a_shorter_sequence_is_a_prefix() -> None:
    for positions in Positions:
        model, tokens = model_of(replace(SHAPE, positions=positions)), some_tokens()
        assert torch.allclose(model(tokens)[:, :4], model(tokens[:, :4]), atol=1e-5)


def test_initialising_is_a_function_of_the_generator_alone() -> None:
    weights = [dict(model_of(SHAPE, seed=seed).named_parameters()) for seed in (7, 7, 8)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    drawn = [name for name in weights[0] if "norm" not in name]
    assert not any(torch.equal(weights[0][name], weights[2][name]) for name in drawn)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("gated", [False, True])
def test_every_weight_starts_with_the_spread_of_its_role(scheme: Scheme, gated: bool) -> None:
    shape = Shape(
        depth=3,
        d_model=96,
        d_ff=160,
        n_heads=4,
        head_dim=32,
        vocab_size=97,
        context=64,
        gated=gated,
        tied=False,
        positions=Positions.LEARNED,
        biases=True,
        embedding_rank=40,
        smeared_keys=True,
    )
    parametrization = replace(PARAMETRIZATION, scheme=scheme)
    by_role, roles = rules(parametrization, shape), set()
    for name, weight in model_of(shape, parametrization=parametrization).named_parameters():
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
    assert roles == set(Role) - {Role.SKIP, Role.CROSS_QUERY, Role.CROSS_KEY_VALUE}


def test_tied_weights_are_one_tensor_with_the_gradients_of_both_uses() -> None:
    tied, untied = model_of(SHAPE), model_of(replace(SHAPE, tied=False))
    assert tied.unembedding is None
    assert untied.unembedding is not None
    weights = {k: v for k, v in tied.state_dict().items() if k != "embedding.weight"}
    shared = tied.embedding.weight.detach().clone()
    untied.load_state_dict(
        weights | {"embedding.weight": shared, "unembedding.weight": shared.clone()}
    )
    for model in (tied, untied):
        some_loss(model, some_tokens()).backward()  # type: ignore[no-untyped-call]
    both = untied.embedding.weight.grad + untied.unembedding.weight.grad  # type: ignore[operator]
    assert torch.allclose(tied.embedding.weight.grad, both, atol=1e-6)  # type: ignore[arg-type]


def test_a_branch_of_weight_zero_leaves_its_block_an_identity() -> None:
    model, tokens = model_of(replace(SHAPE, positions=Positions.NONE)), some_tokens()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("out.weight"):
                weight.zero_()
    embedded = F.rms_norm(model.embedding(tokens), (SHAPE.d_model,), eps=1e-5)
    expected = embedded @ model.embedding.weight.T * model.scales.logits
    assert torch.allclose(model(tokens), expected, atol=1e-5)


def test_attention_equals_its_definition() -> None:
    shape = replace(SHAPE, n_heads=2, positions=Positions.NONE)
    attention = model_of(shape).blocks[0].get_submodule("attention")
    x_BTD = torch.randn(2, 5, shape.d_model, generator=torch.Generator().manual_seed(0))
    weight, out = (attention.get_parameter(f"{name}.weight") for name in ("into", "out"))
    q, k, v = (
        part.view(2, 5, 2, shape.head_dim).transpose(1, 2)
        for part in (x_BTD @ weight.T).chunk(3, dim=-1)
    )
    # CompleteP: the root of the base head dimension, 4, over the head dimension, 8.
    logits = (q @ k.transpose(-1, -2)) * (4**0.5 / 8)
    logits = logits.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    y = (logits.softmax(-1) @ v).transpose(1, 2).reshape(2, 5, -1)
    assert torch.allclose(
        attention(x_BTD.flatten(0, 1), 5, None, None), (y @ out.T).flatten(0, 1), atol=1e-5
    )


def test_an_unknown_parameter_has_no_role() -> None:
    with pytest.raises(KeyError):
        role_of("blocks.0.attention.into.scale")
