"""Files of JSON lines that are appended to and never rewritten: each line has a checksum and says
which line it follows.

So a line that was changed, repeated, moved or lost is found, and a torn last line, which a kill or
a power cut leaves, is told from damage. The checksum is CRC-32: it misses no change within four
bytes, is in Python's standard library and takes microseconds. It is no signature: whoever can write
a run folder can write its checksums too.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from io import RawIOBase
from pathlib import Path
from typing import Any, TypeVar

from fathom.objectives.files.durable import sync_folder
from fathom.search.record_json import DAMAGE, DamagedFileError, parse_line, problem_of

T = TypeVar("T")

FOLLOWS, CHECKSUM = "follows", "crc32"
"""Keys at the end of a line: the checksum of the line before, and the line's own checksum of all
that stands before it."""
SEAL = re.compile(rb', "follows": "([0-9a-f]{8})", "crc32": "([0-9a-f]{8})"\}\Z')
SEAL_BYTES = len(b', "follows": "00000000", "crc32": "00000000"}')
FIRST = b"00000000"
"""Checksum that the first line names in place of a line before it."""
UNCHECKED = "it has no checksum that can be read"
CHANGED = "it is not what was written: its checksum differs"
ASTRAY = "it does not follow the line before: lines are missing, repeated or in another order"


def append_line(
    path: Path, line: dict[str, Any], *, wait: bool = True, sealed: bool = True
) -> None:
    """Appends one JSON line, whole or not at all, and waits until it is on the disk.

    Without `wait` the system writes it later: a killed process loses nothing, but a power cut loses
    the last seconds, back to the last line that was waited for. A file that is `sealed`, with
    checksums, has one writer at a time.
    """
    with path.open("a+b", buffering=0) as file:
        begin = file.seek(0, os.SEEK_END)
        text = json.dumps(line, allow_nan=True).encode()
        rest = memoryview((_sealed(text, _last_checksum(file, begin)) if sealed else text) + b"\n")
        try:
            while rest:
                rest = rest[file.write(rest) or 0 :]
            if wait:
                os.fsync(file.fileno())
                if begin == 0:  # of a new file the name too
                    sync_folder(path.parent)
        except OSError:  # of a full disk: half a line would spoil the one that comes after it
            file.truncate(begin)
            raise


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the whole lines of a JSONL file, without checksums and without a last line that a
    crash cut short."""
    return read_as(path, lambda values: values)


def read_as(
    path: Path, convert: Callable[[dict[str, Any]], T], *, sealed: bool = True
) -> Iterator[T]:
    """Yields the converted value of each whole line of a JSONL file, whose lines have checksums if
    it is `sealed`.

    Raises:
        DamagedFileError: at a line that was not written there, is no JSON object, or that `convert`
            can't read.
    """
    if not path.exists():
        return
    before = FIRST
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):  # the last, which a crash may have cut short
                line = line.rstrip(b"\0")
                if _is_torn(line):
                    return
            try:
                if sealed:
                    before = _checksum_after(line.rstrip(b"\n"), before)
                value = convert(without_checksums(parse_line(line)))
            except DAMAGE as error:
                raise damaged_line(path, number, problem_of(error)) from error
            yield value


def without_checksums(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a line without its checksum and that of the line before."""
    return {name: value for name, value in values.items() if name not in (FOLLOWS, CHECKSUM)}


def truncate_torn_line(path: Path) -> None:
    """Removes a last line that a crash cut short, so that the next line starts afresh.

    Raises:
        DamagedFileError: when what follows the last whole line is not the beginning of a line.
    """
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        rest = content[end:].rstrip(b"\0")
        if _is_torn(rest):
            file.truncate(end)
        elif _is_object(rest):  # only its end is missing
            file.truncate(file.seek(end + len(rest)))
            file.write(b"\n")
        else:
            raise damaged_line(path, content.count(b"\n") + 1, "it is not JSON")


def damaged_line(path: Path, number: int, problem: str) -> DamagedFileError:
    """The error for a line, counted from 1, that is not what was written; its text names the
    remedy."""
    kept = f"keep its first {number - 1} line{'s' * (number > 2)}" if number > 1 else "delete it"
    return DamagedFileError(
        f"{path}:{number}: {problem}; restore the file, or {kept}: the rest is done again"
    )


def _sealed(text: bytes, before: bytes) -> bytes:
    """A JSON object with the checksum of the line before and its own at its end."""
    start = b'%b, "%b": "%b"' % (text[:-1], FOLLOWS.encode(), before)
    return b'%b, "%b": "%b"}' % (start, CHECKSUM.encode(), _crc(start))


def _crc(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


def _last_checksum(file: RawIOBase, size: int) -> bytes:
    """The checksum of the last line of a file of this size."""
    file.seek(max(0, size - SEAL_BYTES - 1))
    seal = SEAL.search(file.readall().rstrip(b"\n"))
    return seal[2] if seal else FIRST


def _checksum_after(line: bytes, before: bytes) -> bytes:
    """The checksum of an undamaged line that follows the line with the checksum `before`.

    Raises:
        ValueError: if the line is damaged or follows another.
    """
    seal = SEAL.search(line, max(0, len(line) - SEAL_BYTES))
    if seal is None:
        raise ValueError(UNCHECKED if _is_object(line) else "it is not JSON")
    if _crc(line[: seal.start(2) - len(b', "crc32": "')]) != seal[2]:
        raise ValueError(CHANGED)
    if seal[1] != before:
        raise ValueError(ASTRAY)
    return seal[2]


def _is_torn(text: bytes) -> bool:
    """True if `text` is empty or the beginning of a line that `append_line` writes."""
    return not text or (
        text.startswith(b"{")
        and text.isascii()
        and text.decode().isprintable()
        and not _begins_with_object(text)
    )


def _begins_with_object(text: bytes) -> bool:
    try:
        json.JSONDecoder().raw_decode(text.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode()), dict)
    except (ValueError, RecursionError):
        return False
