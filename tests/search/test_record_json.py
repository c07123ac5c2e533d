"""Lines of records as values: `search/record_json.py`."""

import json

import pytest

from fathom.search.record_json import parse_line


@pytest.mark.parametrize(
    "number",
    [
        "1e39",
        "-4E+38",
        f"{10**39}.0",
        f"{10**18}",
        f"-{10**18}",
        f"{10**400}",
        "1.5e0000000039",
        "1e999",
        "-1e400",
    ],
)
def test_a_number_that_no_training_has_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="larger than any"):
        parse_line(f'{{"loss": {number}}}'.encode())


@pytest.mark.parametrize(
    "number",
    ["3.4e38", "1e-300", "0.12345678901234567", f"{10**18 - 1}", "-2.5e9", "1e+16", "Infinity"],
)
def test_any_other_number_is_read_as_it_is(number: str) -> None:
    assert parse_line(f'{{"loss": {number}}}'.encode()) == {"loss": json.loads(number)}
