"""Runs a command in its own process group, which ends with this process; reads its log line by
line."""

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
"""Most bytes in a line; a longer line is read in pieces."""
LONGER_SECONDS = 10.0
"""Seconds to wait, beyond its grace period, for an earlier command that still writes the same
log."""
LOOK_SECONDS = 0.1
"""Seconds between two looks at the log."""
KEPT_BYTES = 2**22
"""Bytes that are kept at each end of a long log once its command has ended."""
GUARD = Path(__file__).with_name("guard.py")


class CommandProcess:
    """A running command, whose standard output and standard error are appended to a log.

    The log is a file, so that no printed line is lost if the process that reads it dies.
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
        """Starts the command in a folder; `stop` gives the command `grace_seconds` to save.

        Raises:
            OSError: if there is no such folder, or the log can't be written.
        """
        self.exit_status: int | None = None
        """Exit status of the command once it has ended, negative if a signal ended it; None if
        unknown."""
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
        """Yields each line of the log, and an empty line whenever there was none for
        `poll_seconds`; ends when the command has ended."""
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
        """Ends the command's group by SIGTERM, then by SIGKILL: after the grace period, or after
        two seconds unless the command `saves` something. A long log is shortened."""
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
        """True once the guard has written the exit status, or has died."""
        if self._status >= 0 and select.select([self._status], [], [], 0)[0]:
            code = os.read(self._status, 16)
            self.exit_status = int(code) if code else None
            os.close(self._status)
            self._status = -1
        return self._status < 0

    def _wait(self) -> None:
        """Waits until it is time for the next look, or until the command ends."""
        if self._status >= 0:
            select.select([self._status], [], [], LOOK_SECONDS)


def _shorten(log: Path) -> None:
    """Replaces the middle of a long log by a line that says that it was removed."""
    with suppress(FileNotFoundError), log.open("r+b") as file:
        left = file.seek(0, os.SEEK_END) - 2 * KEPT_BYTES
        if left > 0:
            file.seek(-KEPT_BYTES, os.SEEK_END)
            last = file.read()
            file.seek(KEPT_BYTES)
            file.write(f"\n[fathom: {left:,} bytes left out]\n".encode() + last)
            file.truncate()


def _wait_for_lock(log: BinaryIO, seconds: float) -> None:
    """Waits for an earlier command of the trial, which may still be saving after its reader was
    killed.

    The lock belongs to the log as an open file, which the command inherits; it is free once all
    processes of the command have ended.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_SECONDS)
        else:
            return
