"""Counts the hours of a search over all its runs, and ends it at `--max-hours`."""

import math
import time
from collections.abc import Callable
from contextlib import suppress

from fathom.search.cluster.interrupt import Interrupt
from fathom.search.formatting import format_hours
from fathom.search.run_folder import RunFolder, write_atomically

KEEP_SECONDS = 10.0
"""Seconds between two writes of the time taken, which is the most that a killed run loses of it."""


class TimeLimit:
    """Counts the hours of a search in its run folder, and asks it to end when they are over."""

    def __init__(
        self, folder: RunFolder, most_hours: float | None, began: float, interrupt: Interrupt,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`began` is the Unix time at which this run began; runs before it count as well."""
        self._folder, self._interrupt, self._clock = folder, interrupt, clock
        self._most = math.inf if most_hours is None else 3600 * most_hours
        self._before, self._began = spent_seconds(folder), began
        self._kept = clock()
        self.over = False
        self._look()

    def tick(self, say: Callable[[str], None]) -> None:
        """Writes the time down every few seconds, and asks the search to end once it is over."""
        if not self.over and self._look() and not self._interrupt.requested:
            say(f"{format_hours(self._most / 3600)} hours are over: trials under way save")
            self._interrupt.request(self._folder.ending)
        if self._clock() - self._kept >= KEEP_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Writes down the seconds taken so far."""
        self._kept = self._clock()
        with suppress(OSError):  # of a full disk, which ends no search
            write_atomically(self._folder.seconds, f"{self._spent():.1f}\n")

    def _spent(self) -> float:
        return self._before + max(0.0, self._clock() - self._began)

    def _look(self) -> bool:
        self.over = self._spent() >= self._most
        return self.over


def spent_seconds(folder: RunFolder) -> float:
    """Seconds that earlier runs on a folder have taken; 0 if the note is missing or damaged."""
    with suppress(OSError, ValueError):
        seconds = float(folder.seconds.read_text(encoding="utf-8"))
        if 0 <= seconds < math.inf:
            return seconds
    return 0.0
