"""CUDA's MPS, on a stand-in for the program that starts it: `search/study/hardware/mps.py`."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.search.study.hardware import mps
from fathom.search.study.hardware.mps import CONTROL, PIPES, GpuSharing, mps_listens, mps_may_start
from tests.support.waiting import wait_until

STARTS = """#!/bin/sh
if [ "$1" = -d ]; then touch "$CUDA_MPS_PIPE_DIRECTORY/control"; else cat >> "$HEARD"; fi
"""
Install = Callable[[str], None]


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    """File with what the program has read."""
    return tmp_path / "heard"


@pytest.fixture
def install(tmp_path: Path, heard: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a program under the name of NVIDIA's, on a machine whose GPU can be used."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("HEARD", str(heard))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(mps, "USUAL_PIPES", str(tmp_path / "usual"))
    monkeypatch.setattr(mps, "USE_GPU", "pass")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def write(program: str) -> None:
        (tmp_path / CONTROL).write_text(program)
        (tmp_path / CONTROL).chmod(0o755)

    return write


def test_the_service_runs_for_this_search_alone_and_ends_with_it(
    install: Install, heard: Path
) -> None:
    install(STARTS)
    with GpuSharing() as sharing:
        assert sharing.start() == ""
        assert sharing.start() == "", "it runs already"
        assert sharing.pipes is not None
        pipes = sharing.pipes
        assert stat.S_IMODE(pipes.stat().st_mode) == 0o700
        assert (pipes / "control").exists()
        assert PIPES not in os.environ
    assert heard.read_text() == "quit -t 5\n"
    assert not pipes.exists()


def test_the_service_ends_with_a_search_that_is_killed(install: Install, heard: Path) -> None:
    install(STARTS)
    killed = (
        "import os, signal\n"
        "from fathom.search.study.hardware import mps\n"
        "mps.USE_GPU = 'pass'\n"
        "sharing = mps.GpuSharing()\n"
        "assert not sharing.start()\n"
        "print(sharing.pipes, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", killed], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: heard.exists() and heard.read_text() == "quit -t 5\n")
    wait_until(lambda: not Path(done.stdout.strip()).exists())


@pytest.mark.parametrize(
    ("program", "use_gpu", "reason"),
    [
        ("#!/bin/sh\necho no GPU here >&2; exit 1\n", "pass", f"{CONTROL}: no GPU here"),
        ("#!/bin/sh\nexec sleep 1000\n", "pass", f"{CONTROL} did not end in 1 s"),
        (STARTS, "import sys; sys.exit('CUDA error 805')", "by it: python"),
    ],
    ids=["fails", "hangs", "can't be used"],
)
def test_a_service_that_does_not_start_is_told_with_its_reason_and_leaves_nothing(
    install: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    use_gpu: str,
    reason: str,
) -> None:
    install(program)
    monkeypatch.setattr(mps, "USE_GPU", use_gpu)
    monkeypatch.setattr(mps, "SECONDS", 1 if "sleep" in program else 20)
    with GpuSharing() as sharing:
        assert reason in sharing.start()
        assert sharing.pipes is None
    wait_until(lambda: not list(tmp_path.glob("fathom-mps-*")))


def test_without_the_program_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(PIPES, str(tmp_path))
    assert GpuSharing().start() == f"{CONTROL} is not installed"
    assert not mps_may_start()


@pytest.mark.parametrize(("visible", "starts"), [("0", True), ("0,1", True), ("1", False)])
def test_the_service_does_not_start_where_it_would_number_the_gpus_otherwise_than_ray(
    install: Install, monkeypatch: pytest.MonkeyPatch, visible: str, starts: bool
) -> None:
    install(STARTS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    refused = "" if starts else "CUDA_VISIBLE_DEVICES must be unset or count from 0, got 1"
    with GpuSharing() as sharing:
        assert sharing.start() == refused


def test_a_service_that_runs_already_is_used_and_not_ended(
    install: Install, tmp_path: Path, heard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(STARTS)
    monkeypatch.setenv(PIPES, str(tmp_path))
    assert not mps_listens()
    (tmp_path / "control").touch()
    assert mps_listens()
    with GpuSharing() as sharing:
        assert sharing.start() == ""
        assert sharing.pipes is None, "processes find it by the environment"
    assert not heard.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_the_service_of_another_user_is_not_used(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(STARTS)
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "control").touch()
    os.chown(tmp_path / "usual" / "control", 65534, 65534)
    assert not mps_listens()
