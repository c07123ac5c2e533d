"""Signals that end a command once it has saved: SIGTERM, and SIGHUP when its terminal is closed."""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]

LAST_WORDS_MS = 200
"""Longest wait in milliseconds for the reader of a pipe to end, since the hangup that ends this
process may end the reader too."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """The signals besides Ctrl-C that end a command; SIGHUP is not among them if `nohup` ignores
    it."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGTERM,)
    return signal.SIGTERM, signal.SIGHUP


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handler that treats a signal as Ctrl-C."""
    if number == signal.SIGHUP:
        leave_terminal()
    raise KeyboardInterrupt


def leave_terminal() -> None:
    """Discards output to a terminal that was closed, or to a pipe that nobody reads; writing to
    them would fail."""
    for stream in (0, 1, 2):
        look = select.poll()
        look.register(stream, 0)  # a hangup, an error and a closed descriptor are told unasked
        if look.poll(LAST_WORDS_MS):
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != stream:
                os.dup2(nowhere, stream)
                os.close(nowhere)


@contextmanager
def endings_blocked() -> Iterator[None]:
    """Context in which processes that start, and their children, ignore SIGTERM and SIGHUP.

    Slurm, systemd and `kill -- -GROUP` send them to all processes of a job. This process handles
    them, and ends the others once the trials have saved.
    """
    ending = {signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handled(handler: Handler) -> Iterator[None]:
    """Context in which Ctrl-C and the signals that end a command have a handler."""
    numbers = (signal.SIGINT, *ending_signals())
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former or signal.SIG_DFL)
