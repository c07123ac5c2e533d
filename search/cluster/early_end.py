"""Ends a search early, in time for all trials to save: at `--max-hours`, or when its disk fills
up."""

import errno
import math
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from fathom.search.cluster.interrupt import Interrupt
from fathom.search.formatting import format_bytes, format_hours
from fathom.search.records import TrialRecord
from fathom.search.run_folder import UNFINISHED, RunFolder, write_atomically
from fathom.search.study.hardware.disk import RESERVE, checkpoint_bytes

KEEP_SECONDS = 10.0
"""Seconds between two writes of the time taken, and the most that a killed run loses of it."""
LOOK_SECONDS = 5.0
"""Seconds between two checks of the disk."""


class TimeLimit:
    """Counts the hours of a search in its run folder, and asks it to end at the limit."""

    def __init__(
        self, folder: RunFolder, most_hours: float | None, began: float, interrupt: Interrupt,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`began` is the reading of `clock` when this run began; the time of earlier runs counts as
        well."""
        self._folder, self._interrupt, self._clock = folder, interrupt, clock
        self._most = math.inf if most_hours is None else 3600 * most_hours
        self._before, self._began = taken_seconds(folder), began
        self._kept = clock()
        self.over = False
        self._look()

    def tick(self, say: Callable[[str], None]) -> None:
        """Writes the time taken down every few seconds, and asks the search to end once the limit
        is reached."""
        if not self.over and self._look() and not self._interrupt.requested:
            say(f"{format_hours(self._most / 3600)} hours are over: trials under way save")
            self._interrupt.request(self._folder.ending)
        if self._clock() - self._kept >= KEEP_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Writes down the seconds taken so far."""
        self._kept = self._clock()
        with suppress(OSError):  # of a full disk, which ends no search
            write_atomically(self._folder.seconds, f"{self._taken():.1f}\n")

    def _taken(self) -> float:
        return self._before + max(0.0, self._clock() - self._began)

    def _look(self) -> bool:
        self.over = self._taken() >= self._most
        return self.over


def taken_seconds(folder: RunFolder) -> float:
    """Seconds that earlier runs on a folder have taken; 0 if their count is missing or damaged."""
    return noted_seconds(folder.seconds)


def noted_seconds(file: Path) -> float:
    """The seconds that a file of a run folder holds; 0 if it is missing or damaged."""
    with suppress(OSError, ValueError):
        seconds = float(file.read_text(encoding="utf-8"))
        if 0 <= seconds < math.inf:
            return seconds
    return 0.0


class DiskSpace:
    """Checks the free space of a run folder's disk, and asks the search to end when it is nearly
    full."""

    def __init__(self, folder: RunFolder, interrupt: Interrupt) -> None:
        self._checkpoints, self._interrupt = folder.marker.parent, interrupt
        self._ending = folder.ending
        self._looked = -LOOK_SECONDS

    def tick(self, live: Iterable[TrialRecord], say: Callable[[str], None]) -> None:
        """Asks the search to end if the running trials would soon lack the space to save."""
        now = time.monotonic()
        if self._interrupt.requested or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        free, needed = self._free(), RESERVE + sum(checkpoint_bytes(r.spec.shape) for r in live)
        if free < needed:
            text = f"{format_bytes(free)} free, and saving takes up to {format_bytes(needed)}"
            say(f"The disk is nearly full, {text}: trials under way save, and the search pauses")
            error = OSError(errno.ENOSPC, f"paused, as the disk has {text}", str(self._checkpoints))
            self._interrupt.request(self._ending, error)

    def _free(self) -> int:
        """Free bytes, with those of unfinished checkpoints, since each will replace another
        checkpoint."""
        unfinished = 0
        for half in self._checkpoints.glob(f"*{UNFINISHED}"):
            with suppress(OSError):  # it has just become a checkpoint
                unfinished += half.stat().st_size
        return shutil.disk_usage(self._checkpoints).free + unfinished
