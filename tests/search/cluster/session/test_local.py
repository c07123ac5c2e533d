"""Ray on this machine alone: who reaches it, a slow start, and its death."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from fathom.search.cluster.session import local
from fathom.search.cluster.session.local import start_here
from tests.support.command_line import run
from tests.support.places import ROOT

AGAIN = "fathom run study.yaml"
WAITS = f"""
import sys, time
from fathom.search.cluster.session.ray_session import start_ray
from fathom.search.study.keys.groups import ResourcesConfig
start_ray(ResourcesConfig(gpus_per_trial=0), {AGAIN!r})
print("started", flush=True)
time.sleep(600)
"""


@dataclass(frozen=True)
class Started:
    """A process that has started Ray, with all that Ray started."""

    process: subprocess.Popen[str]
    home: Path

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    settings = {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": "local", "HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        env={name: os.environ[name] for name in os.environ if name != "RAY_AUTH_MODE"} | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "started\n"
    yield Started(process, tmp_path)
    process.kill()
    process.communicate()


def test_only_this_machine_and_this_user_reach_it(started: Started) -> None:
    addresses = {
        listening.laddr.ip
        for process in (psutil.Process(started.process.pid), *started.children())
        for listening in process.net_connections(kind="tcp")
        if listening.status == psutil.CONN_LISTEN
    }
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert (started.home / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600


@pytest.mark.drill
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_its_death_is_one_line_with_the_command_that_goes_on(started: Started, name: str) -> None:
    children = started.children()
    [victim] = [process for process in children if process.name() == name]
    victim.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert victim.is_running(), "a SIGTERM to all processes of a job does not end Ray"
    victim.kill()
    out, err = started.process.communicate(timeout=300)
    assert started.process.returncode == 1
    *before, last = err.splitlines()
    assert out == ""
    assert (
        last
        == f"fathom: Ray has died (its {name} got SIGKILL); nothing is lost. Resume by: {AGAIN}"
    )
    assert all("trying again" in line for line in before), "a busy machine takes several starts"
    assert psutil.wait_procs(children, timeout=120)[1] == []


def test_a_token_that_others_can_read_is_closed_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("secret")
    token.chmod(0o644)
    attempts(monkeypatch, fail=0)
    start_here(AGAIN)
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() == "secret"


def attempts(monkeypatch: pytest.MonkeyPatch, *, fail: int) -> list[dict[str, Any]]:
    """Lets the first starts of Ray fail, and returns the list of all that were tried."""
    tried: list[dict[str, Any]] = []

    def connect(**settings: Any) -> None:
        tried.append(settings)
        if len(tried) <= fail:
            raise RuntimeError("The current node timed out during startup.")

    monkeypatch.setattr(local, "connect", connect)
    monkeypatch.setattr(local, "end_with_ray", lambda *_: threading.Event())
    return tried


def test_a_start_that_takes_too_long_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "SLOW_SECONDS", 0.0)
    tried = attempts(monkeypatch, fail=5)
    start_here(AGAIN)
    assert len(tried) == 6
    assert "this machine is busy" in caplog.messages[0]
    assert "trying again (2 of 6)" in caplog.messages[0]
    assert "trying again (6 of 6)" in caplog.messages[-1]


def test_a_machine_that_stays_too_busy_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SLOW_SECONDS", 0.0)
    tried = attempts(monkeypatch, fail=6)
    with pytest.raises(OSError, match=rf"this machine is busy .* resume by: {AGAIN}") as refused:
        start_here(AGAIN)
    assert len(tried) == 6
    assert refused.value.errno == errno.ETIME
    assert "RAY_TMPDIR" not in str(refused.value)


def test_a_start_that_fails_at_once_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = attempts(monkeypatch, fail=1)
    with pytest.raises(OSError, match="RAY_TMPDIR"):
        start_here(AGAIN)
    assert len(tried) == 1


def test_too_little_address_space_is_refused_before_ray_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4_000_000_000, resource.RLIM_INFINITY))

    with pytest.raises(OSError, match=r"`ulimit -v` must be at least 9765625, got 3906250; "):
        start_here(AGAIN)


@pytest.mark.parametrize("kills", [0, 1])
def test_a_process_of_ray_that_is_killed_during_the_start_ends_the_run(kills: int) -> None:
    code = f"""
import subprocess, time
from fathom.search.cluster.session import death
counts = iter([4, *[4 + {kills}] * 1000])
death.kernel_kills, death.memory_words = lambda: next(counts), lambda: "raise it"
from fathom.search.cluster.session.death import end_with_ray
started = [subprocess.Popen(["sleep", "600"])]
end_with_ray(started, "fathom run study.yaml")
started[0].kill()
time.sleep(600)
"""
    why = ", as the kernel kills for lack of memory: raise it" if kills else ""
    done = run(sys.executable, "-c", code, timeout=300)
    assert done.returncode == 1
    assert done.stderr == (
        f"fathom: Ray could not start (its sleep got SIGKILL{why}); nothing is lost. "
        "Resume by: fathom run study.yaml\n"
    )
