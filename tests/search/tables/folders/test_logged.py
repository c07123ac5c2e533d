"""Runs of files as a table."""

from collections.abc import Mapping, Sequence

import pytest

from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.logged import (
    LOGS,
    Logged,
    LoggedRun,
    Series,
    keeper,
    lacking,
    table_of,
)

SHAPE = {"depth": "8", "d_model": "64"}


def series(**measured: Mapping[int, object]) -> dict[str, Series]:
    """Name -> place in the log -> value."""
    found = {}
    for name, values in measured.items():
        found[name] = Series()
        for at, value in values.items():
            found[name].add(at, value)
    return found


def run(name: str = "a.log", **parts: Mapping[str, object]) -> LoggedRun:
    known = {"settings": {}, "named": SHAPE, "series": {}}
    return LoggedRun(name=name, **(known | parts))  # type: ignore[arg-type]


def rows(*runs: LoggedRun, told: Mapping[str, str] | None = None) -> list[dict[str, object]]:
    table = table_of(Logged(label="runs", kind=LOGS, runs=runs, lacking={}), told or {})
    return [dict(zip(table.names, row, strict=True)) for _, row in table.rows]


def notes(*runs: LoggedRun, kind: str = LOGS) -> Sequence[str]:
    return table_of(Logged(label="runs", kind=kind, runs=runs, lacking={}), {}).notes


def test_a_row_is_a_validation_with_what_was_last_measured_besides() -> None:
    measured = series(
        step={1: 10.0, 4: 20.0}, tokens={0: 5.0, 3: 9.0}, loss={1: 5.0, 4: 4.0},
        val_loss={2: 4.5, 5: 3.5},
    )  # fmt: skip

    assert rows(run(series=measured)) == [
        {"run": "a.log", **SHAPE, "step": 10.0, "tokens": 5.0, "loss": 5.0, "val_loss": 4.5},
        {"run": "a.log", **SHAPE, "step": 20.0, "tokens": 9.0, "loss": 4.0, "val_loss": 3.5},
    ]


def test_after_a_restart_the_later_rows_hold() -> None:
    measured = series(
        step={1: 10.0, 2: 20.0, 3: 30.0, 4: 20.0, 5: 30.0},
        loss={1: 5.0, 2: 4.0, 3: 3.0, 4: 4.1, 5: 3.1},
    )
    found = rows(run(series=measured))
    assert [(row["step"], row["loss"]) for row in found] == [(10, 5.0), (20, 4.1), (30, 3.1)]


def test_several_runs_in_one_log_and_losses_of_several_data_stay_apart() -> None:
    measured = series(
        seed={1: 0.0, 2: 0.0, 3: 1.0, 4: 1.0},
        step={1: 10.0, 2: 20.0, 3: 10.0, 4: 20.0},
        loss={1: 5.0, 2: 4.0, 3: 5.1, 4: 4.1},
    )
    assert len(rows(run(series=measured))) == 4
    measured = series(
        phase={1: "val", 2: "train"}, step={1: "10", 2: "10"}, loss={1: "5.0", 2: "4.0"}
    )
    named = Logged(
        label="runs", kind=LOGS, runs=[run(series=measured)], lacking={},
        settings=frozenset({"phase", "step", "loss"}),
    )  # fmt: skip
    assert len(list(table_of(named, {}).rows)) == 2


def test_without_a_step_the_last_loss_counts() -> None:
    measured = series(loss={1: 5.0, 2: 4.0})
    assert [row["loss"] for row in rows(run(series=measured))] == [4.0]
    assert any("have no step, so the last" in note for note in notes(run(series=measured)))
    zero = series(step={1: 0.0}, loss={1: 5.0})
    assert [list(row) for row in rows(run(series=zero))] == [["run", *SHAPE, "loss"]]


def test_runs_without_a_loss_or_a_step_are_left_out_with_a_note() -> None:
    whole = run(series=series(step={1: 10.0}, val_loss={1: 5.0}))
    no_loss = run("b.log", series=series(step={1: 10.0}))
    no_step = run("c.log", series=series(val_loss={1: 5.0}))

    assert [row["run"] for row in rows(whole, no_loss, no_step)] == ["a.log"]
    assert notes(whole, no_loss, no_step) == (
        "2 of 3 logs have no val_loss or no step: left out (b.log, c.log)",
    )


def test_settings_of_files_hold_before_those_of_names_in_one_column() -> None:
    measured = series(step={1: 10.0}, loss={1: 5.0})
    by_file = run(settings={"n_layer": 4}, series=measured)
    by_name = run("b.log", series=measured)

    assert [row["n_layer"] for row in rows(by_file, by_name)] == [4, "8"]
    assert "depth" not in rows(by_file, by_name)[0]


def test_a_measured_loss_and_step_hold_before_settings_of_such_names() -> None:
    settings = {"loss": "ce", "max_steps": 1000, "train_tokens": 10, "weight_decay": 0.1}
    measured = series(iter={1: 10.0}, val_loss={1: 5.0})
    [row] = rows(run(settings=settings, series=measured))

    assert row.keys() == {
        "run",
        "depth",
        "d_model",
        "weight_decay",
        "train_tokens",
        "iter",
        "val_loss",
    }
    assert row["iter"] == 10.0


def test_a_rate_that_was_set_holds_before_that_of_a_schedule() -> None:
    measured = series(step={1: 10.0}, lr={1: 1e-5}, loss={1: 5.0})
    [row] = rows(run(named=SHAPE | {"learning_rate": "0.01"}, series=measured))
    assert "lr" not in row
    assert row["learning_rate"] == "0.01"


def test_results_are_no_settings_but_what_a_person_names_may_be() -> None:
    runs = [run(series=series(step={1: 10.0}, loss={1: 5.0}, batch={1: "4"}))]
    common = Logged(label="runs", kind=LOGS, runs=runs, lacking={})
    asked = Logged(
        label="runs", kind=LOGS, runs=runs, lacking={}, settings=frozenset({"loss", "batch"})
    )
    assert table_of(common, {}).results == {"step", "loss", "batch"}
    assert table_of(asked, {}).results == {"step"}


def test_only_names_that_may_be_asked_for_are_kept() -> None:
    keep = keeper({"tel": "loss"}, ["phase"])
    kept = [name for name in ("tel", "phase", "val/loss", "val_ppl", "n_layer") if keep(name)]
    assert kept == ["tel", "phase", "val/loss", "val_ppl", "n_layer"]
    assert not any(keep(name) for name in ("mfu", "value", "run", "grad_norm", "aux_loss"))


@pytest.mark.parametrize(
    ("named", "measured", "message"),
    [
        ({}, {"loss": {1: 5.0}}, "the depth, .*--map COLUMN=depth, or put it into the names .* d8"),
        ({"depth": "8"}, {"loss": {1: 5.0}}, "the size of each model, .*, such as w512 or params"),
        (SHAPE, {"step": {1: 5.0}},
         r"the loss, .*=loss \(there are also tel\), or say how a line has it with --line X"),
        (SHAPE, {"val_acc": {1: 5.0}}, "the loss, .* with --line X"),
    ],
)  # fmt: skip
def test_a_column_that_lacks_is_named_with_what_gives_it(
    named: dict[str, str], measured: dict[str, Mapping[int, object]], message: str
) -> None:
    runs = [run(named=named, series=series(**measured))]
    with pytest.raises(TableError, match=message):
        table_of(
            Logged(label="runs", kind=LOGS, runs=runs, lacking=lacking(["tel"], "--line X")), {}
        )


def test_a_loss_of_no_known_data_is_noted() -> None:
    measured = run(series=series(step={1: 10.0}, loss={1: 5.0}))
    assert any("on which data" in note for note in notes(measured))
    assert not notes(run(series=series(step={1: 1.0}, val_loss={1: 5.0})))
