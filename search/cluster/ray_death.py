"""Ends the search, with one line, when the Ray that it started on this machine has died.

Ray itself waits for up to a minute, prints pages of its logs, and does not say how to go on.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET

POLL_SECONDS = 0.2
VITAL = {PROCESS_TYPE_RAYLET, PROCESS_TYPE_GCS_SERVER}
"""Processes without which nothing goes on."""


def end_with_ray(again: str) -> None:
    """Watch Ray's processes from now on, until Ray is shut down; `again` resumes the search."""
    over = threading.Event()
    atexit.register(over.set)  # runs before Ray's own, which ends those processes
    threading.Thread(target=_watch, args=(over, again), name="ray", daemon=True).start()


@contextmanager
def end_if_killed(started: Sequence[subprocess.Popen[bytes]], again: str) -> Iterator[None]:
    """Context of Ray's start, which ends this process if one of Ray's own is killed meanwhile.

    `started` grows as Ray starts its processes. Ray itself would wait for 30 s or longer.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            statuses = [(one, one.poll() or 0) for one in started]
            killed = [f"{_name(one)} {_how(status)}" for one, status in statuses if status < 0]
            if killed:
                for one in started:
                    one.kill()
                _end(f"Ray could not start (its {killed[0]}); nothing is lost. To go on: {again}")

    watcher = threading.Thread(target=watch, name="ray start", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _name(process: subprocess.Popen[bytes]) -> str:
    """The name of the program that a process runs."""
    command = process.args
    assert isinstance(command, list)
    return Path(str(command[0])).name


def _watch(over: threading.Event, again: str) -> None:
    """Ends this process once one of Ray's has died, at two looks: one that Ray itself has just
    ended stands among the dead for a moment."""
    worker: Any = ray._private.worker
    node = worker._global_node
    before: list[str] = []
    while not over.wait(POLL_SECONDS) and worker._global_node is node:
        dead = [
            f"its {name} {_how(process.returncode)}"
            for name, process in node.dead_processes()
            if name in VITAL
        ]
        if dead and before:
            for one in (info for infos in node.all_processes.values() for info in infos):
                one.process.kill()
            _end(f"Ray has died ({dead[0]}); nothing is lost. To go on: {again}")
        before = dead


def _how(status: int) -> str:
    """A clause such as `got SIGKILL` or `exited with 1`, from the exit status of a process."""
    return f"got {signal.Signals(-status).name}" if status < 0 else f"exited with {status}"


def _end(line: str) -> None:
    """Ends this process at once: its main thread may wait for a Ray that never answers."""
    show_cursor = "\x1b[?25h" if sys.stdout.isatty() else ""  # hidden while a table is drawn
    sys.stdout.write(show_cursor)
    sys.stdout.flush()
    print(f"fathom: {line}", file=sys.stderr, flush=True)
    os._exit(1)
