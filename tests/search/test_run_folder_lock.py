"""One search at a time on a run folder: `locked` in `search/run_folder.py`."""

import os
from pathlib import Path

import pytest

from fathom.search.run_folder import InUseError, RunFolder, RunFolderError, locked
from fathom.search.study.file.study_file import dump
from fathom.search.tracking.writing.publishing import report_study
from tests.support.dry_run import Simulation, scheduler, slow_deep, study


def test_a_second_search_is_refused_and_the_first_keeps_its_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "mine")
    with locked(folder):
        with pytest.raises(InUseError, match="is in use by another `fathom`"), locked(folder):
            pass
        assert folder.state.exists()


def test_a_search_that_never_began_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no Ray"), locked(RunFolder(tmp_path / "runs" / "mine")):
        raise OSError("no Ray")
    assert not [*tmp_path.iterdir()]


def test_a_report_can_be_written_while_a_search_has_the_folder(tmp_path: Path) -> None:
    search = scheduler(study(budgets=(20_000,), trials=5), tmp_path / "runs" / "mine")
    Simulation(search, slow_deep).run()
    search.folder.config.write_text(dump(search.config), encoding="utf-8")
    with locked(search.folder):
        assert report_study(search.folder.path).conclusions[0].optima
    assert search.folder.report.exists()
    assert not (tmp_path / "runs" / "mlflow.db").exists(), "the search itself writes to MLflow"


def test_locks_that_are_one_file_are_refused_instead_of_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "mine")
    folder.create()
    lock = folder.state / "lock"
    lock.touch()
    os.link(lock, folder.state / "report.lock")
    with pytest.raises(RunFolderError, match=r"must be two files.*delete .*report\.lock"):
        folder.check_files()
    (folder.state / "report.lock").unlink()
    folder.check_files()
