"""Signals that end a command: a closed terminal, and `nohup` which keeps it running."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

ENDS = """
import sys
from pathlib import Path
from threading import Event
from fathom.search.cluster.interrupt import Interrupt

interrupt = Interrupt()
with interrupt.on_signals(Path("ending"), print):
    print("ready", flush=True)
    while not interrupt.requested:
        Event().wait(0.01)
    print("trials under way save", flush=True)
Path("saved").touch()
"""
DIES = """
import sys, time
from fathom.search import cli
def app(**_):
    print("ready", flush=True)
    while True:  # a signal that comes just before a sleep is heard after it
        time.sleep(0.01)
cli.app = app
cli.main()
"""


def started(
    code: str, folder: Path, output: int, *, nohup: bool = False
) -> subprocess.Popen[bytes]:
    """A process whose terminal is `output`, or which writes to that pipe."""

    def take_terminal() -> None:
        os.setsid()
        if os.isatty(output):
            os.close(os.open(os.ttyname(output), os.O_RDWR))  # the first becomes the terminal
        if nohup:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=output if os.isatty(output) else subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        preexec_fn=take_terminal,
    )


def wait_until_ready(reads: int) -> None:
    said = b""
    while b"ready" not in said:
        said += os.read(reads, 100)


@pytest.mark.parametrize(("code", "status"), [(ENDS, 0), (DIES, 130)], ids=["search", "command"])
def test_a_closed_terminal_ends_a_command_as_sigterm_does(
    code: str, status: int, tmp_path: Path
) -> None:
    here, there = pty.openpty()
    process = started(code, tmp_path, there)
    os.close(there)
    wait_until_ready(here)
    os.close(here)
    assert process.wait(timeout=300) == status, "what can't be written any more fails nothing"
    assert (tmp_path / "saved").exists() == (code == ENDS)


def test_a_pipe_whose_reader_the_same_hangup_ends_fails_nothing(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    process = started(ENDS, tmp_path, writes)
    os.close(writes)
    wait_until_ready(reads)
    os.close(reads)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=300) == 0
    assert (tmp_path / "saved").exists()


def test_what_nohup_has_started_outlives_its_terminal(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    process = started(ENDS, tmp_path, writes, nohup=True)
    os.close(writes)
    wait_until_ready(reads)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=300) == 0
    said = os.read(reads, 1000)
    os.close(reads)
    assert said.count(b"Ending") == 1
