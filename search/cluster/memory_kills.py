"""Reports processes that the kernel killed for lack of memory, and ends a search in which nothing
can train any more."""

import errno
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import psutil

from fathom.search.cluster.interrupt import Interrupt
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.study.hardware.memory import kernel_kills, memory_words

LOOK_SECONDS = 5.0
"""Seconds between two looks at the kernel's count."""
MOST_KILLS = 3
"""Number of kills without a report between them at which the search ends."""
ROLES = {
    "ray::": "the worker of a trial",
    "default_worker.py": "a worker that was starting",
    "fathom.search.tracking.writing.follower": "the process that writes to MLflow",
    "": "a process of Ray",
}
"""Part of a command line -> what the process is; the first part that is found counts."""


class MemoryKills:
    """Watches the kernel's count of the processes that it has killed for memory on this machine."""

    def __init__(
        self, folder: RunFolder, interrupt: Interrupt, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interrupt, self._ending, self._clock = interrupt, folder.ending, clock
        self._counted, self._in_a_row = kernel_kills(), 0
        self._looked = -LOOK_SECONDS
        self._processes: Mapping[int, str] = {}
        self._points: dict[str, int] = {}

    def tick(self, live: Iterable[TrialRecord], say: Callable[[str], None]) -> None:
        """Reports kills since the last call, and asks the search to end if several follow each
        other without a report in between."""
        now = self._clock()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        before, self._processes = self._processes, processes_here()
        counted, self._counted = self._counted, kernel_kills()
        if self._has_news(live):
            self._in_a_row = 0
        if self._counted <= counted:
            return
        self._in_a_row += self._counted - counted
        gone = [before[number] for number in before.keys() - self._processes.keys()]
        what = " and ".join(sorted(set(gone))) or "a process under the same limit"
        say(f"The kernel has killed {what} for lack of memory: {memory_words()}")
        if self._in_a_row >= MOST_KILLS and not self._interrupt.requested:
            text = f"paused, as the kernel has killed {self._in_a_row} processes for lack of memory"
            remedy = f"{memory_words()}, and the same command goes on"
            error = OSError(errno.ENOMEM, f"{text} and no trial reports: {remedy}")
            self._interrupt.request(self._ending, error)

    def _has_news(self, live: Iterable[TrialRecord]) -> bool:
        """True if a trial has reported since the last look."""
        before, self._points = self._points, {r.spec.trial: len(r.curve) for r in live}
        return any(points > before.get(trial, 0) for trial, points in self._points.items())


def processes_here() -> dict[int, str]:
    """Process id -> description of each process that this process has started, directly or
    indirectly."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            line = " ".join(process.cmdline())
            found[process.pid] = next(role for part, role in ROLES.items() if part in line)
    return found
