"""Losses in other units than nats."""

from math import log

import pytest

from fathom.models.unit import UNITS, Unit, unit_in


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("val_bpb", "bits_per_byte"),
        ("fp_val_bpb_final", "bits_per_byte"),
        ("bits_per_char", "bits_per_character"),
        ("nats_per_byte", "nats_per_byte"),
        ("val_loss", ""),
        ("bpbx", ""),
    ],
)
def test_a_unit_is_known_by_the_words_of_a_name(name: str, unit: str) -> None:
    assert unit_in(name) == unit


def test_bits_per_byte_are_nats_a_token_by_the_tokens_of_a_byte() -> None:
    unit = UNITS["bits_per_byte"].per_token(0.25)

    assert unit.nats == pytest.approx(4 * log(2))
    assert unit.value(unit.nats) == unit.difference(unit.nats) == 1


def test_a_quantity_to_maximise_falls_as_the_loss_rises_and_its_costs_stay_above_0() -> None:
    unit = Unit("accuracy", nats=0.1, zero=80.0)

    assert unit.value(0.2) == pytest.approx(78)
    assert unit.interval((0.1, 0.2)) == pytest.approx((1, 2))
