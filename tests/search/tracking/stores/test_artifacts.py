"""A store that lies in a runs folder leads nowhere else: `search/tracking/stores/artifacts.py`."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fathom.search.tracking.stores.artifacts import strange_artifacts
from fathom.search.tracking.stores.made_here import note_store

STUDY = "demo"


def store(runs: Path, *addresses: str, location: str = "") -> str:
    """A store whose runs have their artifacts at the addresses; returns its own address."""
    runs.mkdir(exist_ok=True)
    with closing(sqlite3.connect(runs / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE experiments (experiment_id, name, artifact_location)")
        database.execute("CREATE TABLE runs (run_uuid, artifact_uri, experiment_id)")
        location = location or (runs / "mlartifacts" / STUDY).as_uri()
        database.execute("INSERT INTO experiments VALUES (1, ?, ?)", (STUDY, location))
        database.execute("INSERT INTO experiments VALUES (0, 'Default', '/elsewhere/mlruns')")
        database.executemany("INSERT INTO runs VALUES ('a', ?, 1)", [(uri,) for uri in addresses])
    note_store(runs / "mlflow.db", runs / "mlflow.db")
    return f"sqlite:///{runs / 'mlflow.db'}"


def test_artifacts_beside_their_store_are_its_own(tmp_path: Path) -> None:
    runs = tmp_path / "my runs"
    own = runs / "mlartifacts" / STUDY / "a" / "artifacts"
    own.mkdir(parents=True)
    (own / "report.html").touch()
    uri = store(runs, own.as_uri(), str(own))
    assert strange_artifacts(uri, STUDY) == ""
    assert strange_artifacts(uri, "another") == ""
    (tmp_path / "link").symlink_to(runs)
    assert strange_artifacts(f"sqlite:///{tmp_path}/link/mlflow.db", STUDY) == ""


@pytest.mark.parametrize(
    "address",
    [
        *("file:///anywhere", "/anywhere", "RUNS/../anywhere", "RUNS/%2e%2e/anywhere"),
        f"file://RUNS/mlartifacts/{STUDY}/a/artifacts/../../../../../anywhere",
        *("anywhere", "file:anywhere", "FILE:///anywhere", "s3://bucket/a", "ftp://host/a"),
        *("mlflow-artifacts:/a", "file://host/a", "RUNS-2/a", "http://host/\x1b]0;owned\x07"),
    ],
)
@pytest.mark.parametrize("of", ["run", "experiment"])
def test_an_address_elsewhere_is_refused_and_named(tmp_path: Path, address: str, of: str) -> None:
    runs = tmp_path / "runs"
    named = address.replace("RUNS", str(runs))
    uri = store(runs, named) if of == "run" else store(runs, location=named)
    problem = strange_artifacts(uri, STUDY)
    assert f"must lie in {runs}, got" in problem
    assert "--trust" in problem
    assert problem.isprintable()


def test_a_copied_or_moved_store_is_refused_until_it_is_made_anew(tmp_path: Path) -> None:
    own = tmp_path / "runs" / "mlartifacts" / STUDY / "a" / "artifacts"
    store(tmp_path / "runs", own.as_uri())
    (tmp_path / "runs").rename(tmp_path / "moved")
    problem = strange_artifacts(f"sqlite:///{tmp_path}/moved/mlflow.db", STUDY)
    assert f"delete {tmp_path}/moved/mlflow.db and" in problem
    (tmp_path / "moved" / "mlflow.db").unlink()
    assert strange_artifacts(f"sqlite:///{tmp_path}/moved/mlflow.db", STUDY) == ""


HARM = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON runs BEGIN UPDATE runs SET artifact_uri=1; END",
    "a view": "CREATE VIEW v AS SELECT * FROM runs",
    "a view in place of a table": "ALTER TABLE runs RENAME TO r; CREATE VIEW runs AS SELECT 1",
    "a computed column": "ALTER TABLE runs ADD COLUMN x AS ('/x')",
    "an undecodable address": "INSERT INTO runs VALUES ('b', CAST(x'2fff' AS TEXT), 1)",
    "no table": "DROP TABLE runs",
    "another mark": "PRAGMA application_id = 7",
    "no mark": "PRAGMA application_id = 0",
}
"""What a stranger may do to a store -> how."""


@pytest.mark.parametrize("harm", HARM)
def test_a_store_that_was_changed_by_another_program_is_refused(tmp_path: Path, harm: str) -> None:
    uri = store(tmp_path / "runs")
    assert strange_artifacts(uri, STUDY) == ""
    with closing(sqlite3.connect(tmp_path / "runs" / "mlflow.db")) as database:
        database.executescript(HARM[harm])
    assert "--trust" in strange_artifacts(uri, STUDY)


def test_a_store_that_was_not_made_here_is_refused_and_not_opened(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    uri = store(runs)
    copied = shutil.copytree(runs, tmp_path / "theirs")
    (copied / "mlflow.db-journal").write_bytes(b"what SQLite would take for an unfinished change")
    before = sorted(copied.iterdir())
    assert "was not made here" in strange_artifacts(f"sqlite:///{copied}/mlflow.db", STUDY)
    assert sorted(copied.iterdir()) == before
    assert strange_artifacts(uri, STUDY) == ""


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "link", "hard link", "folder"])
@pytest.mark.parametrize("there", [True, False])
def test_what_is_no_plain_file_of_a_store_is_refused_at_once(
    tmp_path: Path, end: str, kind: str, there: bool
) -> None:
    runs, victim = tmp_path / "runs", tmp_path / "victim"
    uri = store(runs)
    victim.write_text("mine")
    if not there or not end:
        (runs / "mlflow.db").unlink()
    file = runs / f"mlflow.db{end}"
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "link":
            file.symlink_to(victim)
        case "hard link":
            os.link(victim, file)
        case _:
            file.mkdir()
    problem = strange_artifacts(uri, STUDY)
    assert str(file) in problem
    assert "--trust" not in problem, "it is not opened either way"
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("way", ["folder", "file", "hard link", "pipe", "store"])
def test_a_link_out_of_the_artifacts_is_refused(tmp_path: Path, way: str) -> None:
    runs, victim = tmp_path / "runs", tmp_path / "victim"
    own = runs / "mlartifacts" / STUDY / "a" / "artifacts"
    own.mkdir(parents=True)
    victim.mkdir()
    (victim / "report.html").write_text("mine")
    uri = store(runs, own.as_uri())
    match way:
        case "folder":
            (own / "figures").symlink_to(victim)
        case "file":
            (own / "report.html").symlink_to(victim / "report.html")
        case "hard link":
            os.link(victim / "report.html", own / "report.html")
        case "pipe":
            os.mkfifo(own / "report.html")
        case _:
            (runs / "mlflow.db").rename(victim / "mlflow.db")
            (runs / "mlflow.db").symlink_to(victim / "mlflow.db")
    assert "is a link" in strange_artifacts(uri, STUDY)


@pytest.mark.parametrize("uri", ["http://host:5000", "postgresql://me@host/db", "sqlite:///no.db"])
def test_servers_choose_for_themselves_and_a_new_store_lies_beside_its_runs(uri: str) -> None:
    assert strange_artifacts(uri, STUDY) == ""


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(84)])
def test_what_is_no_store_was_not_made_here(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mlflow.db").write_bytes(content)
    assert "was not made here" in strange_artifacts(f"sqlite:///{tmp_path}/mlflow.db", STUDY)


def test_a_journal_without_its_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db-journal").touch()
    assert "is not there" in strange_artifacts(f"sqlite:///{tmp_path}/mlflow.db", STUDY)
