"""The command `analyse`, as a person types it."""

import json
from pathlib import Path

import pytest

from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.scheduling.journal import Past
from fathom.search.tracking import store
from tests.support.command_line import here
from tests.support.simulated import simulated_study
from tests.support.tables import DEPTHS, planted_loss, write_table

STUDY = """
study: simulated
objective: {name: language, corpus: .}
budgets: [300k, 1M, 3M]
seed: 0
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [(d, 1e7, s, planted_loss(d)) for d in DEPTHS for s in range(3)]
    return write_table(tmp_path / "runs.csv", ["n_layer", "n_params", "seed", "val/loss"], rows)


def said(*arguments: object) -> tuple[int, str, str]:
    done = here("analyse", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_table_has_an_answer_with_its_columns(table: Path) -> None:
    status, out, _ = said(table)

    assert status == 0
    assert "depth = n_layer, loss = val/loss, params_total = n_params, seed" in out
    assert "identified" in out
    assert "measured" in out
    assert "These data do not show" in out
    assert "0.0040 stated" in said(table, "--noise", 0.004)[1]
    found = json.loads(said(table, "--json")[1])
    assert found["columns"]["loss"] == "val/loss"
    assert found["answers"][0]["budgets"][0]["verdict"] == "identified"


def test_a_report_is_written_and_nothing_of_others_is_touched(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    assert said(table, "--report", folder)[0] == 0
    assert said(table, "--report", folder)[0] == 0, "its own report is replaced"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "val/loss" in page
    assert "best.yaml" not in page
    status, _, error = said(table, "--report", tmp_path)
    assert (status, error.count("\n")) == (2, 1)
    assert "which has something else" in error


def test_names_of_others_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    rows = [(d, 1e7, planted_loss(d), "\x1b[2J[red]") for d in DEPTHS]
    evil = write_table(tmp_path / "[bold]e\x1bvil.csv", ["depth", "n\x07", "loss", "name"], rows)
    _, out, _ = said(evil, "--map", "n\x07=params")

    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise", -1], "`--noise` must be nats above 0"),
        (["--width", 2], "`--width` must be a share"),
        (["--budget", "x"], "`--budget` must be a positive number"),
        (["--map", "val/loss"], "`--map` must be COLUMN=NAME"),
        (["--experiment", "x"], "`--experiment` is one of an MLflow store"),
        (["x.csv"], "where there is nothing"),
        (["."], "where there is a folder"),
    ],
)
def test_a_mistake_is_one_line(table: Path, arguments: list[object], message: str) -> None:
    source = [table] if str(arguments[0]).startswith("--") else []
    status, out, error = said(*source, *arguments)

    assert (status, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_a_run_folder_has_the_answer_of_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(RECORDS, lambda record: record)
    monkeypatch.setattr("fathom.search.commands.analyse_source.read_run", lambda *_: past)
    (tmp_path / "config.yaml").write_text(STUDY)
    append_line(tmp_path / "records.jsonl", to_json(RECORDS[0]))
    status, out, _ = said(tmp_path)
    assert status == 0
    assert f"a run folder, {len(RECORDS)} trials" in out
    assert "are for tables" in said(tmp_path, "--budget", "1M")[2]


RECORDS = simulated_study()


def test_an_experiment_of_mlflow_is_a_table(tmp_path: Path) -> None:
    store.settle()
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = store.connect(uri)
    experiment = client.create_experiment("mine")
    for depth in DEPTHS:
        for seed in range(2):
            run = client.create_run(experiment).info.run_id
            for name, value in (("n_layer", depth), ("n_params", 10_000_000), ("seed", seed)):
                client.log_param(run, name, value)
            for step in range(1, 6):
                client.log_metric(run, "val_loss", planted_loss(depth) + 1 / step, step=step)

    status, out, _ = said(uri, "--experiment", "mine")

    assert status == 0
    assert "50 rows, 10 runs of 5 shapes" in out
    assert "identified" in out
    assert "must say which experiment is meant of" in said(uri)[2]
    assert said(uri)[2].rstrip().endswith("which has mine")
    assert "got 'mime'; did you mean 'mine'?" in said(uri, "--experiment", "mime")[2]
    assert "got 'other'; it has mine" in said(uri, "--experiment", "other")[2]
