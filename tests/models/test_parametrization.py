"""The table of CompleteP's paper, row by row, and the check that it does what it is for.

m_N is width over base width, m_L depth over base depth (Dey et al. 2025, table 1, alpha = 1).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fathom.models.measure.coordinates import Coordinates, OptimizerSettings, coordinates, slope
from fathom.models.network.transformer import role_of
from fathom.models.options import Activation, Residual
from fathom.models.parametrization import (
    OptimizerName,
    Parametrization,
    Role,
    Rule,
    Scheme,
    forward_scales,
    rules,
)
from fathom.models.shape import Shape
from tests.support.models import model_of, scheme_of

STD = 0.05
BASE = Shape(depth=2, d_model=64, d_ff=256, n_heads=4, head_dim=16, vocab_size=64, context=16)
DENSE = (Role.ATTENTION_IN, Role.ATTENTION_OUT, Role.FEED_FORWARD_IN, Role.FEED_FORWARD_OUT)
HIDDEN = (*DENSE, Role.ROUTER, Role.STATE_IN, Role.STATE_OUT)
VECTORS = (Role.NORM, Role.BIAS, Role.SKIP, Role.SMEAR, Role.STATE)
OUTSIDE = (Role.EMBEDDING, Role.POSITIONS, Role.UNEMBEDDING)
TRANSFERRING = (Scheme.MUP, Scheme.COMPLETEP)


def parametrization(scheme: Scheme) -> Parametrization:
    return scheme_of(scheme, width=64, depth=2, head_dim=16, init_std=STD)


def of_width(d_model: int, base: Shape = BASE) -> Shape:
    return replace(base, d_model=d_model, d_ff=4 * d_model, n_heads=d_model // 16)


@pytest.mark.parametrize("scheme", TRANSFERRING)
@pytest.mark.parametrize(("m_N", "m_L"), [(1, 1), (1, 8), (4, 1), (4, 8), (0.25, 0.5)])
def test_at_the_base_shape_and_elsewhere_the_table_is(
    scheme: Scheme, m_N: float, m_L: float
) -> None:
    shape = replace(of_width(int(64 * m_N)), depth=int(2 * m_L))
    deep = m_L if scheme is Scheme.COMPLETEP else 1.0
    scales = forward_scales(parametrization(scheme), shape)
    assert scales.residual == pytest.approx(1 / deep)
    assert scales.logits == pytest.approx(1 / m_N)
    assert scales.attention == pytest.approx(BASE.head_dim**-0.5)
    by_role = rules(parametrization(scheme), shape)
    assert set(by_role) == set(Role)
    for role in HIDDEN:
        rule = by_role[role]
        assert rule.init_std**2 == pytest.approx(STD**2 / m_N)
        assert rule.learning_rate == pytest.approx(1 / m_N)
        assert rule.weight_decay == pytest.approx(m_N)
        assert rule.eps == pytest.approx(1 / (m_N * deep))
    for role in OUTSIDE:
        assert by_role[role] == Rule(STD)
    for role in VECTORS:
        assert by_role[role] == Rule(0.0, weight_decay=0.0, eps=by_role[Role.ATTENTION_IN].eps)
    assert by_role[Role.OUTER_NORM] == Rule(0.0, weight_decay=0.0)


def test_the_standard_scheme_scales_only_the_ends_of_residual_branches() -> None:
    shape = replace(of_width(256), depth=8, head_dim=32, n_heads=8)
    scales = forward_scales(parametrization(Scheme.STANDARD), shape)
    assert (scales.residual, scales.attention, scales.logits) == (1.0, 32**-0.5, 1.0)
    for role, rule in rules(parametrization(Scheme.STANDARD), shape).items():
        if role in (*VECTORS, Role.OUTER_NORM):
            assert rule == Rule(0.0, weight_decay=0.0)
        elif role is Role.PROJECTION:
            assert rule == Rule(1.0)  # there is none
        elif role in (Role.ATTENTION_OUT, Role.FEED_FORWARD_OUT, Role.STATE_OUT):
            assert rule == Rule(STD / math.sqrt(2 * 8))
        else:
            assert rule == Rule(STD)


@pytest.mark.parametrize("scheme", TRANSFERRING)
def test_each_matrix_goes_by_its_own_fan_in(scheme: Scheme) -> None:
    # d_ff is twice, the heads together three times what the base has; d_model is the base's.
    shape = replace(BASE, d_ff=2 * BASE.d_ff, n_heads=3 * BASE.n_heads)
    by_role = rules(parametrization(scheme), shape)
    for role, m in zip(HIDDEN, (1, 3, 1, 2, 1, 1, 3), strict=True):
        assert by_role[role].init_std == pytest.approx(STD / math.sqrt(m))
        assert by_role[role].learning_rate == pytest.approx(1 / m)
        assert by_role[role].eps == 1.0


@pytest.mark.parametrize("scheme", Scheme)
def test_a_step_decays_a_hidden_weight_by_the_same_share_at_every_size(scheme: Scheme) -> None:
    for shape in (BASE, of_width(512), replace(BASE, depth=64, d_ff=96), replace(BASE, d_ff=0)):
        by_role = rules(parametrization(scheme), shape)
        for role in HIDDEN:
            assert by_role[role].learning_rate * by_role[role].weight_decay == pytest.approx(1)
        assert all(math.isfinite(rule.init_std) for rule in by_role.values())
        assert all(rule.learning_rate > 0 for rule in by_role.values())


# The coordinate check. Exponents of the changes in five steps, over sizes 16 and 32 times apart.

STEPS = 5
SMALL = of_width(32)
AXES: dict[str, dict[int, Shape]] = {
    "width": {width: of_width(width) for width in (32, 128, 512)},
    "depth": {depth: replace(SMALL, depth=depth) for depth in (2, 4, 16, 64)},
    "ratio": {ratio: replace(SMALL, d_ff=32 * ratio) for ratio in (1, 2, 4, 8)},
}


@cache
def check(scheme: Scheme, axis: str, tied: bool = True) -> dict[int, tuple[Coordinates, ...]]:
    return {
        size: coordinates(
            replace(shape, tied=tied),
            parametrization(scheme),
            OptimizerSettings(learning_rate=4e-3),
            steps=STEPS,
            seeds=(0, 1),
        )
        for size, shape in AXES[axis].items()
    }


def exponents(
    name: str, scheme: Scheme, axis: str, *, tied: bool = True
) -> tuple[float, Sequence[float]]:
    """Exponent along the axis of a size at the start, and of its change after each step."""
    found = check(scheme, axis, tied)
    start, *changes = (
        slope(list(found), [getattr(steps[step], name) for steps in found.values()])
        for step in range(STEPS + 1)
    )
    return start, changes


def test_the_slope_of_a_power_law_is_its_exponent() -> None:
    sizes = (1, 2, 8, 64)
    assert slope(sizes, [3 * size**-0.7 for size in sizes]) == pytest.approx(-0.7)
    assert slope(sizes, [5.0] * 4) == pytest.approx(0)


@pytest.mark.parametrize("axis", ["width", "ratio"])
def test_at_the_base_depth_completep_is_mup(axis: str) -> None:
    mup, completep = map(parametrization, TRANSFERRING)
    for shape in AXES[axis].values():
        assert shape.depth == completep.base_depth
        assert rules(mup, shape) == rules(completep, shape)
        assert forward_scales(mup, shape) == forward_scales(completep, shape)


@pytest.mark.parametrize("name", ["stream", "features"])
@pytest.mark.parametrize("axis", ["width", "ratio"])
def test_activations_start_and_change_equally_at_every_size(axis: str, name: str) -> None:
    start, changes = exponents(name, Scheme.COMPLETEP, axis)
    assert abs(start) < 0.05
    assert max(map(abs, changes)) < 0.1


@pytest.mark.parametrize("tied", [True, False])
def test_activations_and_logits_change_equally_at_every_depth_under_completep(tied: bool) -> None:
    # What random branches add falls as the root of the depth, what is learned does not. The stream
    # is more of the first at first, so its exponent comes from below (-1/2 at the start) towards 0.
    start, changes = exponents("stream", Scheme.COMPLETEP, "depth", tied=tied)
    assert -0.5 < start < changes[0] < changes[-1]
    assert all(-0.35 < change < 0.15 for change in changes)
    assert abs(changes[-1]) < 0.15
    for name in ("features", "logits"):
        _, changes = exponents(name, Scheme.COMPLETEP, "depth", tied=tied)
        assert max(map(abs, changes)) < 0.1


@pytest.mark.parametrize("scheme", [Scheme.STANDARD, Scheme.MUP])
def test_the_stream_changes_more_in_deeper_models_under_the_other_schemes(scheme: Scheme) -> None:
    _, changes = exponents("stream", scheme, "depth")
    assert min(changes) > 0.6


def test_the_stream_and_the_logits_change_more_in_wider_models_under_the_standard_scheme() -> None:
    assert min(exponents("stream", Scheme.STANDARD, "width")[1]) > 1.0
    assert min(exponents("logits", Scheme.STANDARD, "width")[1]) > 0.5
    assert min(exponents("stream", Scheme.STANDARD, "ratio")[1]) > 0.3


@pytest.mark.parametrize("tied", [True, False])
def test_logits_start_small_and_their_changes_do_not_grow_with_the_width(tied: bool) -> None:
    # At the start the sum of `width` random terms over the width: exponent -1/2. Its echo, random
    # weights times changed features, fades only slowly from the changes.
    start, changes = exponents("logits", Scheme.COMPLETEP, "width", tied=tied)
    assert start == pytest.approx(-0.5, abs=0.1)
    assert all(-0.35 < change < 0.05 for change in changes)


OPTIONS: tuple[dict[str, Any], ...] = (
    {"looped": True},
    {"embedding_rank": 8},
    {"embedding_rank": 8, "tied": False},
    {"biases": True, "smeared_keys": True},
    {"queries_per_key": 2, "qk_norm": True},
    {"activation": Activation.RELU2},
    {"groups": 4, "gated": True},
)


def last_changes(
    scheme: Scheme, axis: str, *, optimizer: OptimizerName = OptimizerName.ADAMW,
    learning_rate: float, **options: Any,
) -> dict[int, Coordinates]:  # fmt: skip
    """Size along the axis -> changes after two steps."""
    settings = OptimizerSettings(learning_rate=learning_rate, name=optimizer)
    return {
        size: coordinates(
            replace(shape, **options), parametrization(scheme), settings, steps=2, seeds=(0,)
        )[-1]
        for size, shape in AXES[axis].items()
        if size <= 128
    }


def check_slopes(found: dict[int, Coordinates], most: dict[str, float]) -> None:
    for name, bound in most.items():
        values = [getattr(changes, name) for changes in found.values()]
        assert abs(slope(list(found), values)) < bound, name


@pytest.mark.parametrize("axis", ["width", "depth"])
@pytest.mark.parametrize("optimizer", OptimizerName)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_completep_options(options: dict[str, Any], optimizer: OptimizerName, axis: str) -> None:
    found = last_changes(Scheme.COMPLETEP, axis, optimizer=optimizer, learning_rate=4e-3, **options)
    of_features = 0.1 if optimizer is OptimizerName.ADAMW else 0.2
    check_slopes(found, {"features": of_features, "logits": 0.35})


@pytest.mark.parametrize("residual", [r for r in Residual if r is not Residual.PRE])
def test_mup_holds_over_the_width_of_every_residual(residual: Residual) -> None:
    found = last_changes(Scheme.MUP, "width", learning_rate=1e-3, residual=residual)
    check_slopes(found, {"stream": 0.1, "features": 0.1, "logits": 0.4})


def gradient_sizes(shape: Shape) -> dict[Role, float]:
    """Root mean square of the first gradients of every role, over that of its AdamW epsilon."""
    model = model_of(shape, parametrization(Scheme.COMPLETEP))
    tokens = torch.randint(64, (4, 17), generator=torch.Generator().manual_seed(1))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    by_role = rules(parametrization(Scheme.COMPLETEP), shape)
    squares: dict[Role, list[float]] = {}
    for name, weight in model.named_parameters():
        assert weight.grad is not None
        squares.setdefault(role_of(name), []).append(float(weight.grad.square().mean()))
    return {
        role: math.sqrt(sum(several) / len(several)) / by_role[role].eps
        for role, several in squares.items()
    }


@pytest.mark.parametrize(
    ("shapes", "most"),
    [
        ({width: of_width(width) for width in (32, 64, 128, 256)}, 0.1),
        ({depth: replace(of_width(32), looped=True, depth=depth) for depth in (2, 8, 32)}, 0.2),
    ],
    ids=["width", "depth of a loop"],
)
def test_epsilon_keeps_its_share_of_the_gradients(shapes: dict[int, Shape], most: float) -> None:
    sizes = {size: gradient_sizes(shape) for size, shape in shapes.items()}
    for role in (*DENSE, Role.NORM):
        assert abs(slope(list(sizes), [found[role] for found in sizes.values()])) < most, role
