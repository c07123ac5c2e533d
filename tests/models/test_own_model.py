"""A user's own model: what it is made of, and that it trains like the built-in one."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from examples import llama, parallel_blocks
from fathom.models.building import build_model
from fathom.models.options import Positions
from fathom.models.own_model import AS_BUILT, OwnModel, count, embeddings
from fathom.models.parametrization import OptimizerName, Parametrization, Role, Scheme, rules
from fathom.models.recipe import OwnModelError, OwnRecipe
from fathom.models.shape import Shape
from tests.support import own_models
from tests.support.live_bytes import LiveBytes
from tests.support.models import model_of, optimizer_of
from tests.support.toy import CPU
from tests.support.training import PARAMETRIZATION

SHAPE = replace(own_models.SHAPE, n_heads=2, head_dim=8)
STANDARD = replace(PARAMETRIZATION, scheme=Scheme.STANDARD)
ROLES = (
    ("tokens.weight", Role.EMBEDDING),
    ("*.bias", Role.BIAS),
    ("up.*", Role.FEED_FORWARD_IN),
    ("down.*", Role.FEED_FORWARD_OUT),
)


def recipe(
    function: Any,
    roles: tuple[tuple[str, Role], ...] | None = None,
    parametrization: Parametrization = PARAMETRIZATION,
) -> OwnRecipe:
    return OwnRecipe(f"mine:{function.__name__}", function, roles, parametrization)


def own_model(built: OwnRecipe, shape: Shape = SHAPE, seed: int = 0) -> OwnModel:
    model = build_model(shape, built, seed=seed, device=CPU)
    assert isinstance(model, OwnModel)
    return model


def counted(built: OwnRecipe, shape: Shape = SHAPE) -> Shape:
    return replace(shape, own_counts=count(built, shape, embeddings(built, shape)))


def test_what_is_looked_up_or_follows_the_vocabulary_is_no_matrix_and_counts_once() -> None:
    shape = counted(recipe(own_models.build))
    hidden = 2 * (2 * 16 * 24 + 24 + 16)
    assert (shape.params_total, shape.params_non_embedding) == (31 * 16 + hidden, hidden)
    assert shape.forward_flops_per_token == 2 * (31 * 16 + hidden), "the head is one product"

    shape = counted(recipe(parallel_blocks.ParallelModel, roles=(("*", Role.NORM),)))
    assert shape.params_total - shape.params_non_embedding == (31 + 12) * 16, "with positions"
    assert shape.forward_flops_per_token == 2 * (shape.params_non_embedding + 31 * 16)

    shape, closed = counted(recipe(llama.build)), replace(SHAPE, gated=True, tied=True)
    assert shape.params_total == closed.params_total
    assert shape.params_non_embedding == closed.params_non_embedding


@pytest.mark.parametrize("function", [own_models.build, llama.build])
def test_the_estimate_of_what_a_forward_pass_keeps_is_near_what_it_keeps(function: Any) -> None:
    shape = counted(recipe(function))
    assert shape.own_counts
    model = own_model(recipe(function), shape)
    tokens = torch.zeros(1, 12, dtype=torch.int64)
    with LiveBytes() as bytes_:
        logits = model(tokens)
    there = bytes_.live - 4 * (logits.numel() + shape.params_total)  # weights were transposed

    assert 0.7 * there < shape.own_counts.saved_bytes < 1.5 * there


@pytest.mark.parametrize("function", [own_models.fragile, own_models.leaving])
def test_where_the_meta_device_can_not_run_it_the_estimate_is_a_usual_block_s(
    function: Any,
) -> None:
    shape = counted(recipe(function))

    assert shape.own_counts
    assert shape.own_counts.saved_bytes == 4 * 12 * 2 * (16 * 16 + 4 * 24)


def test_weights_are_a_function_of_the_seed_and_the_global_generator_is_left_alone() -> None:
    plain = recipe(own_models.build)
    before = torch.get_rng_state()

    first, same, other = (own_model(plain, seed=seed).inner.state_dict() for seed in (1, 1, 2))

    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["up.0.weight"], other["up.0.weight"])


def test_an_output_with_logits_is_taken_for_them() -> None:
    assert own_model(recipe(llama.build))(torch.zeros(2, 5, dtype=torch.int64)).shape == (2, 5, 31)


def test_a_model_of_another_size_than_was_counted_is_refused() -> None:
    plain = recipe(own_models.build)
    shape = replace(SHAPE, d_ff=25, own_counts=counted(plain).own_counts)

    with pytest.raises(OwnModelError, match=r"must have the 2,112 parameters that were counted"):
        own_model(plain, shape)


def test_without_roles_all_weights_have_the_rate_and_vectors_do_not_decay() -> None:
    optimizer = optimizer_of(own_model(recipe(own_models.build)))

    groups = {group["weight_decay"]: group for group in optimizer.param_groups}
    assert set(groups) == {0.0, 0.1}
    assert all(group["lr_scale"] == 1 and group["eps"] == 1e-12 for group in groups.values())
    assert {weight.ndim for weight in groups[0.0]["params"]} == {1}
    assert {weight.ndim for weight in groups[0.1]["params"]} == {2}


def test_weights_of_a_role_without_a_spread_start_as_built() -> None:
    by_role = rules(PARAMETRIZATION, SHAPE)
    assert {role for role, rule in by_role.items() if rule.init_std == 0} == set(AS_BUILT)


def test_roles_give_the_initial_spread_and_the_rates_of_the_parametrization() -> None:
    scaled = recipe(own_models.scaled, ROLES)
    shape = counted(scaled, replace(SHAPE, d_model=64, d_ff=256, n_heads=8))
    model = own_model(scaled, shape)
    by_role = rules(PARAMETRIZATION, shape)

    spread = float(model.inner.get_parameter("down.1.weight").detach().std())
    assert spread == pytest.approx(by_role[Role.FEED_FORWARD_OUT].init_std, rel=0.05)
    optimizer = optimizer_of(model)
    scales = {id(w): group["lr_scale"] for group in optimizer.param_groups for w in group["params"]}
    for name, role in (("down.0.weight", Role.FEED_FORWARD_OUT), ("tokens.weight", Role.EMBEDDING)):
        assert scales[id(model.inner.get_parameter(name))] == by_role[role].learning_rate


def test_muon_takes_the_matrices_that_roles_name() -> None:
    model = own_model(recipe(own_models.scaled, ROLES), counted(recipe(own_models.scaled, ROLES)))

    optimizer = optimizer_of(model, OptimizerName.MUON)

    muon = optimizer.param_groups[-1]["params"]
    assert {tuple(weight.shape) for weight in muon} <= {(24, 16), (16, 24)}


def test_the_example_with_roles_computes_what_the_built_in_model_does_at_depth_one() -> None:
    """Without feed-forward features a parallel block is an attention block of the built-in one."""
    built_in = replace(SHAPE, depth=1, d_ff=0, positions=Positions.LEARNED)
    reference = model_of(built_in, PARAMETRIZATION, seed=3)
    theirs = own_model(
        recipe(parallel_blocks.ParallelModel, (("*", Role.EMBEDDING),)), replace(SHAPE, depth=1)
    ).inner
    weights = reference.state_dict()
    with torch.no_grad():
        for name, source in (
            ("tokens.weight", "embedding.weight"),
            ("places.weight", "positions"),
            ("blocks.0.norm.weight", "blocks.0.attention_norm.weight"),
            ("blocks.0.qkv.weight", "blocks.0.attention.into.weight"),
            ("blocks.0.attention_out.weight", "blocks.0.attention.out.weight"),
            ("final_norm.weight", "final_norm.weight"),
        ):
            theirs.get_parameter(name).copy_(weights[source])
        theirs.get_parameter("blocks.0.down.weight").zero_()
        ids = torch.arange(24).view(2, 12)
        # Their norms add different epsilons to a stream of different units.
        torch.testing.assert_close(theirs(ids), reference(ids), rtol=0, atol=2e-3)
