"""Next-token prediction on token ids that are cut already, and digests of their files."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fathom.objectives.files.reading import digest_of
from fathom.objectives.next_token import NextToken
from fathom.objectives.tokens.formats import TokenData
from fathom.objectives.tokens.keys import TokensConfig
from fathom.objectives.tokens.stream import Segment, unseen

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens(NextToken):
    """The objective `tokens`."""

    data: tuple[TokenData, ...]
    """Token data at `train`, and at `validation` if that is another place."""

    @classmethod
    def prepare(cls, keys: TokensConfig) -> Self:
        """The objective with its files found; none of them is kept in memory."""
        found = keys.splits()
        validation = len(found.validation)
        if note := keys.data_note():
            logger.warning("%s", note)
        return cls(
            train=found.train,
            validation=found.validation,
            vocab_size=found.train.vocab_size,
            context=keys.context,
            eval_windows=min(keys.eval_tokens, validation - 1) // keys.context,
            tokens_per_byte=validation / found.bytes if found.bytes else None,
            data_digest=digest_of(map(_digest, found.data)),
            data=found.data,
        )

    def content_digest(self, stopped: Callable[[], bool]) -> str | None:
        """A digest of every byte of the data if `data_digest` reads only a sample, otherwise empty;
        None if it was stopped before its end."""
        if all(data.hashes is not None for data in self.data):
            return ""
        digests = []
        for data in self.data:
            found = full_digest(data.segments, stopped) if data.hashes is None else _digest(data)
            if found is None:
                return None
            digests.append(found)
        return digest_of(digests)


def _digest(data: TokenData) -> str:
    """The digest of Fathom's own shards by their hashes, of other files by a sample."""
    found = _samples(_files(data.segments)) if data.hashes is None else data.hashes
    return digest_of(found)


SAMPLES = 256
"""Number of pieces that a quick digest reads from all files together; at least one from each
file."""
SAMPLE_BYTES = 4096
BLOCK_BYTES = 1 << 22


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
