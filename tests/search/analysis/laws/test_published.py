"""Published numbers, to the rounding in which they were published."""

from math import exp

import pytest

from fathom.search.analysis.laws.published import (
    GPT3,
    TRILLION_NOTE,
    Levine2020,
)

TABLE = {
    "125M": (12, 768, 84.9e6, 23.0, 554),
    "350M": (24, 1024, 302e6, 31.6, 892),
    "760M": (24, 1536, 679e6, 37.4, 1230),
    "1.3B": (24, 2048, 1.21e9, 41.6, 1556),
    "2.7B": (32, 2560, 2.52e9, 47.1, 2111),
    "6.7B": (32, 4096, 6.44e9, 54.3, 3144),
    "13B": (40, 5140, 12.7e9, 59.6, 4214),
    "175B": (96, 12288, 174e9, 80.5, 13421),
    "1T": (None, None, 1e12, 94.7, 29657),
}
"""GPT-3's size -> trained depth and d_model, parameters, depth and d_model by the law."""


def test_the_published_law_reshapes_gpt3_as_published() -> None:
    assert [model.name for model in GPT3] == list(TABLE)
    for model in GPT3:
        depth, d_model, params, best_depth, best_d_model = TABLE[model.name]
        assert (model.depth, model.d_model, model.params) == (depth, d_model, params)
        found = Levine2020().predict(model.params)
        assert round(found.depth, 1) == best_depth
        # 174B has three digits, and so one in 6,000 of its width.
        assert found.d_model == pytest.approx(best_d_model, abs=0.5, rel=3e-4)


def test_the_published_constants_give_depth_95_at_a_trillion() -> None:
    """The authors' blog says 92, which their constants do not."""
    found = Levine2020().predict(1e12)
    assert round(found.depth) == 95
    assert found.extrapolated
    assert "95" in TRILLION_NOTE
    assert "92" in TRILLION_NOTE


@pytest.mark.parametrize(
    ("depth", "d_model", "params"),
    [
        (1, 163, 0.319e6), (2, 172, 0.714e6), (3, 182, 1.20e6), (4, 193, 1.78e6),
        (6, 215, 3.34e6), (8, 241, 5.56e6), (12, 300, 13.0e6), (18, 419, 37.9e6),
        (24, 585, 98.4e6), (30, 816, 240e6), (36, 1138, 559e6), (48, 2215, 2.83e9),
        (64, 5383, 22.3e9), (80, 13082, 164e9), (92, 25463, 716e9), (96, 31793, 1.16e12),
    ],
)  # fmt: skip
def test_the_transition_table_is_reproduced(depth: int, d_model: int, params: float) -> None:
    exact = 12 * depth * exp(2 * 5.039 + 2 * 0.0555 * depth)
    assert exact == pytest.approx(params, rel=5e-3)
    found = Levine2020().predict(exact * (1 + 1e-12))
    assert found.depth == pytest.approx(depth)
    assert found.d_model == pytest.approx(d_model, abs=0.5)
    assert found.extrapolated is not (6 <= found.depth <= 48)


def test_there_is_no_published_depth_below_a_third_of_a_million_parameters() -> None:
    assert Levine2020().predict(0.32e6).depth == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match=r"at least one layer.* gives depth 0\.9.*at 3e\+05"):
        Levine2020().predict(0.3e6)


@pytest.mark.parametrize("params", [0, -1.0, float("nan"), float("inf")])
def test_a_size_must_be_a_positive_number(params: float) -> None:
    with pytest.raises(ValueError, match="`params` must be a positive number"):
        Levine2020().predict(params)
