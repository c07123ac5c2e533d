"""Replaces files atomically: after a power cut, either the old file or the new one is there."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF)
"""Numbers of the errors of file systems that can't sync a folder, such as some network file
systems."""


def put_in_place(draft: Path, path: Path) -> None:
    """Renames a file or folder after writing its content to the disk; returns once the new name is
    on the disk as well.

    If the content were not written first, a power cut could leave an empty file in place of the old
    one.

    Raises:
        OSError: when the disk can't hold it; what was at `path` is still there.
    """
    put_all_in_place([(draft, path)])


def put_all_in_place(moves: Iterable[tuple[Path, Path]]) -> None:
    """Renames each draft to its place, in this order, as `put_in_place` does one."""
    moves = list(moves)
    for draft, _ in moves:
        _sync_all(draft)
    for draft, path in moves:
        os.replace(draft, path)
    for folder in dict.fromkeys(path.parent for _, path in moves):
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk, if the file system supports it."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in NO_FOLDERS:
            raise


def make_folder(folder: Path) -> None:
    """Makes a folder, and the missing ones above it, and waits until their names are on the disk.

    Raises:
        OSError: when one can't be made.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def _sync_all(draft: Path) -> None:
    """Waits until a file, or every file in a folder, is on the disk."""
    if not draft.is_dir():
        _sync(draft)
        return
    for folder, _, names in os.walk(draft):
        for name in names:
            _sync(Path(folder, name))
        sync_folder(Path(folder))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
