"""Ends the search, with one line, when the Ray that it started on this machine has died.

Ray itself waits for up to a minute, prints pages of its logs, and does not say how to go on.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import ray

from fathom.search.cluster.ray_internals import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET

POLL_SECONDS = 0.2
VITAL = {PROCESS_TYPE_RAYLET, PROCESS_TYPE_GCS_SERVER}
"""Programs of Ray that a search can't do without."""


def end_with_ray(started: Sequence[subprocess.Popen[bytes]], again: str) -> threading.Event:
    """Watches Ray's processes from before its start until it is shut down, or the event is set.

    `started` grows as Ray starts its processes; `again` is the command that resumes the search.
    """
    over = threading.Event()
    atexit.register(over.set)  # runs before Ray's own, which ends those processes
    threading.Thread(target=_watch, args=(over, started, again), name="ray", daemon=True).start()
    return over


def _watch(over: threading.Event, started: Sequence[subprocess.Popen[bytes]], again: str) -> None:
    """Ends this process once one of Ray's has died, at two looks: Ray may just be ending it.

    What exits during the start is left to Ray, which then says why.
    """
    up = found_dead = False
    while not over.wait(POLL_SECONDS):
        was_up, up = up, ray.is_initialized()
        if was_up and not up:
            return
        ended = [
            (_name(process), status)
            for process in started
            if (status := process.poll()) is not None
        ]
        dead = [
            f"its {name} {_how(status)}"
            for name, status in ended
            if (name in VITAL if up else status < 0)
        ]
        if dead and found_dead:
            for process in started:
                process.kill()
            what = "has died" if up else "could not start"
            _end(f"Ray {what} ({dead[0]}); nothing is lost. To go on: {again}")
        found_dead = bool(dead)


def _name(process: subprocess.Popen[bytes]) -> str:
    """The name of the program that a process runs."""
    command = process.args
    assert isinstance(command, list)
    return Path(str(command[0])).name


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
