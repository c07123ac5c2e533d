"""Ctrl-C or SIGTERM: all trials save and the search ends; a second Ctrl-C ends it at once."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from fathom.search.run_folder import RunFolder

SAVE_SECONDS = 30.0
"""Time for trials to save their state; one that does not is resumed from its last checkpoint."""
MESSAGE = "Ending: trials under way save where they stand; Ctrl-C again ends at once"


class InterruptNow(KeyboardInterrupt):
    """Raised by a second Ctrl-C: the search ends without waiting for trials to save."""


class Interrupt:
    """The user's request to end the search, and the trials that have saved for it."""

    def __init__(self) -> None:
        self._requested_at: float | None = None
        self._insisted = False
        self.saved: set[str] = set()
        """Trials that have saved their state, from which they can be resumed."""

    @property
    def requested(self) -> bool:
        """True once no trial is to start, and running ones are to save."""
        return self._requested_at is not None

    @property
    def overdue(self) -> bool:
        """True once the time to save is over."""
        since = self._requested_at
        return since is not None and time.monotonic() - since > SAVE_SECONDS

    def request(self, folder: RunFolder) -> None:
        """Asks for the end: no trial starts any more, and those under way save."""
        self._requested_at = time.monotonic()
        with suppress(OSError):  # of a full disk: then trials go on from older checkpoints
            folder.ending.touch()

    @contextmanager
    def on_signals(self, folder: RunFolder, say: Callable[[str], None]) -> Iterator[None]:
        """Context in which Ctrl-C or SIGTERM requests the end, and a second Ctrl-C ends at once.

        A second SIGTERM does not: `timeout` and some schedulers send it twice. Only the main thread
        receives signals; in any other nothing changes.
        """

        def request(number: int, frame: FrameType | None) -> None:
            if self.requested:
                if number == signal.SIGTERM:
                    return
                self._insisted = True
                raise KeyboardInterrupt
            self.request(folder)
            say(MESSAGE)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, request) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except KeyboardInterrupt:  # Ray, where it hears of one, raises one of its own
            if self._insisted:
                raise InterruptNow from None
            raise
        finally:
            for one, handler in before.items():
                signal.signal(one, handler or signal.SIG_DFL)
            folder.ending.unlink(missing_ok=True)


@contextmanager
def sigterm_blocked() -> Iterator[None]:
    """Context in which processes that start, and their children, ignore SIGTERM.

    Slurm, systemd and `kill -- -GROUP` send it to all processes of a job. This process handles it,
    and ends the others once the trials have saved.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
