"""Ctrl-C: once to end with all saved, a second time to end at once."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from fathom.search.run_folder import RunFolder

PATIENCE_SECONDS = 30.0
"""What trials get to save where they stand; those that do not go on from their last checkpoint."""
FIRST_WORDS = "Ending: trials under way save where they stand; Ctrl-C again ends at once"


class InterruptNow(KeyboardInterrupt):
    """The second Ctrl-C: nothing is to be waited for."""


class Interrupt:
    """Whether the user has asked the search to end, and which trials have saved for that."""

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._insisted = False
        self.saved: set[str] = set()
        """Trials that stand in their checkpoints, to go on from there."""

    @property
    def asked(self) -> bool:
        """No trial is to start, and those under way are to save."""
        return self._asked_at is not None

    @property
    def overdue(self) -> bool:
        """They have had their time."""
        return self._asked_at is not None and (time.monotonic() - self._asked_at > PATIENCE_SECONDS)

    @contextmanager
    def upon_ctrl_c(self, folder: RunFolder, say: Callable[[str], None]) -> Iterator[None]:
        """Take Ctrl-C for a request, and a second one for what it usually is.

        Only the main thread hears of it; in any other nothing changes.
        """

        def ask(number: int, frame: FrameType | None) -> None:
            if self.asked:
                self._insisted = True
                raise KeyboardInterrupt
            self._asked_at = time.monotonic()
            with suppress(OSError):  # of a full disk: then trials go on from older checkpoints
                folder.ending.touch()
            say(FIRST_WORDS)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, ask)
        try:
            yield
        except KeyboardInterrupt:  # Ray, where it hears of one, raises one of its own
            if self._insisted:
                raise InterruptNow from None
            raise
        finally:
            signal.signal(signal.SIGINT, before)
            folder.ending.unlink(missing_ok=True)
