"""Shapes of a budget against published figures, exactly."""

import pytest

from fathom.models.options import Positions
from fathom.models.shape import Count, Shape
from fathom.search.study.file.study_file import parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.refusals import refused

PETTY = {
    (8_388_608, 512, 8): {1: 4779, 2: 2048, 3: 1138, 4: 682, 5: 409, 6: 227, 7: 97},
    (84_934_656, 768, 12): {
        1: 36_000, 2: 17_000, 4: 8193, 6: 5121, 8: 3584, 12: 2048, 16: 1280, 21: 731, 26: 393,
        32: 128,
    },
    (308_281_344, 1024, 16): {1: 99_000, 2: 49_000, 4: 24_000, 6: 15_000, 8: 11_000},
}  # fmt: skip
"""Petty et al. 2023: (weights of matrices, d_model, heads) -> depth -> d_ff as they print it."""
VATSADEV = {1: 2048, 4: 1024, 16: 512, 64: 256}
"""Depth -> d_model at 12 depth d_model**2 = 50.33M; the fifth has 256 layers of 128."""


def shapes(text: str, vocab_size: int = 256) -> tuple[Shape, ...]:
    config = parse("study: s\nobjective: language\n" + text)
    (budget,) = expand_budgets(config)
    return feasible_shapes(config, budget, vocab_size)


@pytest.mark.parametrize(("family", "printed"), PETTY.items(), ids=["41M", "134M", "374M"])
def test_feed_forward_alone_pays_for_depth_as_in_petty(
    family: tuple[int, int, int], printed: dict[int, int]
) -> None:
    weights, d_model, n_heads = family
    found = shapes(
        f"budgets: [{weights}]\ncount: matrices\nmodel: {{gated: true}}\nspace: {{d_model: "
        f"{d_model}, n_heads: {n_heads}, depth: [1, 40], ff_ratio: [0.1, 100], d_ff_multiple: 1}}\n"
    )
    d_ff = {shape.depth: shape.d_ff for shape in found}
    assert {shape.d_model for shape in found} == {d_model}
    assert len(found) == len(d_ff)  # one shape a depth
    for depth, theirs in printed.items():
        # Printed to the nearest thousand from 9,000 on, and cut or rounded below.
        assert abs(d_ff[depth] - theirs) <= (500 if theirs > 9000 else 1)


def test_width_and_feed_forward_together_pay_for_depth_as_in_levine_and_vatsadev() -> None:
    found = shapes(
        "budgets: [50331648]\ncount: matrices\n"
        "space: {n_heads: 2, ff_ratio: [4, 4], depth: [1, 256], d_model_multiple: 64}\n"
    )
    assert {s.depth: s.d_model for s in found}.items() >= (VATSADEV | {256: 128}).items()
    for shape in found:
        assert shape.size(Count.MATRICES) == 12 * shape.depth * shape.d_model**2
        assert shape.size(Count.MATRICES) == pytest.approx(50_331_648, rel=0.005)


def test_the_five_models_of_vatsadev_have_the_parameters_that_nanogpt_builds() -> None:
    """Sixty-five characters, 256 learned positions, norms without bias, tied."""
    totals = [
        Shape(
            depth=depth, d_model=d_model, d_ff=4 * d_model, n_heads=2, head_dim=d_model // 2,
            vocab_size=65, context=256, positions=Positions.LEARNED,
        ).params_total
        for depth, d_model in (VATSADEV | {256: 128}).items()
    ]  # fmt: skip
    assert totals == [50_995_200, 50_669_568, 50_512_896, 50_446_848, 50_438_400]


def test_all_depths_share_as_many_heads_as_in_brown() -> None:
    found = shapes(
        "budgets: [48]\ncount: heads\ntokens: 1M\n"
        "space: {d_model: 512, head_dim: 64, ff_ratio: [4, 4], depth: [1, 12]}\n"
    )
    assert {shape.depth: shape.n_heads for shape in found} == {
        1: 48, 2: 24, 3: 16, 4: 12, 6: 8, 8: 6, 12: 4,
    }  # fmt: skip
    assert {(s.d_model, s.d_ff, s.head_dim) for s in found} == {(512, 2048, 64)}
    assert len({shape.params_total for shape in found}) == len(found)  # not equal, and said so


def test_layers_of_one_width_are_stacked_as_in_sanford() -> None:
    found = shapes(
        "budgets: [128]\ncount: width\ntokens: 1M\n"
        "space: {n_heads: 4, ff_ratio: [4, 4], depth: [2, 4, 6]}\n"
    )
    assert [shape.depth for shape in found] == [2, 4, 6]
    assert {(s.d_model, s.d_ff, s.n_heads, s.head_dim) for s in found} == {(128, 512, 4, 32)}


@pytest.mark.parametrize("looped", ["false", "true"])
def test_operations_per_token_meet_the_budget_with_looped_layers_too(looped: str) -> None:
    found = shapes(
        f"budgets: [4M]\ncount: flops\ntokens: 1M\nmodel: {{looped: {looped}}}\n"
        "space: {depth: [1, 8], n_heads: 2}\n"
    )
    assert len({shape.depth for shape in found}) >= 6
    for shape in found:
        assert shape.forward_flops_per_token == pytest.approx(4e6, rel=0.005)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "budgets: [50]\ncount: width\ntokens: 1M\nspace: {ff_ratio: [4, 4]}",
            ("multiple of 16", "50", "48"),
        ),
        (
            "budgets: [48]\ncount: width\ntokens: 1M\nspace: {ff_ratio: [4, 4], depth: [24, 24]}",
            ("only at depth 24", "3 depths are needed", "set `space.depth: [1, 64]`"),
        ),
        (
            "budgets: [7]\ncount: heads\ntokens: 1M\nspace: {ff_ratio: [4, 4], d_model: 64}",
            ("7 (heads, within", "at depth 1, 7"),
        ),
    ],
)  # fmt: skip
def test_sizes_left_open_or_fixed_twice_are_refused(text: str, words: tuple[str, ...]) -> None:
    with refused(*words):
        shapes(text + "\n")
