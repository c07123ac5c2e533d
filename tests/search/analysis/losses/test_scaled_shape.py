"""Shapes of any size with the options of a known one, and what a token costs them."""

from dataclasses import replace

import pytest

from fathom.models.shape import Count, Shape
from fathom.search.analysis.losses.scaled_shape import flops_per_token, scaled_shape, with_scaled

TEMPLATE = Shape(
    depth=12, d_model=768, d_ff=3072, n_heads=12, head_dim=64, vocab_size=50257, context=1024
)
ODD = replace(
    TEMPLATE, n_heads=12, queries_per_key=3, gated=True, tied=False, d_ff=2048, biases=True
)

GROUPED = replace(TEMPLATE, n_heads=32, head_dim=24, queries_per_key=2, groups=16, tied=False)


@pytest.mark.parametrize("count", [Count.TOTAL, Count.NON_EMBEDDING, Count.MATRICES])
@pytest.mark.parametrize("template", [TEMPLATE, ODD, GROUPED], ids=["plain", "odd", "grouped"])
@pytest.mark.parametrize(("params", "depth"), [(2e8, 6), (1e9, 24), (7e10, 80)])
def test_a_shape_of_a_size_and_depth_keeps_the_options_and_nearly_the_ratio(
    template: Shape, count: Count, params: float, depth: int
) -> None:
    shape = scaled_shape(template, params, depth, count)

    assert shape.depth == depth
    assert shape.size(count) == pytest.approx(params, rel=2e-3)
    assert shape.off_ratio(template.ff_ratio) < (0.25 if shape.groups == 1 else 0.3)
    assert shape.d_model % shape.head_dim == 0
    assert (shape.queries_per_key, shape.gated, shape.tied, shape.biases) == (
        *(template.queries_per_key, template.gated, template.tied, template.biases),
    )


def test_the_known_shape_itself_comes_back() -> None:
    assert scaled_shape(TEMPLATE, TEMPLATE.size(Count.TOTAL), 12, Count.TOTAL) == TEMPLATE


def test_shapes_of_other_depths_have_widths_in_whole_groups() -> None:
    for shape in with_scaled([GROUPED, replace(GROUPED, depth=2)]):
        assert shape.d_model % 16 == shape.d_ff % 16 == 0
        assert shape.groups == 16


def test_a_token_costs_what_the_shape_says_and_six_a_parameter_without_one() -> None:
    known = flops_per_token(TEMPLATE, Count.NON_EMBEDDING)
    size = TEMPLATE.params_non_embedding

    assert known(size, 12) == pytest.approx(TEMPLATE.train_flops_per_token)
    assert known(size, 12) > 6 * size, "the unembedding and attention cost as well"
    assert flops_per_token(None, Count.TOTAL)(1e9, 30) == 6e9
