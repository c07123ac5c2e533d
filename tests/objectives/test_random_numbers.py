"""The rows and windows of a training step."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.objectives.random_numbers import LISTED, training_rows, training_windows


def rows_of(count: int, steps: range, batch_size: int, seed: int = 0) -> NDArray[np.int64]:
    drawn = [training_rows(count, seed=seed, step=step, batch_size=batch_size) for step in steps]
    return np.concatenate(drawn)


@pytest.mark.parametrize(("count", "batch_size"), [(1, 3), (7, 3), (12, 4), (10, 25), (97, 10)])
def test_every_epoch_is_a_permutation_of_the_rows(count: int, batch_size: int) -> None:
    rows = rows_of(count, range(3 * count), batch_size)
    epochs = rows[: len(rows) // count * count].reshape(-1, count)
    assert (np.sort(epochs, axis=1) == np.arange(count)).all()


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [
        tuple(training_rows(50, seed=seed, step=step, batch_size=50).tolist())
        for seed in range(5)
        for step in range(5)
    ]
    assert len(set(orders)) == 25


def test_the_rows_of_a_step_do_not_depend_on_the_steps_before() -> None:
    later = training_rows(40, seed=2, step=31, batch_size=6)
    rows_of(40, range(31), 6, seed=9)
    assert (training_rows(40, seed=2, step=31, batch_size=6) == later).all()


def test_every_order_of_a_few_rows_is_equally_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(2400):
        order = tuple(training_rows(4, seed=seed, step=0, batch_size=4).tolist())
        seen[order] = seen.get(order, 0) + 1
    chi_square = sum((count - 100) ** 2 / 100 for count in seen.values())
    assert len(seen) == 24
    assert chi_square < 49.7  # 0.1 % of chi-square with 23 degrees of freedom


@pytest.mark.parametrize(("tokens", "context"), [(11, 10), (25, 10), (1000, 7), (1001, 128)])
def test_windows_lie_in_the_text_and_do_not_overlap(tokens: int, context: int) -> None:
    count = max(1, tokens // context - 1)
    for epoch in range(20):
        starts = training_windows(tokens, context, seed=1, step=epoch, batch_size=count)
        assert starts.min() >= 0
        assert starts.max() + context + 1 <= tokens
        assert (np.diff(np.sort(starts)) == context).all()


def test_another_epoch_cuts_the_text_elsewhere() -> None:
    firsts = {
        int(training_windows(1000, 10, seed=0, step=epoch, batch_size=99).min())
        for epoch in range(60)
    }
    assert firsts == set(range(10))


@pytest.mark.parametrize("count", [LISTED + 1, 3 * LISTED + 7, 4 * LISTED])
def test_an_epoch_of_very_many_rows_is_a_permutation_too(count: int) -> None:
    rows = training_rows(count, seed=3, step=0, batch_size=count)
    assert (np.bincount(rows, minlength=count) == 1).all()
    # As far from their places as at random, and neighbours unrelated.
    assert abs(np.abs(rows - np.arange(count)).mean() / (count / 3) - 1) < 0.01
    assert abs(np.corrcoef(rows[:-1], rows[1:])[0, 1]) < 0.005


def test_epochs_of_very_many_rows_have_orders_of_their_own_whatever_the_batch_size() -> None:
    count = 10**10
    orders = [
        training_rows(count, seed=seed, step=epoch * count // 64, batch_size=64).tolist()
        for seed in range(3)
        for epoch in range(3)
    ]
    assert len({tuple(order) for order in orders}) == 9
    halves = [training_rows(count, seed=0, step=step, batch_size=32).tolist() for step in (0, 1)]
    assert halves[0] + halves[1] == orders[0]
