"""State-space mixers: the scan against the recurrence, and mixers against those of transformers."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    BambaConfig,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
)
from transformers.models.bamba.modeling_bamba import BambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

from fathom.models.layers.state_space import CHUNK, StateSpace
from fathom.models.measure.diagnostics import layers_on_repeats, layers_on_text
from fathom.models.network.decoding_cache import LayerCache
from fathom.models.network.state_space import StateSpaceMixer, scan
from fathom.models.optim import set_learning_rate
from fathom.models.parametrization import OptimizerName, Role, Scheme, rules
from fathom.models.shape import Shape
from fathom.search.record_json import shape_from_json, to_values
from tests.support.models import (
    assert_every_weight_learns,
    gradients,
    model_of,
    optimizer_of,
    scheme_of,
    some_tokens,
)

DENSE = Shape(depth=4, d_model=32, d_ff=24, n_heads=2, head_dim=16, vocab_size=50, context=16)
HYBRID = replace(DENSE, state_space=StateSpace(pattern="MMMA", state=8))
ALL_STATE = replace(DENSE, state_space=StateSpace(pattern="M", state=8, conv=3))


def mixers_of(model: Any) -> list[StateSpaceMixer]:
    return [module for module in model.modules() if isinstance(module, StateSpaceMixer)]


def inputs_of_a_scan(T: int, *, seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x_BTHP, write_BTS, read_BTS = (
        torch.randn(2, T, *rest, generator=generator) for rest in ((3, 4), (5,), (5,))
    )
    return x_BTHP, -torch.rand(2, T, 3, generator=generator), write_BTS, read_BTS


def recurrence(x: Tensor, decay: Tensor, write: Tensor, read: Tensor) -> Tensor:
    """The scan a second time, a token after the other."""
    state = x.new_zeros(*x.shape[:1], *x.shape[2:], write.shape[-1])
    outputs = []
    for t in range(x.shape[1]):
        state = state * decay[:, t, :, None, None].exp()
        state = state + x[:, t, ..., None] * write[:, t, None, None]
        outputs.append((state * read[:, t, None, None]).sum(-1))
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("T", [1, 3, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 4 * CHUNK + 7])
def test_the_scan_is_the_recurrence_at_lengths_that_fill_no_chunk(T: int) -> None:
    inputs = inputs_of_a_scan(T)
    torch.testing.assert_close(scan(*inputs), recurrence(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 3])
def test_a_scan_goes_on_where_another_ended(place: int) -> None:
    inputs, kept = inputs_of_a_scan(3 * CHUNK), LayerCache()
    before = scan(*(part[:, :place] for part in inputs), kept=kept)
    after = scan(*(part[:, place:] for part in inputs), kept=kept)
    both = torch.cat((before, after), 1)
    torch.testing.assert_close(both, recurrence(*inputs), rtol=1e-5, atol=1e-5)


def test_the_scan_has_the_gradient_of_the_recurrence() -> None:
    inputs = [part.double().requires_grad_() for part in inputs_of_a_scan(CHUNK + 9)]
    scan(*inputs).square().sum().backward()  # type: ignore[no-untyped-call]
    found = [part.grad for part in inputs]
    for part in inputs:
        part.grad = None
    recurrence(*inputs).square().sum().backward()  # type: ignore[no-untyped-call]
    for one, part in zip(found, inputs, strict=True):
        torch.testing.assert_close(one, part.grad)


@pytest.mark.parametrize("rate", [1e-8, 50.0])
def test_states_that_last_or_vanish_leave_values_and_gradients_finite(rate: float) -> None:
    x, decay, write, read = inputs_of_a_scan(3 * CHUNK)
    decay = (decay * rate).requires_grad_()
    y = scan(x.requires_grad_(), decay, write, read)
    torch.testing.assert_close(y, recurrence(x, decay, write, read), rtol=1e-3, atol=1e-3)
    y.sum().backward()  # type: ignore[no-untyped-call]
    for part in (x, decay):
        assert part.grad is not None
        assert part.grad.isfinite().all()


@pytest.mark.parametrize("pattern", ["M", "MMMA", "AM"])
def test_a_later_token_never_changes_an_earlier_output(pattern: str) -> None:
    shape = replace(HYBRID, context=2 * CHUNK + 5, state_space=StateSpace(pattern=pattern, state=8))
    model, tokens = model_of(shape, noise=0.2).double().eval(), some_tokens(shape, rows=1)
    before = model(tokens)
    for place in (1, CHUNK - 1, CHUNK, 2 * CHUNK + 4):
        other = tokens.clone()
        other[:, place] = 1 + tokens[:, place] % (shape.vocab_size - 1)
        after = model(other)
        torch.testing.assert_close(after[:, :place], before[:, :place], rtol=0, atol=1e-12)
        assert not torch.allclose(after[:, place:], before[:, place:])


def test_a_prefix_has_the_outputs_that_it_has_in_a_longer_text() -> None:
    model, tokens = model_of(replace(HYBRID, context=90), noise=0.2).eval(), some_tokens(HYBRID)
    longer = torch.cat([tokens] * 5, 1)
    for length in (1, 7, 16, 65):
        torch.testing.assert_close(
            model(longer[:, :length]), model(longer)[:, :length], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("options", [{}, {"gated": True}, {"d_ff": 0}], ids=str)
def test_a_pattern_of_attention_alone_is_the_dense_model_bit_by_bit(
    options: dict[str, Any],
) -> None:
    dense = replace(DENSE, **options)
    same = replace(dense, state_space=StateSpace(pattern="A"))
    ours, theirs = model_of(same), model_of(dense)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    tokens = some_tokens(dense)
    found, wanted = gradients(ours, tokens), gradients(theirs, tokens)
    assert torch.equal(ours.eval()(tokens), theirs.eval()(tokens))
    for name, gradient in wanted.items():
        assert torch.equal(found[name], gradient), name
    assert same.parameter_groups == dense.parameter_groups
    assert same.forward_flops_per_token == dense.forward_flops_per_token


def weights_there(mixer: StateSpaceMixer) -> dict[str, Tensor]:
    """The weights of a mixer under the names that transformers' classes share."""
    theirs = {"state_in": "in_proj", "state_out": "out_proj", "conv": "conv1d"}
    parts = [(name.partition("."), weight) for name, weight in mixer.state_dict().items()]
    return {
        theirs.get(module, module) + dot + kind: weight for (module, dot, kind), weight in parts
    }


def mamba2(shape: Shape, **more: Any) -> Mamba2Config:
    space = shape.state_space
    assert space is not None
    return Mamba2Config(
        hidden_size=shape.d_model, num_heads=space.expand * shape.n_heads,
        head_dim=shape.head_dim, state_size=space.state, expand=space.expand, n_groups=1,
        conv_kernel=space.conv, chunk_size=8, num_hidden_layers=shape.depth,
        vocab_size=shape.vocab_size, layer_norm_epsilon=1e-5, use_bias=False, **more,
    )  # fmt: skip


def bamba(shape: Shape) -> BambaConfig:
    space = shape.state_space
    assert space is not None
    return BambaConfig(
        hidden_size=shape.d_model, mamba_n_heads=space.expand * shape.n_heads,
        mamba_d_head=shape.head_dim, mamba_d_state=space.state, mamba_expand=space.expand,
        mamba_n_groups=1, mamba_d_conv=space.conv, mamba_chunk_size=8, num_hidden_layers=2,
        num_attention_heads=shape.n_heads, num_key_value_heads=shape.n_heads,
    )  # fmt: skip


@pytest.mark.parametrize("T", [1, 7, 16, 100])
@pytest.mark.parametrize("kind", ["Mamba2", "Bamba"])
@pytest.mark.parametrize(
    "space", [{}, {"expand": 1, "state": 5}, {"expand": 3, "conv": 2}], ids=str
)
def test_a_mixer_is_that_of_transformers(space: dict[str, Any], kind: str, T: int) -> None:
    shape = replace(DENSE, state_space=replace(StateSpace(pattern="M", state=8), **space))
    ours = mixers_of(model_of(shape, noise=0.3))[0].eval()
    theirs = Mamba2Mixer(mamba2(shape), 0) if kind == "Mamba2" else BambaMixer(bamba(shape), 0)
    theirs.load_state_dict(weights_there(ours))
    assert sum(w.numel() for w in ours.parameters()) == sum(w.numel() for w in theirs.parameters())
    x_BTD = torch.randn(3, T, 32, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        y_BTD = ours(x_BTD.flatten(0, 1), T).view(3, T, 32)
        torch.testing.assert_close(y_BTD, theirs.eval()(x_BTD), rtol=1e-4, atol=1e-4)


def test_layers_without_feed_forward_have_the_parameters_of_mamba_2() -> None:
    shape = replace(ALL_STATE, d_ff=0)
    with torch.device("meta"):
        theirs = Mamba2ForCausalLM(mamba2(shape, tie_word_embeddings=True))
    assert shape.params_total == sum(weight.numel() for weight in theirs.parameters())
    assert shape.params_non_embedding == shape.params_total - 50 * 32


@pytest.mark.parametrize("pattern", ["M", "MMMA", "AMM"])
def test_a_hybrid_has_the_parameters_of_granite_4(pattern: str) -> None:
    shape = replace(
        HYBRID, depth=5, gated=True, tied=False, queries_per_key=2 if "A" in pattern else 1,
        state_space=StateSpace(pattern=pattern, state=12),
    )  # fmt: skip
    space = shape.state_space
    assert space is not None
    config = GraniteMoeHybridConfig(
        hidden_size=32, shared_intermediate_size=24, num_hidden_layers=5, vocab_size=50,
        num_attention_heads=2, num_key_value_heads=shape.kv_heads, num_local_experts=0,
        layer_types=["linear_attention" if space.at(i) else "full_attention" for i in range(5)],
        mamba_n_heads=4, mamba_d_head=16, mamba_d_state=12, mamba_n_groups=1,
        tie_word_embeddings=False, position_embedding_type="rope",
    )  # fmt: skip
    with torch.device("meta"):
        theirs = GraniteMoeHybridForCausalLM(config)
    assert shape.params_total == sum(weight.numel() for weight in theirs.parameters())


@pytest.mark.parametrize("shape", [HYBRID, ALL_STATE, replace(ALL_STATE, d_ff=0)])
def test_every_weight_learns_and_a_layer_computed_twice_has_the_same_gradient(shape: Shape) -> None:
    model, tokens = model_of(shape), some_tokens(shape)
    assert_every_weight_learns(model, tokens)


def test_in_bfloat16_it_computes_nearly_the_same_and_keeps_states_exact() -> None:
    model, tokens = model_of(replace(HYBRID, context=80)).eval(), some_tokens(HYBRID, length=80)
    exact = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model(tokens)
    spread = float(exact.detach().std())
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.1 * spread)


def test_mixers_start_as_mamba_2_does() -> None:
    model = model_of(replace(ALL_STATE, n_heads=200, head_dim=2))
    for mixer in mixers_of(model):
        rates, steps = mixer.A_log.detach().exp(), F.softplus(mixer.dt_bias.detach())
        assert 1 <= float(rates.min()) < 1.5
        assert 15 < float(rates.max()) <= 16
        assert 1e-3 <= float(steps.min()) < 1.5e-3
        assert 0.08 < float(steps.max()) <= 0.1 + 1e-6
        weight = mixer.conv.weight.detach()
        assert float(weight.abs().max()) <= 3**-0.5
        assert float(weight.std()) == pytest.approx(1 / 3, rel=0.05)
        assert mixer.conv.bias is not None
        assert not mixer.conv.bias.any()
        assert bool((mixer.D == 1).all())


@pytest.mark.parametrize("scheme", Scheme)
def test_matrices_have_the_rates_of_hidden_ones_and_vectors_those_of_gains(scheme: Scheme) -> None:
    parametrization = scheme_of(scheme, width=16, depth=2, head_dim=16)
    shape = replace(HYBRID, d_model=64, n_heads=8)
    model, by_role = model_of(shape, parametrization), rules(parametrization, shape)
    found = {weight: rule for weight, _, rule in model.weights()}
    mixer = mixers_of(model)[0]
    for weight, role in (
        (mixer.state_in.weight, Role.ATTENTION_IN),
        (mixer.state_out.weight, Role.ATTENTION_OUT),
    ):
        assert found[weight] == by_role[role]
        std = float(weight.detach().std())
        assert std == pytest.approx(by_role[role].init_std, rel=0.1)
    for vector in (mixer.A_log, mixer.dt_bias, mixer.D, mixer.conv.weight):
        assert found[vector] == by_role[Role.NORM]
        assert found[vector].weight_decay == 0


def test_muon_orthogonalises_what_each_part_of_the_first_map_computes_by_itself() -> None:
    model = model_of(replace(ALL_STATE, d_ff=0))
    optimizer = optimizer_of(model, OptimizerName.MUON)
    sizes = {
        tuple(part.shape) for group in optimizer._muon.param_groups for part in group["params"]
    }
    assert sizes == {(64, 32), (8, 32), (4, 32), (32, 64)}
    set_learning_rate(optimizer, 0.01)
    gradients(model, some_tokens(ALL_STATE))
    optimizer.clipped_step(1.0)
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_layers_are_measured_and_attention_only_where_all_layers_have_it() -> None:
    model, tokens = model_of(HYBRID).eval(), some_tokens(HYBRID)
    assert list(layers_on_text(model, tokens)) == ["rank_ratio"]
    assert layers_on_repeats(model, seed=0) == {}
    same = model_of(replace(HYBRID, state_space=StateSpace(pattern="A"))).eval()
    assert "attention_entropy" in layers_on_text(same, tokens)
    assert "copying" in layers_on_repeats(same, seed=0)


def test_a_record_has_state_spaces_only_if_its_shape_has() -> None:
    assert shape_from_json(to_values(HYBRID)) == HYBRID
    assert "state_space" not in to_values(DENSE)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 8])
def test_a_pattern_is_repeated_over_the_depth(depth: int) -> None:
    shape = replace(HYBRID, depth=depth)
    kinds = [isinstance(block.attention, StateSpaceMixer) for block in model_of(shape).blocks]
    assert kinds == [True, True, True, False, True, True, True, False][:depth]
    assert shape.state_layers == sum(kinds)
    assert math.isclose(shape.attentions + shape.state_layers, depth)
