"""Checkpoint files: the state of a training on disk, to be resumed. Torch only."""

import os
import pickle
import socket
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from fathom.objectives.files import open_regular
from fathom.search.run_folder import UNFINISHED

DAMAGED = (
    *(zipfile.BadZipFile, pickle.UnpicklingError, NotImplementedError, OSError, EOFError),
    *(RuntimeError, LookupError, TypeError, ValueError, AttributeError),
)
"""Errors on reading a file that was truncated, changed, or never was a checkpoint."""


def save(state: dict[str, Any], path: Path) -> None:
    """Replace the file; a kill at any moment leaves the old one or the new one.

    So do two processes that write at once: a worker that was cut off trains for a while beside the
    one that replaced it.

    Raises:
        OSError: when the disk is full; the old file is still there.
    """
    temporary = path.with_suffix(f".{socket.gethostname()}-{os.getpid()}{UNFINISHED}")
    try:
        with temporary.open("wb") as file:
            torch.save(state, file)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)  # half a file would fill the disk for the next as well
        if isinstance(error.__context__, OSError):  # PyTorch's writer hides what the disk said
            raise error.__context__ from None
        raise


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """The state in the file, on the device; None without a file, or with a damaged one, whose
    trial trains again from the beginning, to the same end.
    """
    if not os.path.lexists(path):
        return None
    try:
        with open_regular(path) as file:
            with zipfile.ZipFile(file) as archive:  # PyTorch itself compares no checksums
                if damaged := archive.testzip():
                    raise zipfile.BadZipFile(f"{damaged} is not what was written")
            file.seek(0)
            state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
        if not isinstance(state, dict):
            raise ValueError(f"it holds a {type(state).__name__}")
    except torch.OutOfMemoryError:
        raise
    except DAMAGED as error:
        warnings.warn(f"{path} is damaged and is not used: {error}", stacklevel=2)
        return None
    return state
