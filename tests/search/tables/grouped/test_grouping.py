"""Rows of a table as runs."""

import numpy as np
import pytest

from fathom.models.spend import Coin
from fathom.search.tables.columns.cells import read_cells
from fathom.search.tables.columns.columns import choose_columns
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.grouping import group_runs
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.runs import Runs


def grouped(**columns: list[object]) -> Runs:
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    table = rows_of("t", rows)
    return group_runs(read_cells(table, choose_columns(table.names, {}, "t")), "t")


def test_a_curve_is_a_run_and_a_seed_is_another() -> None:
    found = grouped(
        depth=[4] * 4, params=[1000] * 4, seed=["a", "a", "b", "b"], tokens=[1, 2, 1, 2],
        loss=[3, 2, 3.1, 2.1],
    )  # fmt: skip

    assert [(run.seed, run.losses.tolist()) for run in found.runs] == [(0, [3, 2]), (1, [3.1, 2.1])]
    assert found.coin is Coin.TOKENS


def test_tokens_that_all_come_twice_are_of_two_seeds_and_some_are_of_a_restart() -> None:
    twice = grouped(depth=[4] * 4, params=[9] * 4, step=[1, 2, 1, 2], loss=[3, 2, 3.1, 2.1])
    restarted = grouped(depth=[4] * 4, params=[9] * 4, step=[1, 2, 2, 3], loss=[3, 2, 2.1, 1])

    assert [run.losses.tolist() for run in twice.runs] == [[3, 2], [3.1, 2.1]]
    assert "counted as other seeds" in " ".join(twice.notes)
    assert [run.losses.tolist() for run in restarted.runs] == [[3, 2.1, 1]]


def test_rows_that_were_copied_count_once() -> None:
    found = grouped(depth=[4, 4, 8], params=[9] * 3, loss=[3.0, 3.0, 2.9])

    assert [run.depth for run in found.runs] == [4, 8]


def test_a_rate_tells_runs_apart_unless_it_is_a_schedule() -> None:
    rates = grouped(depth=[4] * 3, params=[9] * 3, lr=[1e-3, 2e-3, 4e-3], loss=[3.0, 2.9, 2.95])
    schedule = grouped(
        depth=[4] * 3, params=[9] * 3, step=[1, 2, 3], lr=[1e-3, 5e-4, 0.0], loss=[3.0, 2.9, 2.8]
    )

    assert [run.learning_rate for run in rates.runs] == [1e-3, 2e-3, 4e-3]
    assert [(run.learning_rate, len(run.tokens)) for run in schedule.runs] == [(1e-3, 3)]


def test_a_loss_that_is_no_number_ends_a_run_and_one_that_is_not_there_is_nothing() -> None:
    found = grouped(
        depth=[4, 4, 4, 8, 8], params=[9] * 5, step=[1, 2, 3, 1, 2],
        loss=[3.0, "", 2.8, 3.0, "nan"],
    )  # fmt: skip
    exploded = grouped(depth=[4, 8], params=[9, 9], loss=[3.0, 1e30])

    ends = [(run.tokens.tolist(), run.diverged) for run in found.runs]
    assert ends == [([1, 3], False), ([1], True)]
    assert [run.diverged for run in exploded.runs] == [False, True]


def test_the_total_of_a_runs_tokens_is_not_how_far_it_has_come() -> None:
    found = grouped(depth=[4] * 3, params=[9] * 3, tokens=[60] * 3, step=[1, 2, 3], loss=[3, 2, 1])

    assert [run.tokens.tolist() for run in found.runs] == [[1, 2, 3]]
    assert found.coin is Coin.STEPS


def test_a_name_that_is_new_in_every_row_is_no_runs() -> None:
    found = grouped(
        depth=[4] * 6, params=[9] * 6, step=list(range(1, 7)), id=list("abcdef"),
        loss=[3.0, 2.9, 2.8, 2.7, 2.6, 2.5],
    )  # fmt: skip

    assert len(found.runs) == 1
    assert "new one in every row" in " ".join(found.notes)


def test_a_size_that_is_not_there_is_estimated_by_the_matrices() -> None:
    [run] = grouped(depth=[4], d_model=[10], loss=[3.0]).runs

    assert run.params_non_embedding == 12 * 4 * 10**2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"depth": ["x"], "params": [9], "loss": [3]}, "t:1: 'depth' must hold a number such as"),
        ({"depth": [4.5], "params": [9], "loss": [3]}, "'depth' must hold a whole number"),
        ({"depth": [4], "params": ["1e400"], "loss": [3]}, "'params' must hold a whole number"),
        ({"depth": [4], "params": [-9], "loss": [3]}, "'params' must hold a whole number from 1"),
        ({"depth": [4], "params": [9], "loss": ["3,1"]}, "with a decimal point, or nothing"),
        ({"depth": [""], "params": [9], "loss": [3]}, "got 1 without a depth or a loss"),
        ({"depth": [4], "params": [9], "loss": ["nan"]}, "and a loss that is a number, got none"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(
    columns: dict[str, list[object]], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        grouped(**columns)


def test_numbers_may_be_written_as_people_do() -> None:
    [run] = grouped(depth=["12.0"], params=["124M"], tokens=["1,000,000"], loss=[" 3.1 "]).runs

    assert (run.depth, run.params_total, run.tokens.tolist()) == (12, 124_000_000, [1e6])
    assert np.allclose(run.losses, 3.1)


def test_final_losses_at_tokens_of_their_own_are_no_curves() -> None:
    draws = np.random.default_rng(0)
    rows: list[dict[str, object]] = [
        {"depth": depth, "d_model": 64, "params": 10**7 + norm * 10**3, "seed": seed,
         "norm": str(bool(norm)), "bias": str(bool(bias)),
         "tokens": draws.integers(2 * 10**8, 3 * 10**8), "val_loss": 3 + draws.uniform()}
        for depth in (4, 8, 16) for norm in (0, 1) for bias in (0, 1) for seed in range(5)
    ]  # fmt: skip
    table, names = rows_of("t", rows), ("norm", "bias")
    cells = read_cells(table, choose_columns(table.names, {}, "t"), names)
    runs = group_runs(cells, "t", names).runs

    assert len(runs) == len(rows)
    assert {len(run.tokens) for run in runs} == {1}
    assert len({run.sized_shape for run in runs}) == 3, "norms make no other shape"
