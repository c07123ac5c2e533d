"""A training's state in a file, where whoever goes on with it finds it. Torch only."""

import os
import pickle
import socket
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from fathom.search.run_folder import UNFINISHED

DAMAGED = (zipfile.BadZipFile, pickle.UnpicklingError, NotImplementedError, OSError, ValueError)
"""What reading a file raises that was cut short, changed, or never was a checkpoint."""


def save(state: dict[str, Any], path: Path) -> None:
    """Replace the file; a kill at any moment leaves the old one or the new one.

    So do two processes that write at once: a worker that was cut off goes on for a while beside
    the one that took its place.

    Raises:
        OSError: when the disk takes no more; the old one is still there.
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
    """The state in the file, on the device; None without a file, or with a damaged one.

    What was lost with a damaged file is trained again from the beginning, to the same end.
    """
    if not path.exists():
        return None
    try:
        _compare_checksums(path)
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except DAMAGED as error:
        warnings.warn(f"{path} is damaged and is not used: {error}", stacklevel=2)
        return None
    return state


def _compare_checksums(path: Path) -> None:
    """As PyTorch itself does not, in the zip archive that it writes."""
    with zipfile.ZipFile(path) as archive:
        part = archive.testzip()
    if part:
        raise zipfile.BadZipFile(f"{part} is not what was written")
