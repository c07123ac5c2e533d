"""Starts Ray on this machine alone, where only this machine and this user reach it."""

import errno
import logging
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray

from fathom.search.cluster.ray_internals import (
    loopback,
    private_token,
    processes_end_with_parent,
    processes_started_by,
    raylet_socket,
    silent,
)
from fathom.search.cluster.session.connect import connect, last_line
from fathom.search.cluster.session.death import end_with_ray
from fathom.search.cluster.session.folder import private_folder
from fathom.search.signals import endings_blocked
from fathom.search.study.hardware.memory import STORE_SHARE, lack_of_memory, memory_limit

log = logging.getLogger(__name__)

WORKER_ENVIRONMENT = {
    # glibc otherwise gives every large activation back to the kernel and faults its pages in again.
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
}
LEAST_ADDRESSES = 10e9
"""Bytes of address space that each process of Ray reserves; it uses few of them."""
SLOW_SECONDS = 25.0
"""Seconds after which a failed start counts as too slow: Ray gives each of its steps at least 30
s."""
STARTS = 6
"""Number of slow starts after which a machine counts as too busy; together they take at least three
minutes."""


class _RayProcess(subprocess.Popen[bytes]):
    """A process of Ray, in a group of its own, which survives a SIGTERM or SIGHUP to a whole job.

    Workers and the processes that manage them would otherwise be gone before the trials have saved.
    """

    def __init__(self, command: Sequence[str], **settings: Any) -> None:
        with endings_blocked():
            super().__init__(command, **settings, start_new_session=True)

    def terminate(self) -> None:
        """Ends the process by SIGKILL, as SIGTERM is blocked in it."""
        self.kill()

    def kill(self) -> None:
        """Kills the process and its helpers, which would otherwise wait for processes that have
        ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def start_here(again: str) -> None:
    """Starts Ray on this machine, with the environment that its workers need; tries again if the
    start is too slow.

    No worker is started in advance: Tune gives its actors a `runtime_env`, which such a worker
    would lack. Should Ray die later, this process ends and prints `again`, the command that resumes
    the search.

    Raises:
        OSError: when the memory is too small, or Ray does not start, mostly because of its
            folder of logs and sockets.
    """
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY and addresses < LEAST_ADDRESSES:
        raise OSError(
            errno.ENOMEM,
            f"Ray can't start: `ulimit -v` must be at least {LEAST_ADDRESSES / 1024:.0f}, got "
            f"{addresses // 1024}; `ulimit -v unlimited` lifts it",
        )
    if lack := lack_of_memory():
        raise OSError(errno.ENOMEM, f"Ray can't start: {lack}")
    try:
        folder = private_folder()
    except OSError as error:
        raise _no_start(error, str(error.strerror), Path(error.filename)) from None
    with _environment(WORKER_ENVIRONMENT), private_token(), loopback(), silent():
        for number in range(1, STARTS + 1):
            if _starts_in_time(folder, again):
                return
            if number < STARTS:
                late = "Ray has not started in time, as %s; trying again (%d of %d)"
                log.warning(late, _busy(), number + 1, STARTS)
    remedy = f"once other programs have ended, resume by: {again}"
    raise OSError(errno.ETIME, f"Ray can't start in time, as {_busy()}; {remedy}")


def _starts_in_time(folder: Path, again: str) -> bool:
    """Starts Ray; returns False if that took too long. Raises OSError if Ray can't start at all."""
    began = time.monotonic()
    try:
        _start(folder, again)
    except Exception as error:  # noqa: BLE001 - of a slow start Ray raises a plain Exception
        if time.monotonic() - began < SLOW_SECONDS:
            raise _no_start(error, last_line(error)[:300], folder) from None
        return False
    return True


def _start(folder: Path, again: str) -> None:
    """Starts Ray, and ends all its processes if that fails."""
    started: list[subprocess.Popen[bytes]] = []
    # Elsewhere than on Linux Ray's processes end with this one by their common group.
    kind = _RayProcess if processes_end_with_parent() else subprocess.Popen

    def process(command: Sequence[str], **settings: Any) -> subprocess.Popen[bytes]:
        started.append(kind(command, **settings))
        return started[-1]

    watch = end_with_ray(started, again)
    try:
        with processes_started_by(process):
            connect(
                address="local",
                include_dashboard=False,
                _temp_dir=str(folder),
                object_store_memory=_store_bytes(),
                _system_config={"prestart_worker_first_driver": False},
            )
            watch.socket = raylet_socket()
    except BaseException:
        watch.over.set()
        ray.shutdown()
        for child in started:
            child.kill()
        raise


def _store_bytes() -> int | None:
    """Size of Ray's object store in bytes, if memory has a limit that Ray may not know; None
    without a limit, where Ray takes the same share by itself."""
    limit = memory_limit()
    return int(STORE_SHARE * limit.size) if limit else None


def _busy() -> str:
    """A clause for error messages with the load average and the number of cores."""
    cores = os.cpu_count() or 1
    return f"this machine is busy ({os.getloadavg()[0]:.0f} processes on {cores} cores)"


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Context in which newly started processes have these environment variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _no_start(error: Exception, reason: str, folder: Path) -> OSError:
    number = getattr(error, "errno", None) or errno.EIO
    remedy = "set RAY_TMPDIR to a writable folder with a short path and free space; it is"
    return OSError(number, f"Ray can't start ({reason}); {remedy}", str(folder))
