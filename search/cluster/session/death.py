"""Ends the search, with one line, when its Ray has died: the one that it started on this machine,
or the head of the cluster that it joined.

Ray itself waits for up to a minute, prints pages of its logs, and does not say how to go on.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ray

from fathom.search.cluster import ray_internals
from fathom.search.cluster.ray_internals import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET
from fathom.search.cluster.session.address import is_reachable
from fathom.search.study.hardware.memory import kernel_kills, memory_words

POLL_SECONDS = 0.2
HEAD_POLL_SECONDS = 1.0
SOCKETS = Path("/proc/net/unix")
"""Linux's table of Unix sockets."""
EARLIER_SECONDS = 3.0
"""Seconds by which the watch ends this process before Ray would: Ray looks at its connection every
second or two."""
VITAL = {PROCESS_TYPE_RAYLET, PROCESS_TYPE_GCS_SERVER}
"""Programs of Ray that a search can't do without."""


@dataclass
class RayWatch:
    """The state shared with the thread that watches Ray."""

    over: threading.Event = field(default_factory=threading.Event)
    """Set to end the watch."""
    socket: str = ""
    """Path of the raylet's socket once Ray is up; empty before."""

    @property
    def is_shut_down(self) -> bool:
        """True once Ray was up and this process has left it, even if the process has started
        another Ray."""
        return bool(self.socket) and not _is_connected_to(self.socket)


def end_with_ray(started: Sequence[subprocess.Popen[bytes]], again: str) -> RayWatch:
    """Watches Ray's processes, from before Ray starts until it is shut down or the watch is over.

    `started` grows as Ray starts its processes; `again` is the command that resumes the search.
    """
    watch = RayWatch()
    atexit.register(watch.over.set)  # runs before Ray's own, which ends those processes
    threading.Thread(target=_watch, args=(watch, started, again), name="ray", daemon=True).start()
    return watch


def end_with_head(address: str, again: str) -> None:
    """Watches the head of a joined cluster until Ray is shut down.

    Ray itself ends the process once it has tried to reconnect for a minute. This function ends it
    just before that, and prints `again`, the command that resumes the search.
    """
    patience = ray_internals.reconnect_seconds() - EARLIER_SECONDS
    watched = (address, patience, again)
    threading.Thread(target=_watch_head, args=watched, name="head", daemon=True).start()


def _watch_head(address: str, patience: float, again: str) -> None:
    """Ends this process once the head of a cluster was out of reach for `patience` seconds, or once
    this machine's raylet is gone, in which case Ray would end the process as well."""
    silent_since, socket, was_there = None, ray_internals.raylet_socket(), False
    while _is_connected_to(socket):
        is_there = _has_socket(socket)
        if was_there and not is_there:
            what = "Ray on this machine has died (its raylet is gone)"
            _end(f"{what}; nothing is lost. Once Ray runs here again, resume by: {again}")
        was_there = is_there
        if is_reachable(address):
            silent_since = None
        elif silent_since is None:
            silent_since = time.monotonic()
        elif time.monotonic() - silent_since >= patience:
            what = f"the Ray cluster at {address} has died (no head for {patience:.0f} s)"
            _end(f"{what}; nothing is lost. Once a cluster runs again, resume by: {again}")
        time.sleep(HEAD_POLL_SECONDS)


def _is_connected_to(socket: str) -> bool:
    """True if this process is connected to Ray by the raylet with this socket."""
    return ray.is_initialized() and ray_internals.raylet_socket() == socket


def _has_socket(path: str) -> bool:
    """True if a process has a Unix socket of this path, or if the system has no table of
    sockets."""
    try:
        return path in SOCKETS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True


def _watch(watch: RayWatch, started: Sequence[subprocess.Popen[bytes]], again: str) -> None:
    """Ends this process once a process of Ray's is found dead twice: after the first time, Ray may
    just be shutting down.

    A process that exits during the start is left to Ray, which then gives the reason.
    """
    found_dead = False
    killed_before = kernel_kills()
    while not watch.over.wait(POLL_SECONDS) and not watch.is_shut_down:
        up = bool(watch.socket)
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
            why = dead[0]
            if kernel_kills() > killed_before:
                why += f", as the kernel kills for lack of memory: {memory_words()}"
            _end(f"Ray {what} ({why}); nothing is lost. Resume by: {again}")
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
    """Ends this process at once, since its main thread may be waiting for a Ray that never
    answers."""
    show_cursor = "\x1b[?25h" if sys.stdout.isatty() else ""  # hidden while a table is drawn
    sys.stdout.write(show_cursor)
    sys.stdout.flush()
    print(f"fathom: {line}", file=sys.stderr, flush=True)
    os._exit(1)
