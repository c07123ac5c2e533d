"""The table of two studies beside each other: `benchmarks/answers/trained/beside.py`."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.answers.trained import beside
from fathom.search.study.file.study_file import dump
from tests.support.dry_run import Simulation, scheduler, study


def test_a_row_has_the_best_depths_of_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for name in ("one", "other"):
        config = study(budgets=(20_000,), trials=5).model_copy(update={"study": name})
        search = scheduler(config, tmp_path / name)
        Simulation(search).run()
        search.folder.config.write_text(dump(config))
        folders.append(str(search.folder.path))
    file = tmp_path / "beside.json"
    monkeypatch.setattr(sys, "argv", ["beside", *folders, "--json", str(file)])

    beside.main()

    assert "| 20k |" in capsys.readouterr().out
    columns = [column["name"] for column in json.loads(file.read_text())["table"]["columns"]]
    assert columns[:4] == ["budget", "one", "other", "ratio"]
