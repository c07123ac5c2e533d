"""docs/method.md: its constants are those of the code, and so are its formulas."""

import importlib
import math
import re

import numpy as np
import pytest
from scipy.special import lambertw

from fathom.models.shape import Count, Shape
from fathom.search.analysis.curve.curve_fit import whole_depth
from fathom.search.analysis.curve_families import PowerCurve
from fathom.search.analysis.laws.law import LOGARITHMIC, depth_and_slopes
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "method.md"


def test_its_constants_are_those_of_the_code() -> None:
    rows = re.findall(
        r"^\| `([A-Z_0-9]+)` \| (.+?) \| `(.+?)\.py` \|$", PAGE.read_text("utf-8"), re.M
    )

    assert len(rows) > 30
    for name, told, file in rows:
        value = getattr(importlib.import_module("fathom." + file.replace("/", ".")), name)
        values = value if isinstance(value, tuple) else (value,)
        assert [float(number) for number in told.split(",")] == pytest.approx(values), name


def test_the_files_that_it_names_exist() -> None:
    named = re.findall(r"\]\((\.\./[\w/]+\.py)\)", PAGE.read_text("utf-8"))

    assert len(set(named)) > 15
    assert not [file for file in named if not (PAGE.parent / file).exists()]


@pytest.mark.parametrize(("gated", "q"), [(False, 1), (True, 1), (True, 3)])
def test_its_counts_are_a_shapes(gated: bool, q: int) -> None:
    L, d, f, h, d_h, V, T, g = 7, 96, 250, 3, 16, 500, 64, 3 if gated else 2
    shape = Shape(
        depth=L, d_model=d, d_ff=f, n_heads=h, head_dim=d_h, vocab_size=V, context=T, gated=gated,
        queries_per_key=q,
    )  # fmt: skip
    M = 2 * (q + 1) * d * h * d_h // q + g * d * f
    B = M + 2 * d

    assert shape.size(Count.MATRICES) == L * M
    assert shape.size(Count.NON_EMBEDDING) == L * B + d
    assert shape.size(Count.TOTAL) == L * B + d + V * d
    forward = 2 * (L * M + V * d) + 4 * L * h * d_h * (T + 1) / 2
    assert shape.forward_flops_per_token == pytest.approx(forward)
    assert shape.train_flops_per_token == pytest.approx(3 * forward)


def test_its_lowest_point_of_the_first_family_is_the_lowest() -> None:
    a, b, p, q, middle = 0.3, 0.1, 0.5, 2.0, 4.0
    curve = PowerCurve(a=a, b=b, c=1.0, p=p, q=q, scale=middle)

    lowest = middle * (p * a / (q * b)) ** (1 / (p + q))

    assert curve(lowest) < min(curve(lowest * 0.999), curve(lowest * 1.001))


def test_whole_depths_round_at_the_root_of_the_product_of_neighbours() -> None:
    for n in range(1, 9):
        edge = math.sqrt(n * (n + 1))
        assert (whole_depth(edge - 1e-9), whole_depth(edge + 1e-9)) == (n, n + 1)


def test_its_depth_by_lamberts_w_is_that_of_the_logarithmic_law() -> None:
    a, b, params = 5.039, 0.0555, 1e9
    depth = depth_and_slopes(LOGARITHMIC, np.array([a, b]), np.array([params]))[0][0]

    assert depth == pytest.approx(lambertw(2 * b * params * math.exp(-2 * a) / 12).real / (2 * b))
    assert 12 * depth * math.exp(a + b * depth) ** 2 == pytest.approx(params)
