"""Reading files that a user names, never a pipe or a device, and a digest of what they hold."""

import errno
import hashlib
import os
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG

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
"""First bytes of a file -> its kind."""


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


def digest_of(parts: Iterable[str | bytes]) -> str:
    """A digest, in hex, of `parts` in their order, which depends on where each of them ends."""
    found = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8))
        found.update(content)
    return found.hexdigest()[:DIGEST_LENGTH]
