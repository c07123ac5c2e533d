"""Parameter groups and the schedule: what AdamW is told, step by step."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fathom.models.network.transformer import Transformer, role_of
from fathom.models.optim import ClippedAdamW, MuonAdamW, rate_at, set_learning_rate
from fathom.models.options import Positions, Residual
from fathom.models.parametrization import MATRICES, OptimizerName, Role, Scheme, rules
from fathom.models.shape import Shape
from tests.support.models import SMALL, model_of, optimizer_of, scheme_of

SHAPE = Shape(
    depth=3, d_model=32, d_ff=48, n_heads=4, head_dim=8, vocab_size=11, context=6, tied=False,
    positions=Positions.LEARNED, biases=True, embedding_rank=8, smeared_keys=True,
)  # fmt: skip


def built(scheme: Scheme = Scheme.COMPLETEP, shape: Shape = SHAPE) -> Transformer:
    model: Transformer = model_of(shape, scheme_of(scheme, init_std=0.1))
    return model


def adamw_of(model: Transformer) -> ClippedAdamW:
    optimizer = optimizer_of(model, betas=(0.8, 0.9), eps=1e-8)
    assert isinstance(optimizer, ClippedAdamW)
    return optimizer


@pytest.mark.parametrize("scheme", Scheme)
def test_each_parameter_is_in_one_group_with_the_settings_of_its_role(scheme: Scheme) -> None:
    model = built(scheme)
    optimizer = adamw_of(model)
    set_learning_rate(optimizer, 3e-3)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    by_role, seen = rules(model.parametrization, SHAPE), []
    for group in optimizer.param_groups:
        for role in {role_of(names.pop(id(parameter))) for parameter in group["params"]}:
            seen.append(role)
            assert group["lr"] == pytest.approx(3e-3 * by_role[role].learning_rate)
            assert group["weight_decay"] == pytest.approx(0.1 * by_role[role].weight_decay)
            assert group["eps"] == pytest.approx(1e-8 * by_role[role].eps)
            assert group["betas"] == (0.8, 0.9)
    assert not names
    groups = {(it["lr"], it["weight_decay"], it["eps"]) for it in optimizer.param_groups}
    assert len(groups) == len(optimizer.param_groups), "what is treated alike is one group"
    # Trained skips are of post-norm models, which CompleteP is not for; the rest is of two stacks
    # or of other kinds of layers.
    of_others = {Role.SKIP, Role.CROSS_QUERY, Role.CROSS_KEY_VALUE, Role.ROUTER}
    of_others |= {Role.STATE_IN, Role.STATE_OUT, Role.STATE}
    assert sorted(seen) == sorted(set(Role) - of_others)


def test_tied_weights_are_optimised_once_and_vectors_do_not_decay() -> None:
    tied = replace(SHAPE, tied=True)
    listed = [p for group in adamw_of(built(shape=tied)).param_groups for p in group["params"]]
    assert len({id(parameter) for parameter in listed}) == len(listed)
    assert sum(parameter.numel() for parameter in listed) == tied.params_total
    post_norm = built(Scheme.MUP, replace(SHAPE, residual=Residual.ADMIN_CLOSED))
    for model in (*map(built, Scheme), post_norm):
        for group in adamw_of(model).param_groups:
            for weight in group["params"]:
                assert (group["weight_decay"] == 0.0) == (weight.dim() == 1)


def test_no_weight_changes_before_a_rate_is_set() -> None:
    model = built()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    stepped(model, adamw_of(model), 0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("limit", [0.5, 1e4])
def test_a_clipped_step_is_clipping_and_then_a_step(limit: float) -> None:
    models = [built() for _ in range(2)]
    for model in models:
        optimizer, parameters = adamw_of(model), list(model.parameters())
        set_learning_rate(optimizer, 0.02)
        generator = torch.Generator().manual_seed(5)
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            if model is models[0]:
                torch.nn.utils.clip_grad_norm_(parameters, limit)
                optimizer.step()
            else:
                optimizer.clipped_step(limit)
    moments = [optimizer.state[parameter]["exp_avg"] for parameter in parameters]
    assert (max(float(moment.abs().max()) for moment in moments) < 1) == (limit < 1)
    for clipped, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(clipped, other, rtol=1e-5, atol=1e-6)


def test_three_fused_steps_equal_adamw_as_published() -> None:
    fused, plain = built(), built()
    optimizer = adamw_of(fused)
    assert all(group["fused"] for group in optimizer.param_groups)
    set_learning_rate(optimizer, 0.02)
    rates = {
        id(p): (group["lr"], group["weight_decay"], group["eps"])
        for group in optimizer.param_groups
        for p in group["params"]
    }
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in plain.parameters()]
    generator = torch.Generator().manual_seed(3)
    for step in (1, 2, 3):
        for (m, v), p, q in zip(moments, fused.parameters(), plain.parameters(), strict=True):
            p.grad = torch.randn(p.shape, generator=generator)
            rate, decay, eps = rates[id(p)]
            m.mul_(0.8).add_(p.grad, alpha=0.2)
            v.mul_(0.9).add_(p.grad.square(), alpha=0.1)
            update = (m / (1 - 0.8**step)) / ((v / (1 - 0.9**step)).sqrt() + eps)
            q.data = q.data * (1 - rate * decay) - rate * update
        optimizer.step()
    for p, q in zip(fused.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-6)


# Muon.

GROUPED = replace(
    SMALL, d_model=48, d_ff=80, n_heads=6, head_dim=8, queries_per_key=3, qk_norm=True, gated=True
)


def muon_of(model: Transformer) -> MuonAdamW:
    optimizer = optimizer_of(model, OptimizerName.MUON, betas=(0.8, 0.9), eps=1e-8)
    assert isinstance(optimizer, MuonAdamW)
    set_learning_rate(optimizer, 0.02)
    return optimizer


def stepped(
    model: Transformer, optimizer: ClippedAdamW | MuonAdamW, *seeds: int, limit: float = 1e9
) -> dict[str, torch.Tensor]:
    """The weights after a step along random gradients for each seed."""
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.clipped_step(limit)
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def of_muon(name: str) -> bool:
    return role_of(name) in MATRICES


@pytest.mark.parametrize("scheme", Scheme)
def test_each_matrix_moves_by_a_nearly_orthogonal_one(scheme: Scheme) -> None:
    model = built(scheme, GROUPED)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    after = stepped(model, muon_of(model), 0)
    rows = {"attention.into": [48, 16, 16], "feed_forward.into": [80, 80]}
    for name in filter(of_muon, before):
        change = after[name] - before[name] * (1 - 0.02 * 0.1)
        module = name.split(".", 2)[2].removesuffix(".weight")
        for part in change.split_with_sizes(rows.get(module, [48])):
            fan_out, fan_in = part.shape
            norm = 0.2 * math.sqrt(max(fan_out, fan_in))  # as large a step as AdamW's
            if scheme is not Scheme.STANDARD:
                norm = 0.2 * math.sqrt(16) * math.sqrt(fan_out / fan_in)
                norm *= 4 if module == "feed_forward.out" else 1
            found = torch.linalg.svdvals(part) / (0.02 * norm)
            assert 0.6 < found.quantile(0.1) < found.max() < 1.3, name


def test_muon_leaves_all_other_weights_to_adamw() -> None:
    models = [built(shape=replace(GROUPED, biases=True)) for _ in range(2)]
    adamw = adamw_of(models[0])
    set_learning_rate(adamw, 0.02)
    plain, muon = stepped(models[0], adamw, 0, 1), stepped(models[1], muon_of(models[1]), 0, 1)
    for name, weight in plain.items():
        assert torch.allclose(weight, muon[name], atol=1e-7) != of_muon(name), name


def test_each_of_queries_keys_and_values_is_orthogonalised_alone() -> None:
    weights = []
    for factor in (1.0, 64.0):
        model = built(shape=GROUPED)
        optimizer, into = muon_of(model), model.get_parameter("blocks.0.attention.into.weight")
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
        assert into.grad is not None
        into.grad[-16:] *= factor  # of values
        optimizer.clipped_step(1e9)
        weights.append(into.detach().clone())
    torch.testing.assert_close(*weights, rtol=0, atol=1e-6)


def test_gradients_of_both_are_clipped_by_one_norm() -> None:
    model = built(shape=GROUPED)
    optimizer = muon_of(model)
    stepped(model, optimizer, 0, limit=0.5)
    assert optimizer.norms_P is not None
    assert len(optimizer.norms_P) == len(optimizer.parameters_P) == len(list(model.parameters()))
    moments = optimizer.state_dict()
    buffers = [state["momentum_buffer"] for state in moments["muon"]["state"].values()]
    buffers += [state["exp_avg"] * 0.25 for state in moments["adamw"]["state"].values()]
    # The first moments after a step are 0.05 of a gradient, and 0.2 of it.
    whole = math.hypot(*(float(buffer.norm()) for buffer in buffers))
    assert whole == pytest.approx(0.05 * 0.5, rel=1e-4)


def test_muon_resumes_bit_for_bit() -> None:
    whole, first, second = (built(shape=GROUPED) for _ in range(3))
    expected = stepped(whole, muon_of(whole), 0, 1, 2)
    optimizer = muon_of(first)
    second.load_state_dict(stepped(first, optimizer, 0, 1), strict=False)
    resumed = muon_of(second)
    resumed.load_state_dict(optimizer.state_dict())
    for name, weight in stepped(second, resumed, 2).items():
        assert torch.equal(weight, expected[name]), name


def test_the_schedule_rises_is_constant_and_falls() -> None:
    rates = [rate_at(step, steps=20, warmup_steps=4, cooldown_steps=5) for step in range(20)]
    falling = [5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert rates == pytest.approx([0.25, 0.5, 0.75, *[1.0] * 12, *falling])
    assert {rate_at(step, steps=9, warmup_steps=0, cooldown_steps=0) for step in range(9)} == {1.0}


@given(st.data())
def test_every_schedule_is_unimodal_positive_and_flat_between_its_ends(data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, 200))
    warmup_steps = data.draw(st.integers(0, steps))
    cooldown_steps = data.draw(st.integers(0, steps - warmup_steps))
    rates = [
        rate_at(step, steps=steps, warmup_steps=warmup_steps, cooldown_steps=cooldown_steps)
        for step in range(steps)
    ]
    flat = rates[warmup_steps : steps - cooldown_steps]
    assert all(0 < rate <= 1 for rate in rates)
    assert set(flat) <= {1.0}
    assert all(a < b for a, b in itertools.pairwise(rates[:warmup_steps]))
    assert all(a > b for a, b in itertools.pairwise(rates[steps - cooldown_steps :]))
    assert math.isclose(rates[-1], 1 / (cooldown_steps + 1)) or cooldown_steps == 0
