"""The law over amounts, through best sizes and depths that follow a known one."""

from dataclasses import replace

import numpy as np
import pytest

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.models.unit import NATS
from fathom.search.analysis.answer.optimum import BestSize, Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.amount_law import AmountLaw, fit_amount_law
from fathom.search.report.words.sizes import amount_law_text
from tests.support.optima import optimum, verdict


def answered(amount: float, size: float, depth: int, kind: Kind = Kind.IDENTIFIED) -> Optimum:
    spend = Spend(amount, Coin.FLOPS)
    best = BestSize(
        spend=spend, unit=NATS, sizes=(1, 10**9), size=round(size), loss=2.0,
        interval=(round(size / 1.2), round(size * 1.2)), plateau=None, verdict=verdict(kind),
        costs=(), noise=0.004,
    )  # fmt: skip
    return replace(
        optimum(round(amount), depth), count=Count.TRAIN_FLOPS, shared_spend=spend, best_size=best,
        tokens=round(amount / 6 / size),
    )  # fmt: skip


def width(law: AmountLaw | None) -> float:
    assert law is not None
    low, high = law.powers[0].interval
    return high - low


AMOUNTS = (1e15, 4e15, 16e15, 64e15)


def test_exponents_of_size_and_tokens_add_up() -> None:
    law = fit_amount_law(
        [answered(c, 1e-2 * c**0.5, d) for c, d in zip(AMOUNTS, (4, 5, 6, 8), strict=True)]
    )
    assert law is not None
    size, tokens, depth = law.powers
    assert size.exponent == pytest.approx(0.5, abs=0.001)
    assert size.interval[0] < 0.5 < size.interval[1]
    assert size.exponent + tokens.exponent == pytest.approx(1, abs=0.001)
    assert 0.1 < depth.exponent < 0.25
    assert law.middle == pytest.approx(8e15)
    assert amount_law_text(law).startswith("over 4 amounts, size grows as FLOPs^0.50 [")


def test_scatter_beyond_the_intervals_widens_the_exponents() -> None:
    generator = np.random.default_rng(0)
    narrow = fit_amount_law([answered(c, 1e-2 * c**0.5, 4) for c in AMOUNTS])
    off = np.exp(generator.normal(0, 0.6, len(AMOUNTS)))
    wide = fit_amount_law(
        [answered(c, 1e-2 * c**0.5 * k, 4) for c, k in zip(AMOUNTS, off, strict=True)]
    )
    assert width(wide) > 2 * width(narrow)


def test_open_amounts_do_not_count() -> None:
    open_ones = [answered(c, 1e-2 * c**0.5, 4, Kind.EDGE) for c in AMOUNTS[:2]]
    assert fit_amount_law([*open_ones, *(answered(c, 1e7, 4) for c in AMOUNTS[2:])]) is None
