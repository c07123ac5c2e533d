"""The command `analyse`, as a person types it."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend

from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.scheduling.journal import Past
from fathom.search.scheduling.optuna import optuna_table
from fathom.search.tracking.stores import store
from tests.support.command_line import here
from tests.support.contract import valid
from tests.support.light import without
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
    found = valid(json.loads(said(table, "--json")[1]))
    assert found["table"]["columns"]["loss"] == "val/loss"
    assert found["answers"][0]["verdict"]["kind"] == "identified"
    assert found["answers"][0]["next"] == []


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
        (["--noise", -1], "`--noise` must be above 0"),
        (["--width", 2], "`--width` must be a share"),
        (["--params", "x"], "`--params` must be a positive number"),
        (["--map", "val/loss"], "`--map` must be COLUMN=NAME"),
        (["--experiment", "x"], "`--experiment` needs an MLflow store"),
        (["x.csv"], "where there is nothing"),
        (["/dev/null"], "where there is something else"),
    ],
)
def test_a_mistake_is_one_line(table: Path, arguments: list[object], message: str) -> None:
    source = [table] if str(arguments[0]).startswith("--") else []
    status, out, error = said(*source, *arguments)

    assert (status, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_a_number_of_hundreds_of_digits_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"depth": 4, "n_params": 10**400, "loss": 3}))
    status, _, error = said(path)
    assert (status, error.count("\n")) == (2, 1)
    assert "'n_params' must hold a whole number from 1 to 1e+18" in error


def test_a_run_folder_has_the_answer_of_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(RECORDS, lambda record: record)
    monkeypatch.setattr("fathom.search.analysing.run.read_run", lambda *_: past)
    (tmp_path / "config.yaml").write_text(STUDY)
    append_line(tmp_path / "records.jsonl", to_json(RECORDS[0]))
    status, out, _ = said(tmp_path)
    assert status == 0
    assert f"a run folder, {len(RECORDS)} trials" in out
    assert "are for tables" in said(tmp_path, "--params", "1M")[2]


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
    assert "must name one of the experiments of" in said(uri)[2]
    assert said(uri)[2].rstrip().endswith("which has mine")
    assert "got 'mime'; did you mean 'mine'?" in said(uri, "--experiment", "mime")[2]
    assert "got 'other'; it has mine" in said(uri, "--experiment", "other")[2]


def test_a_store_with_a_view_that_never_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as database:
        endless = "WITH RECURSIVE n(v) AS (VALUES(1) UNION ALL SELECT v + 1 FROM n) SELECT v FROM n"
        database.execute(f"CREATE VIEW alembic_version(version_num) AS {endless}")

    status, out, error = said(f"sqlite:///{path}", "--experiment", "mine")

    assert (status, out) == (2, "")
    assert "has no views, but" in error
    assert "has alembic_version" in error


def optuna_grid(storage: BaseStorage | str) -> optuna.Study:
    """A study of Optuna's own over depths and seeds, with a loss at three steps."""
    grid = {"n_layer": list(DEPTHS), "seed": [0, 1, 2]}
    sampler = optuna.samplers.GridSampler(grid)
    study = optuna.create_study(study_name="mine", storage=storage, sampler=sampler)

    def loss(trial: optuna.Trial) -> float:
        depth = trial.suggest_categorical("n_layer", grid["n_layer"])
        trial.suggest_categorical("seed", grid["seed"])
        trial.set_user_attr("n_params", 10_000_000)
        last = planted_loss(depth)
        for step in (100, 200, 300):
            trial.report(last + 10 / step - 10 / 300, step)
        return last

    study.optimize(loss, 15)
    return study


def test_a_study_of_optuna_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, database = tmp_path / "journal.log", f"sqlite:///{tmp_path / 'optuna.db'}"
    study = optuna_grid(JournalStorage(JournalFileBackend(str(journal))))
    optuna_grid(database)
    frame = tmp_path / "trials.csv"
    study.trials_dataframe().to_csv(frame)

    for source in (journal, database, tmp_path / "optuna.db", f"optuna:{database}"):
        status, out, error = said(source)
        assert (status, error) == (0, "")
        assert "Optuna's mine: 45 rows, 15 runs of 5 shapes" in out
        assert "identified" in out
    assert "got 'mime'; did you mean 'mine'?" in said(database, "--experiment", "mime")[2]
    missing = said(f"optuna:sqlite:///{tmp_path / 'none.db'}")
    assert (missing[0], missing[2].count("\n")) == (2, 1)
    os.mkfifo(pipe := tmp_path / "optuna.db-journal")
    assert said(f"optuna:{database}")[2].endswith(f"got {pipe}, no file; move it away\n")
    pipe.unlink()
    with closing(sqlite3.connect(tmp_path / "optuna.db")) as changed:
        changed.execute("UPDATE studies SET study_name = x'ff'")
        changed.execute("UPDATE trial_user_attributes SET key = x'fe' WHERE key != 'n_params'")
        changed.commit()
    assert said(database)[0::2] == (0, "")
    monkeypatch.setattr(optuna_table, "MOST_BYTES", 1000)
    large = said(f"optuna:{journal}")[2]
    assert "1,000 bytes, got " in large
    assert large.endswith("instead: `study.trials_dataframe().to_csv('trials.csv')`\n")
    assert "identified" in said(frame)[1]


@pytest.mark.parametrize("source", ["/proc/self/mem", "/dev/fd/63", "a" * 300, "a/" * 3000])
def test_a_source_that_the_system_can_not_read_is_one_line(source: str) -> None:
    status, _, error = said(source)
    assert (status, error.count("\n")) == (2, 1)


def test_a_journal_without_ends_of_lines_is_not_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "zeros.log"
    with path.open("wb") as file:
        file.truncate(1 << 26)
    status, _, error = said(f"optuna:{path}")
    assert status == 2
    assert "must be a database or a journal of Optuna's, got a line of over 16,777,216" in error


def test_the_flags_of_settings_are_heard(tmp_path: Path) -> None:
    rows = [
        (depth, 1e7, seed, batch, planted_loss(depth))
        for depth in DEPTHS
        for seed in range(3)
        for batch in (16, 32, 64)
        if (depth, batch) != (2, 16)
    ]
    names = ["n_layer", "n_params", "seed", "Batch Size", "loss"]
    table = write_table(tmp_path / "runs.csv", names, rows)

    status, out, error = said(table)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "--best-of 'Batch Size'" in error
    assert "identified" in said(table, "--best-of", "Batch Size")[1]
    assert "identified" in said(table, "--where", "Batch Size=64")[1]
    parts = json.loads(said(table, "--by", "Batch Size", "--json")[1])["answers"]
    assert [part["question"]["held"] for part in parts] == [
        {"Batch Size": "16"},
        {"Batch Size": "32"},
        {"Batch Size": "64"},
    ]
    assert "did you mean Batch Size?" in said(table, "--by", "Batch Sise")[2]
    assert "`--where` must be COLUMN=VALUE" in said(table, "--where", "Batch Size")[2]


def test_a_run_that_crashed_is_left_out_if_its_tokens_are_those_it_was_to_have(
    tmp_path: Path,
) -> None:
    names = ["run", "State", "n_layer", "n_params", "seed", "tokens", "val_loss"]
    rows: list[list[object]] = [
        [f"{d}-{s}", "finished", d, 1e8, s, 2e9, planted_loss(d) + 0.002 * s]
        for d in DEPTHS
        for s in range(3)
    ]
    crashed = [
        ["planned", "crashed", DEPTHS[0], 1e8, 7, 2e9, 1.0],
        ["reached", "crashed", DEPTHS[0], 1e8, 8, 5e8, 1.0],
    ]
    without, both = (
        json.loads(said(write_table(tmp_path / "all.csv", names, table), "--json")[1])
        for table in (rows, rows + crashed)
    )
    assert "1 row has not ended, by its State: left out" in json.dumps(both)
    assert both["answers"][0]["answer"] == without["answers"][0]["answer"]


def test_tables_need_few_packages(table: Path) -> None:
    absent = (
        *("torch", "ray", "mlflow", "optuna", "sqlalchemy", "tokenizers", "safetensors", "yaml"),
        *("jinja2", "psutil", "grpc", "pandas", "pyarrow", "matplotlib"),
    )
    done = without(absent, "analyse", table)

    assert (done.returncode, done.stderr) == (0, "")


LADDER = [
    (depth, size, round(size * ratio), seed, planted_loss(depth, size, best=best))
    for size, ratio, best in (
        *((10_000_000, 20, 4), (10_000_000, 80, 6)),
        *((100_000_000, 20, 8), (100_000_000, 80, 12)),
    )
    for depth in DEPTHS
    for seed in range(2)
]


@pytest.fixture
def ladder(tmp_path: Path) -> Path:
    names = ["n_layer", "n_params", "tokens", "seed", "val/loss"]
    return write_table(tmp_path / "ladder.csv", names, LADDER)


def test_several_horizons_have_a_law_over_tokens_which_predict_asks(
    ladder: Path, tmp_path: Path
) -> None:
    status, out, _ = said(ladder, "--horizons", "20,80")

    assert status == 0
    assert "law over tokens: ln depth = " in " ".join(out.split())
    answer = tmp_path / "answer.json"
    answer.write_text(said(ladder, "--horizons", "20,80", "--json")[1])
    [found] = json.loads(answer.read_text())["token_laws"]
    assert found["law"]["b"] + found["law"]["c"] == pytest.approx(0.30, abs=0.06)
    assert found["law"]["ratio_range"] == [20, 80]
    asked = ["predict", "--law", answer, "--params", "30M", "--tokens", "1.2B"]
    predicted = json.loads(here(*asked, "--json").stdout)["size"]["prediction"]
    assert predicted["interval"][0] < 6.6 < predicted["interval"][1]
    assert not predicted["extrapolated"]
    assert "30M parameters, 1.2B tokens: depth" in here(*asked).stdout


def test_where_one_ratio_does_not_tell_sizes_and_tokens_apart_it_is_said(ladder: Path) -> None:
    out = " ".join(said(ladder, "--horizons", "20,80", "--params", "10M")[1].split())

    assert "no law over parameters and tokens: it takes 4 best depths" in out
    assert "law over" not in said(ladder, "--horizons", "20")[1]


def test_steps_are_no_tokens_a_parameter(tmp_path: Path) -> None:
    rows = [(*row[:2], row[2] // 1_000_000, *row[3:]) for row in LADDER]
    steps = write_table(
        tmp_path / "steps.csv", ["n_layer", "n_params", "step", "seed", "loss"], rows
    )
    status, _, error = said(steps, "--horizons", "20")

    assert (status, error.count("\n")) == (2, 1)
    assert "needs a column of tokens" in error
