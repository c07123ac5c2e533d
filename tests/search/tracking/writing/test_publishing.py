"""`fathom report` on a run folder that may be another person's."""

import os
import sqlite3
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import dump
from fathom.search.study.keys.groups import TrackingConfig
from fathom.search.study.store_uri import TrackingError, unusable
from fathom.search.tracking.stores.artifacts import check_artifacts
from fathom.search.tracking.stores.made_here import note_store
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing import publishing
from fathom.search.tracking.writing.publishing import report_study
from tests.support.dry_run import Simulation, scheduler, study


@pytest.mark.drill
def test_a_store_that_a_run_folder_names_is_written_only_with_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fathom.search.report.pages.writer.make_charts", lambda *_: ())
    named = tmp_path / "named.db"
    config = study(budgets=(20_000,), trials=3)
    search = scheduler(config, tmp_path / "runs" / config.study)
    Simulation(search).run()
    tracked = config.model_copy(update={"tracking": TrackingConfig(uri=f"sqlite:///{named}")})
    search.folder.config.write_text(dump(tracked))

    report_study(search.folder.path)
    results = {path.name for path in search.folder.results()}
    assert {"report.html", "best.yaml", "card.md", "card.png"} <= results, "what MLflow gets"
    assert not named.exists()

    report_study(search.folder.path, trust=True)
    assert named.exists()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run beside a store by whose address artifacts go elsewhere."""
    monkeypatch.setattr("fathom.search.report.pages.writer.make_charts", lambda *_: ())
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = study(budgets=(20_000,), trials=3)
    search = scheduler(config, tmp_path / "runs" / config.study)
    Simulation(search).run()
    search.folder.config.write_text(dump(config))
    with closing(sqlite3.connect(tmp_path / "runs" / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE experiments (experiment_id, name, artifact_location)")
        database.execute("CREATE TABLE runs (run_uuid, artifact_uri, experiment_id)")
        database.execute(f"INSERT INTO experiments VALUES (1, '{config.study}', '/anywhere')")
    note_store(tmp_path / "runs" / "mlflow.db", tmp_path / "runs" / "mlflow.db")
    return search.folder


def test_a_store_whose_artifacts_go_elsewhere_is_left_alone_and_the_report_is_written(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked: list[TrackedStudy] = []

    class Tracked:
        def __init__(self, study: TrackedStudy) -> None:
            tracked.append(study)
            raise InterruptedError("it would be written")

    monkeypatch.setattr("fathom.search.tracking.writing.publishing.Tracker", Tracked)
    store = run.path.parent / "mlflow.db"
    before = store.read_bytes()
    [result] = report_study(run.path).runs
    assert "MLflow's artifacts must lie in" in result.untracked
    assert run.report.exists()
    assert store.read_bytes() == before
    with pytest.raises(InterruptedError):
        report_study(run.path, trust=True)
    assert [study.trusted for study in tracked] == [True]


@pytest.mark.parametrize("name", ["mlflow.db", "mlflow.db-journal", "mlflow.db-wal"])
@pytest.mark.parametrize("made", ["a pipe", "no database"])
def test_a_store_that_would_never_be_read_is_named_and_the_report_is_written(
    run: RunFolder, name: str, made: str
) -> None:
    store, file = run.path.parent / "mlflow.db", run.path.parent / name
    store.write_bytes(b"no database")
    if made == "a pipe":
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    [result] = report_study(run.path).runs
    assert str(file if made == "a pipe" else store) in result.untracked
    assert "tracking.uri" not in result.untracked
    assert run.report.exists()


def test_a_run_is_reported_from_inside_its_folder(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.path)
    [result] = report_study(Path(".")).runs
    assert result.folder.report == run.report
    assert f"delete {run.path.parent / 'mlflow.db'}" in result.untracked, "beside, not in it"


@pytest.mark.parametrize("lines", [None, 0, 2])
def test_a_report_that_has_the_answers_is_kept_where_the_records_are_lost(
    run: RunFolder, lines: int | None
) -> None:
    report_study(run.path)
    before = run.best.read_text()
    kept = run.records.read_text().splitlines(keepends=True)[:lines]
    run.records.unlink()
    if lines is not None:
        run.records.write_text("".join(kept))

    with pytest.raises(DamagedFileError, match=r"but `records\.jsonl` lacks its record"):
        report_study(run.path)
    assert run.best.read_text() == before


def test_a_follower_refuses_such_a_store_too(run: RunFolder) -> None:
    uri = f"sqlite:///{run.path.parent / 'mlflow.db'}"
    study = TrackedStudy(uri=uri, study="simulated", folder=run.path, config_text="")
    with pytest.raises(TrackingError, match=r"artifacts must lie in .*, got /anywhere"):
        check_artifacts(study)
    check_artifacts(replace(study, trusted=True))


def test_no_file_of_a_report_is_written_through_another_name(run: RunFolder) -> None:
    outside = run.path.parent.parent
    victims = [outside / name for name in ("lock", "report.lock", "text")]
    for victim in victims:
        victim.write_text("mine")
    run.best.with_name("best.yaml.tmp").symlink_to(victims[-1])
    for victim in victims[:2]:
        (run.state / victim.name).unlink(missing_ok=True)
        os.link(victim, run.state / victim.name)
    report_study(run.path)
    assert [victim.read_text() for victim in victims] == ["mine"] * 3
    assert run.best.is_file()
    assert not run.best.is_symlink()


def test_a_damaged_store_stops_no_report_and_is_to_be_deleted(run: RunFolder) -> None:
    refusal = str(unusable(f"sqlite:///{run.path}.db", "database disk image is malformed"))
    assert refusal.startswith(f"{run.path}.db is damaged")
    assert "tracking.uri" not in refusal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "strange_artifacts", lambda *_: "")
        patch.setattr(publishing, "Tracker", _Refusing)
        [result] = report_study(run.path).runs
    assert result.untracked == "it is damaged"
    assert run.report.is_file()


class _Refusing(AbstractContextManager["_Refusing"]):
    """A tracker whose store MLflow can't use."""

    def __init__(self, _study: TrackedStudy) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def confirm(self) -> None:
        raise TrackingError("it is damaged")
