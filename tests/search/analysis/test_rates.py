"""The best learning rate of a shape: `search/analysis/rates.py`."""

from math import log

import pytest

from fathom.search.analysis.rates import RateBracket, best_rate_weights, granted_gain


def test_three_rates_give_the_lowest_point_of_their_parabola() -> None:
    rates = (0.5, 1.0, 2.0)
    losses = {rate: 1.5 + 0.03 * log(rate / 1.3) ** 2 for rate in rates}
    weights = best_rate_weights(losses)
    assert sum(weights.values()) == pytest.approx(1)
    assert sum(weights[rate] * losses[rate] for rate in rates) == pytest.approx(1.5)


def test_a_best_rate_beyond_the_bracket_stays_at_its_end() -> None:
    losses = {rate: 0.03 * log(rate / 20) ** 2 for rate in (0.5, 1.0, 2.0)}
    assert best_rate_weights(losses) == pytest.approx({0.5: 0, 1: 0, 2: 1}, abs=1e-9)
    bent = {0.5: 1.2, 1.0: 1.5, 2.0: 1.3}
    assert best_rate_weights(bent) == pytest.approx({0.5: 1, 1: 0, 2: 0}, abs=1e-9)
    assert best_rate_weights({1.0: 1.5, 2.0: 1.4}) == {1.0: 0.0, 2.0: 1.0}


def test_a_rate_that_nearly_diverged_bends_no_parabola() -> None:
    losses = {0.5: 2.01, 1.0: 2.0, 2.0: 6.5}
    assert best_rate_weights(losses) == {0.5: 0.0, 1.0: 1.0, 2.0: 0.0}


def test_a_depth_between_brackets_is_granted_the_gain_of_a_rate_that_moves_with_depth() -> None:
    def bracket(depth: int) -> RateBracket:
        rate = depth**0.5 / 2  # the study's own rate suits depth 4
        return RateBracket(depth=depth, best_rate=rate, gain=0.03 * log(rate) ** 2, weight=0.5)

    brackets = [bracket(1), bracket(16)]
    for depth in (2, 4, 8):
        gain, weight = granted_gain(log(depth), brackets)
        assert gain == pytest.approx(bracket(depth).gain, abs=1e-12)
        assert weight == 0.5


def test_beyond_the_outermost_bracket_its_gain_stands() -> None:
    brackets = [RateBracket(depth=d, best_rate=2, gain=0.01 * d, weight=0.5) for d in (2, 4)]
    assert granted_gain(log(1), brackets) == (0.02, 0.5)
    assert granted_gain(log(9), brackets) == (0.04, 0.5)
