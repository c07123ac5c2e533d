"""Laws with one constant are found, and tested as the fitted laws are: `null_laws.py`."""

from dataclasses import replace
from math import exp, hypot, log

import pytest

from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import fit_laws
from fathom.search.analysis.laws.null_laws import NullLaw, as_good, fit_null_laws
from tests.support.optima import BUDGETS, edge, optimum


def named(laws: tuple[NullLaw, ...]) -> dict[str, NullLaw]:
    return {law.name: law for law in laws}


def with_shape(budget: int, depth: int, count: Count) -> Optimum:
    """An optimum whose best shape has 64 of width for each layer."""
    width = 64 * depth
    shape = Shape(
        depth=depth, d_model=width, d_ff=4 * width, n_heads=depth, head_dim=64, vocab_size=50_000,
        context=64,
    )  # fmt: skip
    return replace(optimum(shape.size(count), depth), count=count, shape=shape)


def test_one_depth_at_every_size_is_found_and_predicts_as_well_as_a_law() -> None:
    optima = [optimum(n, depth) for n, depth in zip(BUDGETS, (5, 5.2, 4.9, 5.1, 5), strict=True)]
    null, laws = fit_null_laws(optima), fit_laws(optima)
    assert null[0].name == "same depth"
    assert null[0].constant == pytest.approx(5.04, abs=0.01)
    assert null[0] in as_good(laws[0], null)
    low, high = null[0].predict(3e9).interval or (0, 0)
    assert low < 5 < high < 6, "one constant is known as well everywhere"


def test_depth_that_grows_like_the_cube_root_is_no_better_predicted_by_a_law() -> None:
    optima = [optimum(n, 0.05 * n ** (1 / 3)) for n in BUDGETS]
    null = fit_null_laws(optima)
    assert [law.name for law in null] == ["cube root", "same depth"]
    assert null[0].constant == pytest.approx(0.05)
    assert null[0].leave_one_out_error == pytest.approx(0, abs=1e-6)
    assert as_good(fit_laws(optima)[0], null) == null[:1]


def test_another_exponent_is_predicted_better_by_the_law() -> None:
    optima = [optimum(n, 3 * (n / BUDGETS[0]) ** 0.2) for n in BUDGETS]
    assert as_good(fit_laws(optima)[0], fit_null_laws(optima)) == ()


@pytest.mark.parametrize("count", [Count.NON_EMBEDDING, Count.MATRICES])
def test_without_embeddings_the_same_aspect_ratio_is_the_cube_root(count: Count) -> None:
    null = named(fit_null_laws([with_shape(0, depth, count) for depth in (4, 8, 16)]))
    assert list(null) == ["cube root", "same depth"]
    assert null["cube root"].leave_one_out_error == pytest.approx(0, abs=1e-3)
    assert null["cube root"].whole_layers


def test_with_embeddings_the_same_aspect_ratio_grows_faster_than_the_cube_root() -> None:
    optima = [with_shape(0, depth, Count.TOTAL) for depth in (4, 8, 16)]
    null = named(fit_null_laws(optima))
    ratio = null["same aspect ratio"]
    assert ratio.constant == pytest.approx(64, rel=0.001)
    assert ratio.leave_one_out_error == pytest.approx(0, abs=1e-3)
    assert (null["cube root"].leave_one_out_error or 0) > 0.05
    other = with_shape(0, 32, Count.TOTAL)
    assert ratio.predict(other.budget).depth == pytest.approx(32, rel=1e-3)


def test_a_bound_counts_on_its_wrong_side_only() -> None:
    measured = [optimum(n, 6.0) for n in BUDGETS[:3]]
    (right,) = (law for law in fit_null_laws([*measured, edge(BUDGETS[3], 4.0, (1, 4))])
                if law.name == "same depth")  # fmt: skip
    assert right.constant == pytest.approx(6, rel=0.01)
    assert right.leave_one_out_error == pytest.approx(0, abs=0.01)
    (wrong,) = (law for law in fit_null_laws([*measured, edge(BUDGETS[3], 12.0, (1, 12))])
                if law.name == "same depth")  # fmt: skip
    assert wrong.constant > 6.2
    assert wrong.leave_one_out_error
    assert log(2) / 4 < wrong.leave_one_out_error < log(2), "the bound itself is missed by ln 2"


def test_the_interval_of_a_constant_is_that_of_a_mean() -> None:
    same = named(fit_null_laws([optimum(n, 6.0) for n in BUDGETS]))["same depth"]
    error = hypot(log(1 / 0.9**2) / 3.92, same.scatter) / len(BUDGETS) ** 0.5
    assert same.error == pytest.approx(error)
    new = hypot(error, same.scatter)
    ends = (6 * exp(-1.96 * new), 6 * exp(1.96 * new))
    assert same.predict(1e9).interval == pytest.approx(ends)


def test_two_budgets_or_bounds_alone_have_no_null_law() -> None:
    assert fit_null_laws([optimum(n, 6.0) for n in BUDGETS[:2]]) == ()
    assert fit_null_laws([edge(n, 8.0, (1, 8)) for n in BUDGETS]) == ()
