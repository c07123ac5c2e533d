"""Maps in groups: against a convolution and a shuffle, and models of them against dense ones."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fathom.models.measure.diagnostics import layers_on_repeats
from fathom.models.network.grouped_linear import GroupedLinear, linear, whole_matrix
from fathom.models.optim import set_learning_rate
from fathom.models.options import Residual
from fathom.models.parametrization import OptimizerName, Role, Scheme, deepnorm_gain, rules
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

DENSE = Shape(depth=3, d_model=32, d_ff=48, n_heads=4, head_dim=8, vocab_size=60, context=32)
GROUPED = replace(DENSE, groups=4)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"gated": True, "queries_per_key": 2, "qk_norm": True},
    {"biases": True, "smeared_keys": True, "groups": 2},
    {"looped": True, "d_ff": 0, "groups": 8},
    {"residual": Residual.DEEPNORM, "bidirectional": True, "groups": 16, "queries_per_key": 2},
)


def drawn(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def dense_twin(model: Any) -> Any:
    """The dense model whose matrices are those of a model in groups, with zeros between them."""
    twin = model_of(replace(model.shape, groups=1))
    state = model.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, GroupedLinear):
            state[f"{name}.weight"] = whole_matrix(module)
            if module.bias is not None:
                state[f"{name}.bias"] = shuffled(module.bias, module.groups)
    twin.load_state_dict(state)
    return twin


def shuffled(x_O: Tensor, groups: int) -> Tensor:
    y_O: Tensor = nn.ChannelShuffle(groups)(x_O[None, :, None, None])[0, :, 0, 0]
    return y_O


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(12, 20, 2), (12, 6, 3), (32, 64, 8)])
def test_a_map_is_a_convolution_and_a_shuffle(
    inputs: int, outputs: int, groups: int, bias: bool
) -> None:
    ours = GroupedLinear(inputs, outputs, groups, bias=bias)
    theirs = nn.Conv1d(inputs, outputs, 1, groups=groups, bias=bias)
    state = {name: weight.view_as(theirs.get_parameter(name)) for name, weight in
             ours.named_parameters()}  # fmt: skip
    theirs.load_state_dict(state)
    x_NI = drawn(7, inputs).requires_grad_()
    y_NO1 = nn.ChannelShuffle(groups)(theirs(x_NI[..., None])[..., None])[..., 0]
    torch.testing.assert_close(ours(x_NI), y_NO1[..., 0], rtol=1e-6, atol=1e-6)

    weights_NO = drawn(7, outputs, seed=1)
    found = torch.autograd.grad((ours(x_NI) * weights_NO).sum(), [x_NI, *ours.parameters()])
    wanted = torch.autograd.grad(
        (y_NO1[..., 0] * weights_NO).sum(), [x_NI, *theirs.parameters()]
    )  # of the input, then of weight and bias
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.view_as(one), rtol=1e-5, atol=1e-6)


def test_features_of_all_groups_reach_every_output_of_two_maps() -> None:
    first, second = (GroupedLinear(16, 16, 4, bias=False) for _ in range(2))
    both = whole_matrix(second) @ whole_matrix(first)
    assert bool((both != 0).all())
    assert (whole_matrix(first) != 0).sum() == 16 * 4


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_model_is_the_dense_one_with_zeros_between_groups(options: dict[str, Any]) -> None:
    model = model_of(replace(GROUPED, **options), noise=0.2)
    tokens, twin = some_tokens(GROUPED), dense_twin(model)
    torch.testing.assert_close(model.eval()(tokens), twin.eval()(tokens), rtol=1e-4, atol=1e-5)
    found, wanted = layers_on_repeats(model, seed=0), layers_on_repeats(twin, seed=0)
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, rtol=1e-4, atol=1e-4)


def test_one_group_is_the_dense_model_with_its_fused_block() -> None:
    assert DENSE.groups == 1
    assert type(linear(DENSE, 4, 8)) is nn.Linear
    assert DENSE.has_plain_blocks
    assert not GROUPED.has_plain_blocks
    layer = linear(DENSE, 4, 8)
    assert whole_matrix(layer) is layer.weight


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_weight_learns_and_a_layer_computed_twice_has_the_same_gradient(
    options: dict[str, Any],
) -> None:
    shape = replace(GROUPED, **options)
    model, tokens = model_of(shape, noise=0.1), some_tokens(shape)
    assert_every_weight_learns(model, tokens)


def test_in_bfloat16_it_computes_nearly_the_same() -> None:
    model, tokens = model_of(replace(GROUPED, biases=True)).eval(), some_tokens(GROUPED)
    exact = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model(tokens)
    spread = float(exact.detach().std())
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.1 * spread)


@pytest.mark.parametrize("scheme", [Scheme.MUP, Scheme.COMPLETEP])
def test_rates_and_spreads_follow_the_inputs_of_a_group(scheme: Scheme) -> None:
    parametrization = scheme_of(scheme, width=16, depth=2, head_dim=16)
    shape = replace(GROUPED, d_model=128, d_ff=192, n_heads=16)
    narrow = replace(shape, d_model=32, d_ff=48, n_heads=4, groups=1)
    by_role, of_narrow = (rules(parametrization, each) for each in (shape, narrow))
    for role in (Role.ATTENTION_IN, Role.ATTENTION_OUT, Role.FEED_FORWARD_IN,
                 Role.FEED_FORWARD_OUT):  # fmt: skip
        rule, narrow_rule = by_role[role], of_narrow[role]
        assert (rule.init_std, rule.learning_rate) == (
            narrow_rule.init_std,
            narrow_rule.learning_rate,
        )
        assert rule.weight_decay == narrow_rule.weight_decay
    model = model_of(shape, parametrization)
    for weight, role, rule in model.weights():
        if role in (Role.ATTENTION_IN, Role.FEED_FORWARD_OUT):
            assert float(weight.detach().std()) == pytest.approx(rule.init_std, rel=0.05)


@pytest.mark.parametrize("residual", [Residual.POST, Residual.DEEPNORM])
def test_matrices_of_other_residuals_start_by_the_fans_of_a_group(residual: Residual) -> None:
    shape = replace(GROUPED, d_model=256, n_heads=32, d_ff=512, depth=2, residual=residual)
    gain = deepnorm_gain(shape) if residual is Residual.DEEPNORM else 1.0
    model = model_of(shape, scheme_of())
    into = model.get_parameter("blocks.1.attention.into.weight").detach()
    for block in into.chunk(4):
        queries, keys, values = block.chunk(3)
        for part, factor in ((queries, 1.0), (keys, 1.0), (values, gain)):
            assert float(part.std()) == pytest.approx(factor / 8, rel=0.05)  # sqrt(2 / (64 + 64))
    out = model.get_parameter("blocks.1.feed_forward.out.weight").detach()
    assert float(out.std()) == pytest.approx(gain * (2 / (64 + 128)) ** 0.5, rel=0.05)


def test_muon_orthogonalises_the_block_of_each_group_by_itself() -> None:
    shape = replace(GROUPED, gated=True, queries_per_key=2)
    model = model_of(shape)
    optimizer = optimizer_of(model, OptimizerName.MUON)
    groups = optimizer._muon.param_groups
    sizes = [tuple(part.shape) for group in groups for part in group["params"]]
    assert {size: sizes.count(size) for size in set(sizes)} == {
        (8, 8): 3 * 4 * 2,  # queries, and the output of attention
        (4, 8): 3 * 4 * 2,  # keys and values
        (12, 8): 3 * 4 * 2,  # gates and hidden features
        (8, 12): 3 * 4,
    }
    before = model.get_parameter("blocks.0.attention.into.weight").detach().clone()
    set_learning_rate(optimizer, 0.01)
    gradients(model, some_tokens(shape))
    optimizer.clipped_step(1.0)
    change = model.get_parameter("blocks.0.attention.into.weight").detach() - before
    for block in change.chunk(4):
        values = torch.linalg.svdvals(block[:8])
        assert float(values.min()) > 0.4 * float(values.max())


def test_a_record_has_groups_only_if_its_shape_has() -> None:
    assert shape_from_json(to_values(GROUPED)) == GROUPED
    assert "groups" not in to_values(DENSE)
