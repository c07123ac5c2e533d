"""A private folder for the sessions and sockets of Ray on this machine, deleted with its process.

Ray makes its own folders writable for everybody, `/tmp/ray` among them.
"""

import atexit
import errno
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import ray

PREFIX = "fathom-"
RAY = "ray"
"""Name of Ray's folder inside the private one: Ray itself opens its folder to all users."""
LONGEST_SOCKET = f"{RAY}/session_2026-11-25_09-09-55_123456_1234567/sockets/plasma_store"
LONGEST_PATH = 107 if sys.platform.startswith("linux") else 103
"""Most bytes that the path of a socket may have on this system."""
LEAST_FREE = 10_000_000
"""Bytes free for logs and sockets; with less Ray does not start."""
LOCK = "lock"
"""Name of a file that is locked as long as the process that made the folder lives."""


def private_folder() -> Path:
    """Makes a folder for Ray that only this user can enter, and that is deleted when this process
    ends; also deletes the folders that killed processes left.

    Raises:
        OSError: when there is no place for one; `filename` is the place tried.
    """
    base = base_folder()
    _delete_abandoned(base)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))  # of mode 0700, under a new name
    atexit.register(_delete, made, _locked(made))
    return made / RAY


def base_folder() -> Path:
    """The first of `places` that can be used.

    Raises:
        OSError: when none can be used; it tells of the first.
    """
    troubles = dict[Path, tuple[int, str]]()
    for place in places():
        trouble = _trouble(place)
        if trouble is None:
            return place.absolute()
        troubles[place] = trouble
    first, (number, why) = next(iter(troubles.items()))
    raise OSError(number, why, str(first))


def places() -> tuple[Path, ...]:
    """Folders in which Ray's folder may be made: `RAY_TMPDIR` alone if it is set; otherwise
    `TMPDIR`, or `/tmp` if `TMPDIR` can't be used."""
    if named := os.environ.get("RAY_TMPDIR"):
        return (Path(named),)
    return (Path(os.environ.get("TMPDIR") or "/tmp"), Path("/tmp"))


def _trouble(place: Path) -> tuple[int, str] | None:
    """Returns why Ray can't have its folder in a place, as the number and text of an `OSError`;
    None if it can."""
    try:
        found = place.stat()
    except OSError as error:
        return error.errno or errno.EIO, error.strerror or "unknown"
    if not stat.S_ISDIR(found.st_mode):
        return errno.ENOTDIR, os.strerror(errno.ENOTDIR)
    if not os.access(place, os.W_OK | os.X_OK):
        return errno.EACCES, os.strerror(errno.EACCES)
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return errno.EPERM, "others can rename its files; `chmod +t` forbids that"
    if shutil.disk_usage(place).free < LEAST_FREE:
        return errno.ENOSPC, "no space left"
    inside = place.absolute() / f"{PREFIX}12345678" / LONGEST_SOCKET
    if len(os.fsencode(inside)) > LONGEST_PATH:
        return errno.ENAMETOOLONG, f"the path of a socket in it cannot exceed {LONGEST_PATH} bytes"
    return None


def _locked(folder: Path) -> TextIO | None:
    """The open file whose lock shows that this process lives; None where files can't be locked."""
    with suppress(OSError):
        new = folder / f"{LOCK}.new"
        file = new.open("x")
        fcntl.flock(file, fcntl.LOCK_EX)
        new.rename(folder / LOCK)  # locked already when others see it
        return file
    return None


def _delete(folder: Path, lock: TextIO | None) -> None:
    """Deletes a folder at the exit of the process that made it, once Ray has ended."""
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
    if lock:
        lock.close()


def _delete_abandoned(base: Path) -> None:
    """Deletes this user's folders that killed processes left."""
    for folder in _own_folders(base):
        with suppress(OSError), (folder / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _own_folders(base: Path) -> Iterator[Path]:
    """Folders for Ray in `base` which only this user can enter."""
    for folder in base.glob(f"{PREFIX}????????"):
        with suppress(OSError):  # it has just been deleted
            found = folder.lstat()
            private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
            if private and found.st_uid == os.getuid():
                yield folder
