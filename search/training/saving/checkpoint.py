"""Checkpoint files: the state of a training on disk, from which it resumes. Torch only."""

import errno
import os
import pickle
import socket
import threading
import warnings
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from fathom.objectives.files.durable import put_in_place
from fathom.objectives.files.reading import open_regular
from fathom.search.run_folder import UNFINISHED
from fathom.search.training.micro_batches import is_out_of_memory
from fathom.search.training.saving.state_copy import StateCopy

DAMAGED = (
    *(zipfile.BadZipFile, pickle.UnpicklingError, NotImplementedError, OSError, EOFError),
    *(RuntimeError, LookupError, TypeError, ValueError, AttributeError),
)
"""Errors that reading a file may raise if the file was truncated or changed, or never was a
checkpoint."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk and of a used-up quota."""


class DiskFullError(OSError):
    """The disk has no room for a checkpoint; the search pauses."""


class GivenUpError(Exception):
    """Writing a state was given up because there is a newer state."""


class BackgroundSaver:
    """Writes states to a checkpoint file, one at a time, while the training goes on.

    The state of a training on several GPUs is written by the leader alone. For a sharded training,
    `TrialLog` uses another saver and another `load`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None
        self._copy = StateCopy()
        self._newer = threading.Event()
        """Set while a newer state waits for the writing of the present one to stop."""

    def start(self, state: dict[str, Any]) -> None:
        """Copies a state and begins to write the copy, so the state may change afterwards; gives up
        a copy that is still being written.

        Raises:
            DiskFullError: if there was no room for the state saved before this one.
        """
        self._newer.set()
        self.finish()
        self._newer.clear()
        self._written = self._writer.submit(self._write, self._copy.take(state))

    def _write(self, copy: dict[str, Any]) -> None:
        self._copy.wait()
        save(copy, self._path, self._newer)

    def is_writing(self) -> bool:
        """True until the last state is written.

        Raises:
            DiskFullError: when there was no room for it.
        """
        if self._written and self._written.done():
            self.finish()
        return self._written is not None

    def finish(self) -> None:
        """Waits until the last state is written; without this call, the file may keep the previous
        state.

        Raises:
            DiskFullError: when there was no room for it.
        """
        written, self._written = self._written, None
        try:
            if written:
                written.result()
        except GivenUpError:
            return
        except OSError as error:
            if error.errno in DISK_FULL:
                raise DiskFullError(error.errno, error.strerror, str(self._path)) from None
            warnings.warn(f"no checkpoint: {error}", stacklevel=2)


class _Stoppable:
    """A file that takes no more bytes once an event is set."""

    def __init__(self, file: BinaryIO, stop: threading.Event) -> None:
        self._file, self._stop = file, stop

    def write(self, data: Any) -> int:
        """Writes bytes; raises `GivenUpError` instead once the event is set."""
        if self._stop.is_set():
            raise GivenUpError
        return self._file.write(data)

    def flush(self) -> None:
        """Passes on what was written."""
        self._file.flush()


def save(state: dict[str, Any], path: Path, stop: threading.Event | None = None) -> None:
    """Replaces the file by one with this state; a kill or a power cut at any moment leaves the old
    file or the new one.

    The same holds if two processes write at once: a worker that was cut off may train for a while
    beside its replacement.

    Raises:
        OSError: when the disk is full; the old file is still there.
        GivenUpError: when `stop` was set before all was written; the old file is still there.
    """
    temporary = path.with_suffix(f".{socket.gethostname()}-{os.getpid()}{UNFINISHED}")
    try:
        with temporary.open("wb") as file:
            # PyTorch asks for nothing but these two methods.
            torch.save(state, cast(BinaryIO, _Stoppable(file, stop)) if stop else file)
        put_in_place(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)  # half a file would fill the disk for the next as well
        # PyTorch's writer hides what the disk said.
        if isinstance(error.__context__, OSError | GivenUpError):
            raise error.__context__ from None
        raise


def forget_unfinished(path: Path) -> None:
    """Deletes unfinished checkpoint files that killed workers have left."""
    for half in path.parent.glob(f"{path.stem}.*{UNFINISHED}"):
        half.unlink(missing_ok=True)


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """The state in the file, on the device; None if the file is missing or damaged: the trial then
    starts again from the beginning, with the same result."""
    if not os.path.lexists(path):
        return None
    try:
        with open_regular(path) as file:
            with zipfile.ZipFile(file) as archive:  # PyTorch itself compares no checksums
                if any(entry.compress_type for entry in archive.infolist()):
                    raise zipfile.BadZipFile("it is packed, which PyTorch never does")
                if damaged := archive.testzip():
                    raise zipfile.BadZipFile(f"{damaged} has changed since it was written")
            file.seek(0)
            state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
        if not isinstance(state, dict):
            raise ValueError(f"it holds a {type(state).__name__}")
    except DAMAGED as error:
        if is_out_of_memory(error):
            raise
        warnings.warn(f"{path} is damaged and is not used: {error}", stacklevel=2)
        return None
    return state
