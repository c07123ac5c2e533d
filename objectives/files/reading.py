"""Reading files that a user names, never a pipe or a device, and a digest of what they hold."""

import errno
import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path
from stat import S_ISREG

from fathom.objectives.errors import ObjectiveError

MOST_MATCHES = 1_000_000
"""Files and folders that a glob may match."""
SYSTEM_FILES = ("/proc", "/sys")
OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Numbers of the errors that no other file would avoid."""
DIGEST_LENGTH = 32
"""Hexadecimal digits of a digest."""
GZIP = b"\x1f\x8b"
"""First bytes of a gzipped file."""

ARCHIVES = {
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
    b"%PDF": "PDF",
    b"PAR1": "parquet",
}
"""Kinds of files by their first bytes."""


def open_regular(path: Path) -> BufferedReader:
    """The opened file, to be read.

    Raises:
        OSError: when it can't be opened, or is a pipe or a device, whose reading might never end.
    """
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


@contextmanager
def source_errors(source: str) -> Iterator[None]:
    """Context in which a source that a user named is read.

    Raises:
        ObjectiveError: when the operating system can't read it, or a file of it.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno in OF_THE_MACHINE:
            raise
        where = error.filename or source
        raise ObjectiveError(
            f"{where} can't be read: {error.strerror}; check the path and its permissions"
        ) from error


def check_bounded(place: str) -> None:
    """Checks that a folder, or a glob with `**`, is not the whole disk, and no path a system file.

    Raises:
        ObjectiveError: when it is.
    """
    parts = Path(place).parts
    plain = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    whole, real = plain == len(parts) or "**" in parts, os.path.realpath(Path(*parts[:plain]))
    if any(Path(real).is_relative_to(folder) for folder in SYSTEM_FILES):
        raise ObjectiveError(
            f"data must not be a system file, which may never end, got {place!r}; copy its text to "
            "a file"
        )
    if whole and real == "/":
        raise ObjectiveError(
            f"data must lie in a folder, got {place!r}, which is the whole disk; name their folder"
        )


def matches(pattern: str) -> list[Path]:
    """Files and folders that a glob matches, sorted.

    Raises:
        ObjectiveError: when it would search the whole disk, or matches too many files.
    """
    check_bounded(pattern)
    found = list(islice(dict.fromkeys(_globbed(Path(pattern))), MOST_MATCHES + 1))
    if len(found) > MOST_MATCHES:
        raise ObjectiveError(
            f"a glob must match at most {MOST_MATCHES:,} files, got more for {pattern!r}; name a "
            "folder further down, or join the files"
        )
    return [Path(match) for match in sorted(found)]


def _globbed(pattern: Path) -> Iterator[str]:
    """Yields the paths that a glob matches; `**` enters each folder once, as links may lead in
    circles."""
    parts = pattern.parts
    if "**" not in parts:
        yield from glob.iglob(str(pattern))
        return
    at, seen = parts.index("**"), set[str]()
    for top in glob.iglob(os.path.join(*parts[:at])) if at else ["."]:
        for folder, below, _ in os.walk(top, followlinks=True):
            real = os.path.realpath(folder)
            below[:] = [] if real in seen else [n for n in below if not n.startswith(".")]
            if real not in seen:
                yield from _globbed(Path(glob.escape(folder), *(parts[at + 1 :] or ["*"])))
            seen.add(real)


def digest_of(parts: Iterable[str | bytes]) -> str:
    """A digest, in hex, of `parts` in their order; it also depends on where each part ends."""
    found = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8))
        found.update(content)
    return found.hexdigest()[:DIGEST_LENGTH]
