"""Proximal steps: by hand, on convex problems with known solutions, and on a model's groups."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.models.group_penalty import GroupNorm, GroupPenalty, SizedPart
from fathom.models.network.transformer import Transformer
from fathom.models.options import Normalization
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape
from fathom.papers.sizing.auto_sizing import PROXIMAL_STEPS, AutoSizing, clipped, shrunk
from fathom.papers.sizing.groups import families
from tests.support.models import SMALL, model_of, optimizer_of, scheme_of

STANDARD = scheme_of(init_std=0.1)
SHAPE = replace(
    SMALL, queries_per_key=2, gated=True, biases=True, norm=Normalization.LAYER, smeared_keys=True
)


def built(shape: Shape = SHAPE, parametrization: Parametrization = STANDARD) -> Any:
    model = model_of(shape, parametrization)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(".bias"):
                weight.normal_(0.0, 0.1, generator=generator)
    return model


def sizing(model: Transformer, penalty: GroupPenalty) -> AutoSizing:
    return AutoSizing(model, optimizer_of(model, weight_decay=0.0, eps=1e-8), penalty, steps=4)


def no_update() -> None:
    """A step of the optimizer that changes nothing."""


def test_l21_shortens_each_row_by_the_amount() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.5], [0.0, 0.0], [-6.0, 8.0]])
    expected = torch.tensor([[2.4, 3.2], [0.0, 0.0], [0.0, 0.0], [-5.4, 7.2]])
    torch.testing.assert_close(shrunk(rows, 1.0), expected)


CLIPPED = {
    1.0: [4.0, -3.0, 1.0], 2.0: [3.0, -3.0, 1.0], 4.0: [2.0, -2.0, 1.0], 6.0: [1.0, -1.0, 1.0],
    7.5: [0.5, -0.5, 0.5], 9.0: [0.0, 0.0, 0.0], 20.0: [0.0, 0.0, 0.0],
}  # fmt: skip
"""Amount -> what it leaves of 5, -3, 1."""


def test_linf1_takes_the_amount_off_the_largest() -> None:
    cases = [([5.0, -3.0, 1.0], amount, left) for amount, left in CLIPPED.items()]
    cases += [([0.0] * 3, 1.0, [0.0] * 3), ([2.0, 2.0, -2.0], 3.0, [1.0, 1.0, -1.0])]
    for row, amount, left in cases:
        torch.testing.assert_close(clipped(torch.tensor([row]), amount), torch.tensor([left]))


@pytest.mark.parametrize("norm", GroupNorm)
def test_an_amount_of_zero_changes_not_one_digit(norm: GroupNorm) -> None:
    rows = torch.randn(50, 37, generator=torch.Generator().manual_seed(0))
    rows[3] = 0.0
    assert torch.equal(PROXIMAL_STEPS[norm](rows, 0.0), rows)


def penalty_of(norm: GroupNorm, rows: Tensor) -> Tensor:
    return (rows.norm(dim=1) if norm is GroupNorm.L21 else rows.abs().amax(dim=1)).sum()


@pytest.mark.parametrize("norm", GroupNorm)
def test_each_step_minimises_distance_and_penalty(norm: GroupNorm) -> None:
    """The definition of a proximal step: nothing near it is lower."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(6, 5, dtype=torch.float64, generator=generator)
    found = PROXIMAL_STEPS[norm](rows, 0.7)

    def cost(x: Tensor) -> float:
        return float((x - rows).square().sum() / 2 + 0.7 * penalty_of(norm, x))

    for scale in (1e-1, 1e-3, 1e-5):
        for _ in range(200):
            other = found + scale * torch.randn(6, 5, dtype=torch.float64, generator=generator)
            assert cost(found) <= cost(other)
    assert cost(found) <= cost(rows * 0)


def regression(seed: int) -> tuple[Tensor, Tensor]:
    """Design (30, 12) and target of a random regression."""
    generator = torch.Generator().manual_seed(seed)
    design = torch.randn(30, 12, dtype=torch.float64, generator=generator)
    return design, torch.randn(30, dtype=torch.float64, generator=generator)


def lasso(norm: GroupNorm, design: Tensor, target: Tensor, strength: float) -> Tensor:
    """Coefficients (G, N) of a regression with a group penalty, by proximal gradient descent."""
    weights = torch.zeros(4, 3, dtype=torch.float64)
    rate = 1 / float(torch.linalg.matrix_norm(design, 2)) ** 2
    for _ in range(5000):
        gradient = design.T @ (design @ weights.flatten() - target)
        weights = PROXIMAL_STEPS[norm](weights - rate * gradient.view(4, 3), rate * strength)
    return weights


@pytest.mark.parametrize("norm", GroupNorm)
def test_group_lasso_with_any_design_meets_its_optimality_conditions(norm: GroupNorm) -> None:
    """Gradient and penalty balance: the dual norm of a group's gradient is the strength, or less
    where the group is zero."""
    design, target = regression(3)
    strength = 8.0 if norm is GroupNorm.L21 else 14.0
    found = lasso(norm, design, target, strength)
    gradient = (design.T @ (target - design @ found.flatten())).view(4, 3)
    dual = gradient.norm(dim=1) if norm is GroupNorm.L21 else gradient.abs().sum(1)
    zero = (found == 0).all(1)
    assert 0 < zero.sum() < 4
    torch.testing.assert_close(dual[~zero], torch.full_like(dual[~zero], strength))
    assert (dual[zero] <= strength).all()


@pytest.mark.parametrize("norm", GroupNorm)
def test_a_neuron_shrinks_as_its_row_and_bias_by_hand(norm: GroupNorm) -> None:
    model = built(replace(SMALL, depth=1, biases=True))
    into = model.blocks[0].feed_forward.into
    rows = torch.cat((into.weight, into.bias[:, None]), 1).detach().clone()
    penalty = GroupPenalty(norm=norm, strength=0.3, parts=(SizedPart.NEURONS,))
    sizing(model, penalty).around(no_update, step=0, learning_rate=0.1)
    amount = 0.1 * 0.3 * (math.sqrt(17) if norm is GroupNorm.L21 else 17)
    expected = PROXIMAL_STEPS[norm](rows, amount)
    torch.testing.assert_close(into.weight.detach(), expected[:, :-1])
    torch.testing.assert_close(into.bias.detach(), expected[:, -1])


@pytest.mark.parametrize("stacks", [1, 2])
@pytest.mark.parametrize("part", SizedPart)
def test_every_weight_of_a_part_changes_and_no_other(part: SizedPart, stacks: int) -> None:
    two = replace(SHAPE, encoder_depth=1, smeared_keys=False)
    model = built(two if stacks == 2 else SHAPE)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    penalty = GroupPenalty(norm=GroupNorm.L21, strength=1.0, parts=(part,))
    sizing(model, penalty).around(no_update, step=3, learning_rate=1e6)
    after = dict(model.named_parameters())
    changed = {name for name in before if not torch.equal(after[name], before[name])}

    def both(*maps: str) -> tuple[str, ...]:
        return tuple(f"{name}.{kind}" for name in maps for kind in ("weight", "bias"))

    into_attention = both("attention.into", "attention.query", "attention.key_value")
    ends = {
        SizedPart.NEURONS: both("feed_forward.into"),
        SizedPart.ATTENTION_ROWS: into_attention,
        SizedPart.HEADS: into_attention,
        SizedPart.BRANCHES: both("into", "query", "key_value", "out"),
    }[part]
    assert changed == {name for name in before if name.endswith(ends)}
    assert not any(after[name].any() for name in changed)


def test_a_head_is_its_queries_its_key_and_its_values() -> None:
    model = built()
    attention = model.blocks[0].attention
    family = next(families(model, SizedPart.HEADS))
    with torch.no_grad():
        for _, view in family.weights:
            view[1] = 0.0
    zero_rows = (attention.into.weight == 0).all(1) & (attention.into.bias == 0)
    # Two heads of keys of four features, each with two heads of queries.
    assert zero_rows.nonzero().flatten().tolist() == [*range(8, 16), *range(20, 24), *range(28, 32)]


def test_rates_of_roles_are_heeded() -> None:
    """A weight that moves half as far loses half as much: CompleteP's rates differ by role."""
    parametrization = scheme_of(Scheme.COMPLETEP, width=8, init_std=0.1)
    shape = replace(SMALL, depth=1)
    amounts = []
    for used in (STANDARD, parametrization):
        model = built(shape, used)
        (family,) = families(model, SizedPart.NEURONS)
        ((_, view),) = family.weights
        before = view.norm(dim=(1, 2))
        penalty = GroupPenalty(norm=GroupNorm.L21, strength=0.1, parts=(SizedPart.NEURONS,))
        sizing(model, penalty).around(no_update, step=0, learning_rate=0.01)
        amounts.append(before - view.norm(dim=(1, 2)))
    torch.testing.assert_close(amounts[1], amounts[0] / 2, rtol=1e-3, atol=1e-7)


def test_after_the_share_of_the_penalty_zero_stays_zero_and_the_rest_is_free() -> None:
    model = built()
    into = model.blocks[0].feed_forward.into
    weight, rows, bias = into.weight, into.weight.view(2, 12, 16), into.bias.view(2, 12)
    with torch.no_grad():
        rows[:, :3], bias[:, :3] = 0.0, 0.0
        rows[0, 3] = 0.0  # a gate without its value is no whole group
    before = weight.detach().clone()

    def update() -> None:
        for parameter in model.parameters():
            parameter.data += 1.0

    penalty = GroupPenalty(norm=GroupNorm.L21, strength=1.0, parts=(SizedPart.NEURONS,), share=0.5)
    sizing(model, penalty).around(update, step=2, learning_rate=1.0)
    assert not rows[:, :3].any()
    assert not bias[:, :3].any()
    torch.testing.assert_close(rows[:, 3:], before.view(2, 12, 16)[:, 3:] + 1.0)
