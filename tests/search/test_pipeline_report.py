"""`fathom report` on a run folder that may be another person's."""

from pathlib import Path

import pytest

from fathom.search.pipeline import report_study
from fathom.search.study.keys.config import dump
from fathom.search.study.keys.groups import TrackingConfig
from tests.support.dry_run import Simulation, scheduler, study


def test_a_store_that_a_run_folder_names_is_written_only_with_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fathom.search.report.writer.make_charts", lambda *_: ())
    named = tmp_path / "named.db"
    config = study(budgets=(20_000,), trials=3)
    search = scheduler(config, tmp_path / "runs" / config.study)
    Simulation(search).run()
    tracked = config.model_copy(update={"tracking": TrackingConfig(uri=f"sqlite:///{named}")})
    search.folder.config.write_text(dump(tracked))

    report_study(search.folder.path)
    assert search.folder.report.exists()
    assert not named.exists()

    report_study(search.folder.path, trust=True)
    assert named.exists()
