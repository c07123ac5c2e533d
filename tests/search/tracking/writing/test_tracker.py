"""The search's end of the MLflow mirror: `search/tracking/writing/tracker.py`, in a process."""

import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.writing import tracker as tracker_module
from fathom.search.tracking.writing.tracker import Tracker
from tests.support.tracked import (
    LAW,
    UNANSWERED_SECONDS,
    Place,
    answers,
    trial,
    write_down,
)
from tests.support.waiting import wait_until

KILLED = """
import os, signal, sys
from pathlib import Path
from fathom.search.tracking.stores.messages import TrackedStudy
from fathom.search.tracking.writing.tracker import Tracker
study = TrackedStudy(uri=sys.argv[1], study="demo", folder=Path(sys.argv[2]), config_text="{}")
print(Tracker(study)._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


SLOW_TO_START = """
import sys, time
from multiprocessing.connection import Connection
time.sleep(1.5)
with Connection(int(sys.argv[1])) as link:
    link.send(None)  # MLflow can be used
    link.send(0)  # nothing is missing
    link.poll(None)
"""


@contextmanager
def tracking(place: Place, *, searching: bool = False) -> Iterator[Tracker]:
    """A tracker whose process ends with the test."""
    tracker = Tracker(place.study(searching=searching))
    try:
        yield tracker
    finally:
        tracker.close(0.0)


def test_records_reach_mlflow_through_a_separate_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a file in the working folder nothing is run.
    place.folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(place.folder)
    (place.folder / "random.py").write_text("raise SystemExit('run')")
    with tracking(place, searching=True) as tracker:
        tracker.confirm()
        write_down(place.folder, *map(trial, range(3)))
        tracker.trial(trial(2))
        tracker.conclude(answers(laws=(LAW,)))
        assert tracker.close() == 0
        assert tracker._process
        assert tracker._process.poll() is not None
    assert place.statuses() == {"FINISHED"}
    assert len(place.runs()) == 6, "three trials, budget, study and machine"
    assert place.tokens(place.find())[-1] == 5000


@pytest.mark.parametrize("kills", [0, 1])
def test_a_search_outlives_the_process_that_writes_to_mlflow(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    counts = chain([4], repeat(4 + kills))
    monkeypatch.setattr(tracker_module, "kernel_kills", lambda: next(counts))
    write_down(place.folder, trial())
    with tracking(place) as tracker:
        assert tracker._process is not None
        tracker._process.kill()
        why = ", as the kernel killed a process for lack of memory" * kills
        wait_until(lambda: f"has ended{why}; the search goes on" in caplog.text)
        tracker.trial(trial())
        tracker.conclude(answers())
        assert tracker.close() > 0
    with tracking(place) as again:
        assert again.close() == 0
    assert place.find().info.status == "FINISHED"


def test_the_end_waits_for_a_process_that_is_slow_to_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(link: Connection, _: dict[str, str]) -> "subprocess.Popen[bytes]":
        with link:
            command = [sys.executable, "-c", SLOW_TO_START, str(link.fileno())]
            return subprocess.Popen(command, pass_fds=(link.fileno(),))

    monkeypatch.setattr(tracker_module, "_start", slow)
    monkeypatch.setattr(tracker_module, "GRACE_SECONDS", 1.0)
    with tracking(place) as tracker:
        assert tracker.close(timeout_seconds=0.0) == 0


@pytest.mark.drill
def test_a_search_that_is_killed_leaves_no_process_and_no_open_run(place: Place) -> None:
    write_down(place.folder, trial(outcome=None, points=2))
    command = [sys.executable, "-c", KILLED, place.uri, str(place.folder)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    wait_until(lambda: ended(int(killed.stdout)))
    assert place.statuses() == {"KILLED"}
    assert place.tokens(place.find()) == [1000, 2000]


def ended(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.drill
def test_a_server_that_never_replies_costs_the_search_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Place(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        with tracking(place) as tracker:
            begin = time.monotonic()
            for number in range(1000):
                tracker.trial(trial(number))
            assert time.monotonic() - begin < UNANSWERED_SECONDS
            tracker.confirm()
            begin = time.monotonic()
            assert tracker.close(timeout_seconds=0.5) > 0
            assert time.monotonic() - begin < UNANSWERED_SECONDS


def test_a_store_that_this_mlflow_has_used_is_known_without_asking_it(place: Place) -> None:
    with tracking(place, searching=True) as tracker:
        tracker.confirm()
        assert tracker._process is None
        tracker.trial(replace(trial(), curve=()))
        assert tracker._process is None, "nothing to write before the first loss"
        tracker.trial(trial())
        assert tracker._process is not None


def test_a_damaged_known_store_causes_a_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with tracking(place, searching=True) as tracker:
        with sqlite3.connect(place.uri.removeprefix("sqlite:///")) as database:
            database.execute("UPDATE alembic_version SET version_num = 'other'")
        database.close()
        tracker.trial(trial())
        wait_until(lambda: "nothing is written to MLflow" in caplog.text)
        assert tracker.close() > 0


def test_an_address_that_mlflow_refuses_is_refused_before_the_first_trial(tmp_path: Path) -> None:
    uri = "postgresql+nodriver://someone:hunter2@host/runs"
    with tracking(Place(uri, tmp_path / "runs")) as tracker:
        with pytest.raises(TrackingError, match="Can't load plugin") as refusal:
            tracker.confirm()
        assert "hunter2" not in str(refusal.value)


def test_a_malformed_address_is_refused_without_mlflow(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="it names no host"):
        Tracker(Place("http://", tmp_path).study())
