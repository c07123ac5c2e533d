"""Token ids that lie in files: read window by window, never as a whole.

Windows are read with `pread` and not through a memory map: the pages of a map count as the worker's
own memory, even those that the system could take back, and a page fault holds up all threads.
Workers of a node share the system's page cache either way.

Shapes: B windows, N tokens of each.
"""

import os
import socket
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fathom.objectives.errors import ObjectiveError, UnseenDataError

OPEN_FILES = 128
"""Most files that a reader holds open; the limit of a process is often 1024."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Token ids that lie one after another in a file."""

    path: str
    offset: int
    """Bytes before the first id."""
    tokens: int
    dtype: str
    """numpy's name of the type of an id, such as `<u2`."""

    @property
    def end(self) -> int:
        """Bytes of the file up to the last id."""
        return self.offset + self.tokens * np.dtype(self.dtype).itemsize

    def cut(self, begin: int, end: int) -> Self:
        """The ids from the place `begin` up to `end`, as a part of the same file."""
        skipped = begin * np.dtype(self.dtype).itemsize
        return replace(self, offset=self.offset + skipped, tokens=end - begin)


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """Token ids in files, as they travel to workers: the places of ids, not the ids."""

    segments: tuple[Segment, ...]
    vocab_size: int

    def __len__(self) -> int:
        return sum(segment.tokens for segment in self.segments)

    def cut(self, begin: int, end: int) -> Self:
        """The ids from the place `begin` up to `end`."""
        ends = accumulate(segment.tokens for segment in self.segments)
        places = [
            (at - segment.tokens, segment) for at, segment in zip(ends, self.segments, strict=True)
        ]
        parts = (
            segment.cut(max(0, begin - first), min(segment.tokens, end - first))
            for first, segment in places
            if first < end and begin < first + segment.tokens
        )
        return replace(self, segments=tuple(parts))

    @property
    def ends(self) -> dict[str, int]:
        """Least size in bytes of each file, by its path."""
        return {segment.path: segment.end for segment in self.segments}


class TokenReader:
    """Reads windows of token ids in files."""

    def __init__(self, files: TokenFiles) -> None:
        """Raises `UnseenDataError` if this machine does not see the files whole."""
        for path, reason in not_seen(files.ends).items():
            raise unseen(path, reason)
        self._files = files
        self._ends_S = np.cumsum([segment.tokens for segment in files.segments])
        self._open: OrderedDict[str, int] = OrderedDict()
        weakref.finalize(self, _close, self._open)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The ids (B, N) of the windows of `length` ids from each start.

        Raises:
            ObjectiveError: when an id is not of the vocabulary, or a file was cut short.
        """
        ids_BN = np.empty((len(starts), length), np.int64)
        for row, start in zip(ids_BN, starts.tolist(), strict=True):
            self._fill(row, start)
        self._check(ids_BN, starts)
        return ids_BN

    def block(self, start: int, length: int) -> NDArray[np.int64]:
        """The `length` ids from the place `start` on, whatever they are."""
        ids_N = np.empty(length, np.int64)
        self._fill(ids_N, start)
        return ids_N

    def segment_at(self, at: int) -> Segment:
        """The segment of the token at a place of the data."""
        return self._files.segments[int(np.searchsorted(self._ends_S, at, side="right"))]

    def _check(self, ids_BN: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        wrong = (ids_BN < 0) | (ids_BN >= self._files.vocab_size)
        if not wrong.any():
            return
        window, place = (int(found[0]) for found in np.nonzero(wrong))
        at = int(starts[window]) + place
        segment = self.segment_at(at)
        raise ObjectiveError(
            f"token ids must be below the size of the vocabulary, {self._files.vocab_size}, got "
            f"{ids_BN[window, place]} in {segment.path} (token {at:,} of the data); name the "
            "tokenizer that cut them, or the right `vocabulary` or `dtype`"
        )

    def _fill(self, row: NDArray[np.int64], start: int) -> None:
        """Fills `row` with the ids from the place `start` on, from as many segments as it takes."""
        index = int(np.searchsorted(self._ends_S, start, side="right"))
        filled = 0
        while filled < len(row):
            segment = self._files.segments[index]
            within = start + filled - (int(self._ends_S[index]) - segment.tokens)
            part = segment.cut(within, min(segment.tokens, within + len(row) - filled))
            row[filled : filled + part.tokens] = self._ids(part)
            filled, index = filled + part.tokens, index + 1

    def _ids(self, part: Segment) -> NDArray[Any]:
        content = os.pread(self._descriptor(part.path), part.end - part.offset, part.offset)
        if len(content) < part.end - part.offset:
            raise ObjectiveError(
                f"{part.path} must hold at least {part.end} bytes, as when the search began, but "
                "has been cut short; copy it again"
            )
        return np.frombuffer(content, part.dtype)

    def _descriptor(self, path: str) -> int:
        found = self._open.pop(path, None)
        if found is None:
            found = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if len(self._open) >= OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
        self._open[path] = found
        return found


def not_seen(files: Mapping[str, int]) -> dict[str, str]:
    """The reason why this machine does not see a file, by path, for each of these files that is
    missing here or has fewer bytes."""
    reasons = {}
    for path, least in files.items():
        try:
            size = os.stat(path).st_size
        except OSError as error:
            reasons[path] = str(error.strerror)
        else:
            if size < least:
                reasons[path] = f"{size} bytes of at least {least}"
    return reasons


def unseen(path: str, found: str) -> UnseenDataError:
    """The error of a file that this machine does not see as it should."""
    return UnseenDataError(
        f"every node must see {path}, and {socket.gethostname()} does not ({found}); mount one "
        "folder at that path on all of them (docs/clusters.md)"
    )


def _close(descriptors: OrderedDict[str, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
