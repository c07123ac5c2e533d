"""Horizons as people write them: tokens a parameter, or tokens."""

import pytest

from fathom.search.tables.grouped.horizons import Horizon, parse_horizons


def test_plain_numbers_are_tokens_a_parameter_and_those_with_a_suffix_tokens() -> None:
    assert parse_horizons("20, 2.5,20,2B") == (
        *(Horizon(20, per_parameter=True), Horizon(2.5, per_parameter=True)),
        Horizon(2_000_000_000),
    )
    assert Horizon(20, per_parameter=True).tokens(3_000_000) == 60_000_000
    assert Horizon(2e9).tokens(3_000_000) == 2e9
    assert [Horizon(20, per_parameter=True).text, Horizon(2e9).text] == [
        *("20 tokens a parameter", "2B tokens"),
    ]


@pytest.mark.parametrize("text", ["", "20,", "0", "-5", "2000000000", "nan", "20x"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_horizons(text)
