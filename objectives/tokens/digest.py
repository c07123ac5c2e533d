"""Digests of files of token ids: at once from a sample, and in full from every byte."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from fathom.objectives.files import digest_of
from fathom.objectives.tokens.stream import Segment, unseen

SAMPLES = 256
"""Pieces of all files together that a quick digest reads; of each file at least one."""
SAMPLE_BYTES = 4096
BLOCK_BYTES = 1 << 22


def quick_digest(segments: tuple[Segment, ...]) -> str:
    """A digest of the files' sizes, their times and a sample of what they hold."""
    return digest_of(_samples(_files(segments)))


def full_digest(segments: tuple[Segment, ...], stopped: Callable[[], bool]) -> str | None:
    """A digest of every byte of the files, which takes a second a gigabyte; None if it was stopped.

    Raises:
        UnseenDataError: when a file can't be read any more.
    """
    found = hashlib.sha256()
    for path in _files(segments):
        try:
            with open(path, "rb", buffering=0) as file:
                while block := file.read(BLOCK_BYTES):
                    found.update(block)
                    if stopped():
                        return None
        except OSError as error:
            raise unseen(path, str(error.strerror)) from error
    return found.hexdigest()


def _files(segments: tuple[Segment, ...]) -> list[str]:
    return list(dict.fromkeys(segment.path for segment in segments))


def _samples(paths: list[str]) -> Iterator[bytes]:
    pieces = max(1, SAMPLES // len(paths))
    for path in paths:
        status = Path(path).stat()
        yield f"{status.st_size} {status.st_mtime_ns}".encode()
        with open(path, "rb", buffering=0) as file:
            last = max(0, status.st_size - SAMPLE_BYTES)
            for place in range(pieces):
                yield os.pread(file.fileno(), SAMPLE_BYTES, last * place // max(1, pieces - 1))
