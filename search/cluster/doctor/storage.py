"""Writes a file into the folder of a run's checkpoints for a moment, as a search would."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fathom.search.cluster.doctor.facts import ClusterProbe


@contextmanager
def planted(folder: Path) -> Iterator[ClusterProbe | str]:
    """Context with a probe file for nodes to read, or the reason why it can't be written."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    name = f".doctor-{secrets.token_hex(8)}"
    try:
        yield _plant(folder, name)
    finally:
        for path in folder.glob(f"{name}*"):
            path.unlink(missing_ok=True)
        for path in made:
            _remove_if_empty(path)


def _plant(folder: Path, name: str) -> ClusterProbe | str:
    content = secrets.token_hex(8)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a full disk may say so only now
    except OSError as error:
        return error.strerror or type(error).__name__
    return ClusterProbe(str(folder), name, content)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # never made, or a search has begun in it
