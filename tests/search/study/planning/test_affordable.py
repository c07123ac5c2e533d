"""Budgets that fit the time: their spacing, and the largest one that fits."""

from itertools import pairwise

import pytest

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.planning.affordable import (
    SHARE_OF_TIME,
    SHORTEST_HORIZON,
    SMALLEST,
    budgets_below,
    choose_budgets,
    fewer_tokens,
    smallest_budget,
)


def square(budgets: tuple[int, ...]) -> float:
    """Hours that grow with the square of the budget: one hour for 1M."""
    return sum((params / 1e6) ** 2 for params in budgets)


def test_four_budgets_stand_a_factor_of_three_apart_where_there_is_room() -> None:
    assert budgets_below(3_000_000, SMALLEST) == (110_000, 330_000, 1_000_000, 3_000_000)


@pytest.mark.parametrize("top", [80_000, 100_000, 200_000, 500_000])
def test_three_keep_a_factor_of_two_at_least_where_there_is_little(top: int) -> None:
    budgets = budgets_below(top, SMALLEST)

    assert len(budgets) == 3
    assert budgets[0] >= 0.95 * SMALLEST
    assert all(1.9 <= b / a <= 3.1 for a, b in pairwise(budgets))


@pytest.mark.parametrize("hours", [0.1, 1, 8, 100])
def test_the_largest_ladder_that_fits_is_chosen(hours: float) -> None:
    budgets = choose_budgets(10**9, 10**9, hours, square, smallest=SMALLEST)

    assert square(budgets) <= SHARE_OF_TIME * hours < square((2 * budgets[-1],))


@pytest.mark.parametrize("params", [10_000, 85_000, 1_234_567])
def test_a_size_whose_search_fits_the_hours_is_searched_alone(params: int) -> None:
    assert choose_budgets(params, params, 100, square, smallest=SMALLEST) == (params,)


def test_no_budget_is_larger_than_the_asked_size() -> None:
    for hours in (0.05, 0.1, 0.2, 1, 2, 3):
        assert choose_budgets(10**6, 10**6, hours, square, smallest=SMALLEST)[-1] <= 10**6


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        (10**9, r"`--hours` must be at least 0\.0099 .*\(20k, 40k, 80k\)"),
        (50_000, r"at least 0\.0029 for a search of 50k itself, got"),  # not by larger ones
    ],
)
def test_too_little_time_is_an_error_with_the_time_needed(params: int, needed: str) -> None:
    with pytest.raises(ConfigError, match=needed):
        choose_budgets(params, params, 0.001, square, smallest=SMALLEST)


def test_fewer_tokens_are_named_where_their_search_fits_and_a_model_still_learns() -> None:
    assert fewer_tokens(2_000_000, 100_000, lambda tokens: tokens <= 1_100_000) == 1_000_000
    assert fewer_tokens(2_000_000, 100_000, lambda tokens: tokens <= 400_000) is None
    assert fewer_tokens(200_000_000, 10**6, lambda _: True) == 150_000_000


def test_only_affordable_sizes_are_measured() -> None:
    asked: list[int] = []

    def hours_of(budgets: tuple[int, ...]) -> float:
        asked.append(budgets[-1])
        return square(budgets)

    choose_budgets(10**12, 10**12, 1, hours_of, smallest=SMALLEST)

    choose_budgets(10**12, 500_000, 1, hours_of, smallest=SMALLEST)  # a text of 10M tokens

    assert max(asked) <= 2_000_000


@pytest.mark.parametrize("tokens_per_parameter", [0.5, 20, 60, 1000])
def test_the_smallest_budget_trains_long_enough_to_be_judged(tokens_per_parameter: float) -> None:
    smallest = smallest_budget(tokens_per_parameter)

    assert smallest >= SMALLEST
    assert smallest * tokens_per_parameter >= 0.99 * SHORTEST_HORIZON
