"""What the kernel kills for lack of memory is named: `search/cluster/memory_kills.py`."""

import errno
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.cluster import memory_kills
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.memory_kills import MOST_KILLS, MemoryKills, processes_here
from fathom.search.records import CurvePoint, TrialRecord
from fathom.search.run_folder import RunFolder
from tests.support.training import SPEC
from tests.support.waiting import wait_until

POINT = CurvePoint(
    step=1, tokens=1, loss=1.0, train_loss=1.0, train_seconds=1.0, time=0.0, metrics={}
)
LIVE = TrialRecord(
    spec=SPEC, outcome=None, reason="", curve=(), rungs={}, started=0.0, ended=None,
    setup_seconds=0.0, peak_memory_bytes=None,
)  # fmt: skip


class Search:
    """A search whose processes the kernel kills, and what it says and asks for."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.kills, self.processes = 7, {1: "the worker of a trial", 2: "a process of Ray"}
        self.said: list[str] = []
        self.interrupt, self.now, self.points = Interrupt(), 0.0, 0
        patch.setattr(memory_kills, "kernel_kills", lambda: self.kills)
        patch.setattr(memory_kills, "processes_here", lambda: dict(self.processes))
        patch.setattr(memory_kills, "memory_words", lambda: "raise the limit")
        folder = RunFolder(place)
        folder.create()
        self._watch = MemoryKills(folder, self.interrupt, lambda: self.now)
        self.look()

    def look(self) -> None:
        """Looks again, after a while."""
        self.now += memory_kills.LOOK_SECONDS
        live = replace(LIVE, curve=(POINT,) * self.points)
        self._watch.tick([live], self.said.append)


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    return Search(tmp_path, monkeypatch)


def test_what_was_killed_is_named_with_the_remedy_once(search: Search) -> None:
    search.look()
    assert search.said == [], "kills of earlier searches are not its own"
    search.kills += 1
    del search.processes[1]
    search.look()
    search.look()
    killed = "The kernel has killed the worker of a trial for lack of memory: raise the limit"
    assert search.said == [killed]
    assert not search.interrupt.requested


def test_a_process_that_ends_by_itself_is_not_named(search: Search) -> None:
    del search.processes[1]
    search.look()
    search.kills += 1
    search.look()
    assert [line for line in search.said if "a process under the same limit" in line]


def test_kills_without_a_report_in_between_pause_the_search(search: Search) -> None:
    for _ in range(MOST_KILLS):
        assert not search.interrupt.requested
        search.kills += 1
        search.look()
    error = search.interrupt.error
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOMEM
    words = str(error.strerror)
    assert f"killed {MOST_KILLS} processes" in words
    assert words.endswith("raise the limit, and the same command goes on")


def test_kills_between_which_trials_report_pause_no_search(search: Search) -> None:
    for _ in range(3 * MOST_KILLS):
        search.kills += 1
        search.points += 1
        search.look()
    assert not search.interrupt.requested


def test_a_process_is_known_by_its_command_line() -> None:
    command = [sys.executable, "-c", "input()", "fathom.search.tracking.writing.follower"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        wait_until(lambda: processes_here().get(process.pid) == "the process that writes to MLflow")
        process.communicate(b"\n")
    assert process.pid not in processes_here()
