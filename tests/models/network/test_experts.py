"""Mixtures of experts: against the dense network, the reference of each part, and a plain loss."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from fathom.models.layers.experts import Experts
from fathom.models.network import experts as network
from fathom.models.optim import set_learning_rate
from fathom.models.parametrization import OptimizerName, Role, Scheme, rules
from fathom.models.shape import Shape
from fathom.search.record_json import shape_from_json, to_values
from tests.support.models import gradients, model_of, optimizer_of, scheme_of, some_tokens

DENSE = Shape(depth=4, d_model=32, d_ff=24, n_heads=2, head_dim=16, vocab_size=50, context=16)
FOUR = replace(DENSE, experts=Experts(number=4, top_k=2, balance=0.0))
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"gated": True}, {"d_ff": 23})


def experts_of(model: Any) -> list[network.MixtureOfExperts]:
    return [module for module in model.modules() if isinstance(module, network.MixtureOfExperts)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_expert_is_the_dense_network_bit_by_bit(options: dict[str, Any]) -> None:
    one = replace(DENSE, experts=Experts(number=1, top_k=1), **options)
    ours, dense = model_of(one), model_of(replace(one, experts=None))
    dense.regularise(dropout=1e-9, label_smoothing=0.0)  # or it computes a block as one function
    state = {name: value for name, value in ours.state_dict().items() if "router" not in name}
    dense.load_state_dict(state)
    tokens = some_tokens(one)
    found, wanted = gradients(ours, tokens), gradients(dense, tokens)
    assert torch.equal(ours.eval()(tokens), dense.eval()(tokens))
    for name, gradient in wanted.items():
        assert torch.equal(found[name], gradient), name


def test_grouped_products_are_those_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = model_of(FOUR), some_tokens(FOUR)
    assert network.is_grouped(experts_of(model)[0].into.weight.view(4, -1, 32))
    grouped, found = model(tokens), gradients(model, tokens)
    monkeypatch.setattr(network, "is_grouped", lambda _: False)
    torch.testing.assert_close(grouped, model(tokens), rtol=1e-6, atol=1e-6)
    for name, gradient in gradients(model, tokens).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6)


def test_sizes_that_no_grouped_product_has_take_the_loop() -> None:
    assert not network.is_grouped(torch.empty(4, 23, 32))


@pytest.mark.parametrize("every", [1, 2])
def test_the_gradient_has_that_of_the_balance_loss(every: int) -> None:
    experts = Experts(number=4, top_k=2, every=every, balance=0.5)
    balanced, tokens = model_of(replace(DENSE, experts=experts)), some_tokens(DENSE)
    plain = model_of(replace(DENSE, experts=replace(experts, balance=0.0)))
    logits: list[Tensor] = []
    for module in experts_of(plain):
        module.router.register_forward_hook(lambda *args: logits.append(args[2]))
    loss = F.cross_entropy(plain(tokens).flatten(0, 1), tokens.flatten())
    for of_layer in logits:
        loss = loss + 0.5 * load_balancing_loss_func((of_layer,), 4, 2)
    loss.backward()  # type: ignore[no-untyped-call]
    found = gradients(balanced, tokens)
    for name, weight in plain.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-7)


def test_a_layer_that_is_computed_twice_has_the_same_gradient() -> None:
    model, tokens = model_of(replace(FOUR, experts=Experts(number=4, top_k=2))), some_tokens(FOUR)
    once = gradients(model, tokens)
    model.recomputes = True
    for name, gradient in gradients(model, tokens).items():
        torch.testing.assert_close(gradient, once[name])


def test_each_of_several_pieces_has_its_part_of_the_balance() -> None:
    model = model_of(replace(FOUR, experts=Experts(number=4, top_k=2, balance=10.0)))
    plain, tokens = model_of(FOUR), some_tokens(FOUR)
    found, without = gradients(model, tokens), gradients(plain, tokens)
    for module in experts_of(model):
        module.pieces = 2
    halved, name = gradients(model, tokens), "blocks.3.feed_forward.router.weight"
    whole, part = found[name] - without[name], halved[name] - without[name]
    torch.testing.assert_close(part, whole / 2, rtol=1e-3, atol=1e-6)


def test_biases_follow_the_load_and_change_the_choice_alone() -> None:
    biased = replace(FOUR, experts=Experts(number=4, top_k=1, balance="bias"))
    model, tokens = model_of(biased), some_tokens(biased, rows=8)
    module = experts_of(model)[0]
    assert module.bias is not None
    gradients(model.eval(), tokens)
    assert not module.bias.any()
    module.router.weight.data[0] += 10 * module.router.weight.data.abs().max()
    x_ND = torch.ones(8, 32)
    module.train()
    before, chosen, _ = module.routed(x_ND)
    module(x_ND).sum().backward()
    moved = module.bias.sign()
    assert set(moved[chosen.unique()].tolist()) == {-1.0}  # type: ignore[no-untyped-call]
    assert float(moved.abs().min()) == 1.0
    assert float(module.bias.abs().max()) == pytest.approx(network.BIAS_STEP)
    module.bias[:] = torch.tensor([0.0, 0.0, 0.0, 9.0])
    weights, chosen, load = module.routed(x_ND)
    assert chosen.unique().tolist() == [3]  # type: ignore[no-untyped-call]
    assert load.tolist() == [0, 0, 0, 8]
    torch.testing.assert_close(weights, before)  # a single expert's sums to 1 all the same


@pytest.mark.parametrize("top_k", [1, 2])
def test_with_biases_and_shared_experts_it_is_deepseeks(top_k: int) -> None:
    experts = Experts(number=4, top_k=top_k, shared=2, balance="bias")
    model = model_of(replace(DENSE, gated=True, experts=experts))
    ours = experts_of(model)[0].eval()
    theirs = DeepseekV3MoE(
        DeepseekV3Config(
            hidden_size=32, moe_intermediate_size=24, n_routed_experts=4, n_shared_experts=2,
            num_experts_per_tok=top_k, n_group=1, topk_group=1, routed_scaling_factor=1.0,
        )
    )  # fmt: skip
    assert ours.bias is not None
    assert ours.shared is not None
    ours.bias[:] = torch.tensor([0.1, -0.1, 0.0, 0.2])
    gate, up = ours.shared.into.weight.data.chunk(2)
    theirs.load_state_dict(
        {
            "experts.gate_up_proj": ours.into.weight.data.view(4, 48, 32),
            "experts.down_proj": ours.out.weight.data.view(4, 32, 24),
            "gate.weight": ours.router.weight.data,
            "gate.e_score_correction_bias": ours.bias,
            "shared_experts.gate_proj.weight": gate,
            "shared_experts.up_proj.weight": up,
            "shared_experts.down_proj.weight": ours.shared.out.weight.data,
        }
    )
    x_ND = torch.randn(40, 32, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        torch.testing.assert_close(ours(x_ND), theirs(x_ND[None])[0], rtol=1e-4, atol=1e-4)


def test_every_weight_learns_and_the_router_with_a_single_expert_too() -> None:
    shape = replace(FOUR, experts=Experts(number=3, top_k=1, shared=1, balance=0.0))
    for name, gradient in gradients(model_of(shape), some_tokens(shape, rows=8)).items():
        assert gradient.abs().sum() > 0, name


@pytest.mark.parametrize("scheme", Scheme)
def test_each_expert_starts_and_moves_by_its_own_fan_in(scheme: Scheme) -> None:
    parametrization = scheme_of(scheme, width=16, depth=2, head_dim=16)
    shape = replace(DENSE, d_model=128, d_ff=96, experts=Experts(number=4, top_k=2, shared=1))
    model = model_of(shape, parametrization)
    module, by_role = experts_of(model)[0], rules(parametrization, shape)
    found = {weight: rule for weight, _, rule in model.weights()}
    for part, role in (
        (module.router, Role.ROUTER),
        (module.into, Role.FEED_FORWARD_IN),
        (module.out, Role.FEED_FORWARD_OUT),
    ):
        assert found[part.weight] == by_role[role]
        assert float(part.weight.detach().std()) == pytest.approx(by_role[role].init_std, rel=0.1)
    dense = rules(parametrization, replace(shape, experts=None))
    assert by_role == dense, "an expert is as wide as d_ff"


def test_muon_orthogonalises_each_expert_by_itself() -> None:
    shape = replace(FOUR, gated=True, experts=Experts(number=3, top_k=1, shared=2))
    model = model_of(shape)
    optimizer = optimizer_of(model, OptimizerName.MUON)
    sizes = {
        tuple(part.shape) for group in optimizer._muon.param_groups for part in group["params"]
    }
    assert sizes == {(32, 32), (24, 32), (32, 24), (32, 48)}  # the last of both shared experts
    set_learning_rate(optimizer, 0.01)
    gradients(model, some_tokens(shape))
    optimizer.clipped_step(1.0)
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_a_record_has_experts_only_if_its_shape_has() -> None:
    shape = replace(FOUR, experts=Experts(number=4, top_k=2, balance="bias"))
    assert shape_from_json(to_values(shape)) == shape
    assert "experts" not in to_values(DENSE)
