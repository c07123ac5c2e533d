"""What `fathom run` and `fathom report` print beside the answer."""

import subprocess
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fathom.search.commands.searching import _print_end, _reply, report
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.records import Outcome
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.auditing import audit_stopping
from fathom.search.scheduling.halving import halving_rule
from fathom.search.study.file.study_file import parse
from fathom.search.tracking.writing.publishing import RunResult, StudyResult
from tests.support.simulated import simulated_study

CONFIG = parse("study: s\nobjective: language\nbudgets: [300k]\n")
RECORDS = tuple(simulated_study(budgets=(300_000,)))


@pytest.fixture
def result(tmp_path: Path) -> StudyResult:
    """A run with a rung that can't be trusted."""
    folder = RunFolder(tmp_path / "s")
    folder.create()
    audit, *_ = audit_stopping(RECORDS, halving_rule(CONFIG.stopping))
    failed = replace(audit, depth_bias=1.0, rank_correlation=0.0, stopped=1)
    conclusion = Conclusion(config=CONFIG, records=RECORDS)
    conclusion.__dict__["audits"] = {300_000: (failed,)}
    return StudyResult(folder, CONFIG, (RunResult(folder, conclusion),))


def test_a_resumed_run_says_how_long_all_of_its_runs_took(
    result: StudyResult, tmp_path: Path
) -> None:
    for seconds, said in (
        ("1248", "Took        7 min, 21 min with earlier runs"),
        ("421", "7 min"),
    ):
        result.folder.seconds.write_text(seconds, encoding="utf-8")
        console = Console(file=StringIO(), width=200)
        _print_end(result, tmp_path, 420, console)
        assert isinstance(console.file, StringIO)
        line = next(line for line in console.file.getvalue().splitlines() if "Took" in line)
        assert line.endswith(said)


def test_a_run_whose_trials_all_died_says_of_what_and_how_to_start_anew(
    result: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    died = (
        replace(record, outcome=Outcome.DIVERGED, reason="the held-out loss is nan after 4 tokens")
        for record in RECORDS[:4]
    )
    [run] = result.runs
    dead = replace(run, conclusion=replace(run.conclusion, records=tuple(died)))
    with pytest.raises(SystemExit) as end:
        _reply(replace(result, runs=(dead,)), as_json=False, exit_verdict=False)
    said = capsys.readouterr().err
    assert end.value.code == 1
    assert "4 diverged (the held-out loss is nan after 4 tokens)" in said
    remedy = said.strip().rpartition("repeated: ")[2]
    assert remedy.startswith("rm -r ")
    assert subprocess.run(remedy, shell=True, check=False).returncode == 0
    assert not result.folder.path.exists()


def test_a_report_warns_of_early_stopping_as_the_run_did(
    result: StudyResult, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "fathom.search.tracking.writing.publishing.report_study", lambda *_, **__: result
    )
    report(result.folder.path)
    said = " ".join(capsys.readouterr().out.split())
    assert "300k: stopping at" in said
    assert "can't be trusted" in said
    assert "--extend` moves the first rung later" in said
