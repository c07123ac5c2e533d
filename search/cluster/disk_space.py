"""Ends a search before the disk of its checkpoints is full, while all trials can still save."""

import errno
import shutil
import time
from collections.abc import Callable, Iterable

from fathom.search.cluster.interrupt import Interrupt
from fathom.search.formatting import format_bytes
from fathom.search.records import TrialRecord
from fathom.search.run_folder import UNFINISHED, RunFolder
from fathom.search.study.hardware.disk import RESERVE, checkpoint_bytes

LOOK_SECONDS = 5.0
"""Seconds between two checks of the disk."""


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
        """Bytes that are free, plus those of unfinished checkpoints, each of which replaces
        another."""
        unfinished = 0
        for half in self._checkpoints.glob(f"*{UNFINISHED}"):
            try:
                unfinished += half.stat().st_size
            except OSError:  # it has just become a checkpoint
                continue
        return shutil.disk_usage(self._checkpoints).free + unfinished
