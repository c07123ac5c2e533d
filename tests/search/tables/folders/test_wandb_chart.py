"""Charts that W&B's page exported."""

import pytest

from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.wandb_chart import as_runs
from fathom.search.tables.open_table import OpenTable


def chart(*runs: str) -> OpenTable:
    """A chart of two steps, of which the first run has no value at the second."""
    ends = ("", "__MIN", "__MAX")
    names = ["Step", *(f"{run} - val/loss{end}" for run in runs for end in ends)]
    rows = [["100", *["3.5"] * 3 * len(runs)], ["200", *[""] * 3, *["3.4"] * 3 * (len(runs) - 1)]]
    return OpenTable("chart.csv", names, iter(enumerate(rows, 2)))


def test_a_column_is_a_run_with_the_settings_in_its_name() -> None:
    table = as_runs(chart("d8_w64 - a", "d4_w90"), {})

    assert table.names == ["run", "depth", "d_model", "step", "val/loss"]
    assert [row for _, row in table.rows] == [
        ["d8_w64 - a", "8", "64", "100", "3.5"],
        ["d4_w90", "4", "90", "100", "3.5"],
        ["d4_w90", "4", "90", "200", "3.4"],
    ]


def test_where_names_have_no_shape_the_message_says_what_to_export() -> None:
    with pytest.raises(TableError, match=r"the depth, .*, or export the table of runs from W&B's"):
        as_runs(chart("proud-sun-1", "old-sea-2"), {})


def test_a_chart_without_bounds_is_one_too() -> None:
    names = ["Step", "d8_w64 - val/loss", "d4_w90 - val/loss"]
    table = as_runs(OpenTable("t.csv", names, iter([(2, ["100", "3.5", "3.4"])])), {})

    assert [row[1] for _, row in table.rows] == ["8", "4"]


def test_another_table_stays_as_it_is() -> None:
    table = OpenTable("t.csv", ["Step", "loss"], iter(()))
    assert as_runs(table, {}) is table
