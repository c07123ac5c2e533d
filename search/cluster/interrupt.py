"""Lets trials save at Ctrl-C, SIGTERM, a closed terminal or a full disk before the search ends; a
second Ctrl-C ends the search at once."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from fathom.search.records import TrialRecord
from fathom.search.signals import handled, leave_terminal
from fathom.search.study.hardware.disk import checkpoint_bytes

LEAST_SECONDS = 30.0
"""Least seconds that trials get to save; a trial that does not save in time is resumed from its
last checkpoint."""
SLOW_DISK = 50e6
"""Bytes per second that even a slow disk can write for all trials together."""
STEPS = 2
"""Number of steps of the slowest trial that the end waits for: the current one, and one to
spare."""
MESSAGE = "Ending: trials under way save where they stand; Ctrl-C again ends at once"


class InterruptNow(KeyboardInterrupt):
    """Raised by a second Ctrl-C: the search ends without waiting for trials to save."""


class Interrupt:
    """The request to end the search, and the trials that have saved for it."""

    def __init__(self) -> None:
        self._requested_at: float | None = None
        self._insisted = False
        self.error: Exception | None = None
        """First error that ended the search or came while it was ending, mostly an error of the
        machine; None if there was none."""
        self.saved: set[str] = set()
        """Trials that have saved their state, from which they can be resumed."""

    @property
    def requested(self) -> bool:
        """True once the end is requested: no trial is to start, and running ones are to save."""
        return self._requested_at is not None

    def is_overdue(self, live: Iterable[TrialRecord]) -> bool:
        """Returns True once the time for the running trials to save is over."""
        since = self._requested_at
        return since is not None and time.monotonic() - since > seconds_to_save(live)

    def request(self, ending: Path, error: Exception | None = None) -> None:
        """Asks for the end: no trial starts any more, and running ones save when they see the file
        `ending` beside their checkpoints. The first of several errors is kept."""
        if not self.requested:
            self._requested_at = time.monotonic()
        self.error = self.error or error
        with suppress(OSError):  # of a full disk: then trials go on from older checkpoints
            ending.touch()

    @contextmanager
    def on_signals(
        self, ending: Path, say: Callable[[str], None], message: str = MESSAGE
    ) -> Iterator[None]:
        """Context in which Ctrl-C, SIGTERM or SIGHUP requests the end, and a second Ctrl-C ends at
        once.

        A second SIGTERM does not end it at once, since `timeout` and some schedulers send it twice.
        Only the main thread receives signals; in any other nothing changes.
        """

        def request(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGHUP:
                leave_terminal()
            if self.requested:
                if number != signal.SIGINT:
                    return
                self._insisted = True
                raise KeyboardInterrupt
            self.request(ending)
            say(message)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        try:
            with handled(request):
                yield
        except KeyboardInterrupt:  # Ray, where it hears of one, raises one of its own
            if self._insisted:
                raise InterruptNow from None
            raise
        finally:
            ending.unlink(missing_ok=True)


def seconds_to_save(live: Iterable[TrialRecord]) -> float:
    """Seconds within which running trials should have saved; more for larger states and slower
    steps."""
    states, step = 0, 0.0
    for record in live:
        states += checkpoint_bytes(record.spec.shape)
        step = max(step, record.step_seconds or 0.0)
    return LEAST_SECONDS + states / SLOW_DISK + STEPS * step
