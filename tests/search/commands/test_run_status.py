"""`fathom status`: what the files of a run say about how far it is."""

import fcntl
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from fathom.search.commands.run_status import (
    RunStatus,
    all_runs,
    all_runs_reply,
    print_runs,
    print_status,
    run_of,
    status_of,
    status_reply,
)
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import dump
from fathom.search.study.runs import one_run
from fathom.search.study.timing.time_left import TimeLeft, keep_time_left
from tests.support.contract import printed_values
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.reporting import printed


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has ended, one that was stopped on its way, and another file."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("whole", "begun"):
        search = scheduler(study(study=name), folder / name)
        search.folder.config.write_text(dump(search.config))
        if name == "whole":
            Simulation(search).run()
        else:
            search.next_trial()
            search.next_trial()
    (folder / "mlflow.db").touch()
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def said(path: Path) -> str:
    return printed(partial(print_status, status_of(one_run(path))))


def test_a_search_that_has_ended_is_done(runs: Path) -> None:
    status = status_of(one_run(runs / "whole"))

    assert status.state == "done"
    assert status.settled == [20_000, 40_000]
    assert "nothing is left to train" in said(runs / "whole")
    assert " of " not in said(runs / "whole"), "it asked for no more trials than it explored"
    assert run_of(status).trials_running == ()


@pytest.mark.parametrize("name", ["a; touch PWNED; b", "[red]", "tab\tbell\a\x1b]0;owned"])
def test_a_folder_with_any_name_is_listed_and_its_commands_can_be_typed(
    runs: Path, name: str
) -> None:
    (runs / "begun").rename(runs / name)
    text = " ".join(said(runs / name).split())
    again = text.partition("to resume it: ")[2]
    if name.isprintable():
        assert shlex.split(again)[:3] == ["fathom", "run", str(runs / name / "config.yaml")]
    assert_plain(said(runs / name))
    assert_plain(printed(partial(print_runs, runs)))
    typed = ["bash", "-c", f'fathom() {{ printf %s "$2"; }}; {again}']
    assert subprocess.run(typed, capture_output=True, cwd=runs, check=True).stdout.decode() == str(
        runs / name / "config.yaml"
    )
    assert not (runs / "PWNED").exists()


def assert_plain(text: str) -> None:
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_search_that_was_stopped_says_how_to_go_on(runs: Path) -> None:
    text = said(runs / "begun")

    assert status_of(one_run(runs / "begun")).state == "unfinished"
    assert "exploring" in text
    assert "interrupted at 0% of its tokens" in text
    assert f"fathom run {runs}/begun/config.yaml --runs {runs}" in text


def test_a_search_that_another_process_holds_is_running(runs: Path) -> None:
    folder = RunFolder(runs / "begun")
    with (folder.state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status = status_of(one_run(folder.path))
        assert status.state == "running"
        assert len(run_of(status).trials_running) == 2
        assert "the search is running, time left not known yet" in said(folder.path)
        assert run_of(status).time_left_seconds is None
        keep_time_left(folder, TimeLeft(200.0, 320.0, 200.0, 320.0))
        assert "the search is running, 3 to 5 min left" in said(folder.path)
        assert "3 to 5 min left" in printed(partial(print_runs, runs))
        assert run_of(status).time_left_seconds == pytest.approx((200, 320), abs=10)
    assert run_of(status_of(one_run(folder.path))).time_left_seconds is None, "it does not run"
    assert status_of(one_run(folder.path)).state == "unfinished"


def test_looking_changes_nothing_not_even_a_torn_line(runs: Path) -> None:
    journal = RunFolder(runs / "begun").journal
    torn = journal.read_bytes() + b'{"event": "sta'
    journal.write_bytes(torn)

    status_of(one_run(runs / "begun"))

    assert journal.read_bytes() == torn


def test_every_run_has_a_line_and_a_damaged_one_its_reason(runs: Path) -> None:
    RunFolder(runs / "begun").records.write_text("{}\n")
    text = printed(partial(print_runs, runs))

    assert [isinstance(run, RunStatus) for run in all_runs(runs)] == [False, True]
    assert "unreadable" in text
    assert "records.jsonl:1: " in text
    assert "2 of 2" in text
    assert "empty" not in text


def test_a_folder_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        list(all_runs(tmp_path / "none"))


def test_programs_read_of_an_unfinished_search_what_resumes_it_and_why_there_is_no_verdict(
    runs: Path,
) -> None:
    found = printed_values(status_reply([status_of(one_run(runs / "begun"))]))

    assert found["runs"][0]["state"] == "unfinished"
    assert {answer["verdict"]["kind"] for answer in found["answers"]} == {"unfinished"}
    assert len(found["answers"]) == found["runs"][0]["budgets"]
    assert all(" run " in answer["command"] for answer in found["answers"])


def test_programs_read_of_all_runs_with_a_note_on_what_can_not_be_read(runs: Path) -> None:
    (runs / "whole" / "config.yaml").write_text("study: [")

    found = printed_values(all_runs_reply(runs))

    assert [run["folder"] for run in found["runs"]] == [str(runs / "begun")]
    assert any("config.yaml" in note for note in found["notes"])
