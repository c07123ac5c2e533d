"""The time that a search has left, as a range: written by the search, read by `fathom status`."""

import json
import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from fathom.search.formatting import format_hours, format_seconds
from fathom.search.run_folder import RunFolder, write_atomically

NOT_KNOWN = "time left not known yet"
AT_ONCE = 5.0
"""Seconds below which the lower end of a range is left out."""
LARGEST_FILE = 1000
"""Bytes of the largest file that is read; the file that a search writes is far smaller."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time that a search still takes, as a range in seconds."""

    low: float
    high: float
    low_busy: float
    """Least seconds of training that are left, summed over all workers."""
    high_busy: float

    @property
    def text(self) -> str:
        """The range in words: `3 to 5 min left`."""
        if self.high < AT_ONCE:
            return "seconds left"
        low, high = format_seconds(self.low), format_seconds(self.high)
        if self.low < AT_ONCE:
            return f"up to {high} left"
        if low == high:
            return f"about {high} left"
        number, unit = low.split()
        return f"{number if high.endswith(unit) else low} to {high} left"

    def with_hours(self, devices: float, unit: str) -> str:
        """The range in words with device hours, where each worker has `devices` devices: `3 to 5
        min left, 0.1 to 0.2 core-hours`."""
        if not self.high_busy:
            return "the last trials are ending"
        busy = (self.low_busy, self.high_busy)
        low, high = (format_hours(seconds / 3600 * devices) for seconds in busy)
        return f"{self.text}, {low if low == high else f'{low} to {high}'} {unit}-hours"

    def later(self, seconds: float) -> "TimeLeft":
        """The range as it is `seconds` seconds after it was written."""
        return TimeLeft(
            max(0.0, self.low - seconds), max(0.0, self.high - seconds), self.low_busy,
            self.high_busy,
        )  # fmt: skip


def time_left_text(left: TimeLeft | None) -> str:
    """Returns the time left in words, or that it is not known."""
    return left.text if left else NOT_KNOWN


def keep_time_left(folder: RunFolder, left: TimeLeft | None) -> None:
    """Writes the time left, as the search estimates it now, to a file for `fathom status`."""
    told = None if left is None else {"told": time.time(), **asdict(left)}
    with suppress(OSError):  # of a full disk, which ends no search
        write_atomically(folder.time_left, json.dumps(told) + "\n")


def told_time_left(folder: RunFolder, now: float) -> TimeLeft | None:
    """Returns the time left that the search in a folder last wrote, less the time from then to the
    Unix time `now`; None if it wrote none, or the file is missing or damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if folder.time_left.stat().st_size <= LARGEST_FILE:
            told = json.loads(folder.time_left.read_text(encoding="utf-8"))
            numbers = [float(told[name]) for name in ("low", "high", "low_busy", "high_busy")]
            if all(0 <= number < math.inf for number in numbers):
                return TimeLeft(*numbers).later(max(0.0, now - float(told["told"])))
    return None
