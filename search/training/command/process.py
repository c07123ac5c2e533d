"""A command in a process group of its own, which ends with this process; its log, line by line."""

import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LONGEST_LINE = 2**20
"""Largest number of bytes of a line; longer lines come in pieces."""
LONGER_SECONDS = 10.0
"""Time to wait for an earlier command on the same log, beyond its grace."""
LOOK_SECONDS = 0.1
"""Time between two looks at the log."""
KEPT_BYTES = 2**22
"""Number of bytes that are kept at each end of a log once its command has ended."""
GUARD = Path(__file__).with_name("guard.py")


class CommandProcess:
    """A command that runs; its standard output and standard error are appended to a log.

    The log is a file, so that a line is there once it is printed, whatever becomes of its reader.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        log: Path,
        *,
        grace_seconds: float,
    ) -> None:
        """Starts the command in a folder; `stop` gives it `grace_seconds` to save.

        Raises:
            OSError: if there is no such folder, or the log can't be written.
        """
        self.exit_status: int | None = None
        """Exit status once it has ended, negative where a signal ended it; None if unknown."""
        self._status, status = os.pipe()
        asked, self._asker = os.pipe()
        guard = [sys.executable, "-I", "-S", str(GUARD), str(status), str(grace_seconds)]
        try:
            with log.open("ab") as output:
                _wait_for_lock(output, grace_seconds + LONGER_SECONDS)
                begin = output.seek(0, os.SEEK_END)
                subprocess.run(
                    [*guard, *command], stdin=asked, stdout=output, stderr=output,
                    env=dict(environment), cwd=folder, pass_fds=(status,), check=True,
                )  # fmt: skip
        except OSError:
            os.close(self._status)
            os.close(self._asker)
            raise
        finally:
            os.close(status)
            os.close(asked)
        self._log, self._lines = log, log.open("rb")
        self._lines.seek(begin)

    def lines(self, poll_seconds: float) -> Iterator[bytes]:
        """Yields each line of the log, or an empty one if none has come for `poll_seconds`; ends
        with the command."""
        rest, heard = b"", time.monotonic()
        while True:
            ended = self._has_ended()  # before the last look, so that no line is missed
            rest += self._lines.readline(LONGEST_LINE)
            if rest.endswith(b"\n") or len(rest) >= LONGEST_LINE or (ended and rest):
                yield rest
                rest, heard = b"", time.monotonic()
            elif ended:
                return
            elif time.monotonic() - heard >= poll_seconds:
                yield b""
                heard = time.monotonic()
            else:
                self._wait()

    def stop(self, *, saves: bool = True) -> None:
        """Ends the command's group by SIGTERM, and by SIGKILL after its grace, or after two seconds
        if it `saves` nothing; a long log is shortened."""
        if self._asker >= 0:
            with suppress(BrokenPipeError):  # the guard is gone, and the command with it
                os.write(self._asker, b"end" * saves)
            os.close(self._asker)
            self._asker = -1
        while not self._has_ended():
            self._wait()
        self._lines.close()
        _shorten(self._log)

    def _has_ended(self) -> bool:
        """True once the guard has written the exit status, or is gone."""
        if self._status >= 0 and select.select([self._status], [], [], 0)[0]:
            code = os.read(self._status, 16)
            self.exit_status = int(code) if code else None
            os.close(self._status)
            self._status = -1
        return self._status < 0

    def _wait(self) -> None:
        """Waits for the next look, or for the end."""
        if self._status >= 0:
            select.select([self._status], [], [], LOOK_SECONDS)


def _shorten(log: Path) -> None:
    """Replaces the middle of a long log by a line that says so."""
    with suppress(FileNotFoundError), log.open("r+b") as file:
        left = file.seek(0, os.SEEK_END) - 2 * KEPT_BYTES
        if left > 0:
            file.seek(-KEPT_BYTES, os.SEEK_END)
            last = file.read()
            file.seek(KEPT_BYTES)
            file.write(f"\n[fathom: {left:,} bytes left out]\n".encode() + last)
            file.truncate()


def _wait_for_lock(log: BinaryIO, seconds: float) -> None:
    """Waits for an earlier command of the trial, which saves after its reader was killed.

    The lock belongs to the open file that a command inherits, and is free once all of its processes
    have ended.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_SECONDS)
        else:
            return
