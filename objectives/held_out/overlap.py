"""The share of a split's content that another split also has, however the two are cut.

Every window of `WINDOW` ids of the smaller split has a fingerprint; some thousand of these, drawn
by their value, are looked up among those of the larger one. Fingerprints do not depend on where a
window lies, so that a copy is found at any place. Of a split with more than `MOST` ids, only evenly
spread blocks are read, so that it takes seconds, whatever the size of the files.

Shapes: N ids of a block, W windows, M marks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.objectives.held_out import CONTAINED, TOLD

WINDOW = 64
"""Ids of a window of tokens."""
TEXT_WINDOW = 256
"""Bytes of a window of text: texts of one kind share shorter phrases."""
BLOCK = 1 << 14
MOST = 1 << 27
"""Most ids that are read of a split."""
MARKS = 1024
"""Fewest windows that are looked up, if the smaller split has that many."""
TABLE_BITS = 20
ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Odd multipliers, which mix the bits of fingerprints."""
CONTAINED_IN_A_SAMPLE = 0.7
"""Value of `CONTAINED` if only a part of the larger split was read, so that the share is an
estimate."""


class Readable(Protocol):
    """Ids that can be read block by block."""

    def __len__(self) -> int: ...

    def block(self, start: int, length: int) -> NDArray[Any]:
        """The `length` ids from the place `start` on, (N,)."""


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """Ids of an array, (N,)."""

    ids: NDArray[Any]

    def __len__(self) -> int:
        return len(self.ids)

    def block(self, start: int, length: int) -> NDArray[Any]:
        """The `length` ids from the place `start` on."""
        return self.ids[start : start + length]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The share of the smaller of two splits that lies in the larger one as well."""

    share: float
    of_training: bool
    """True if the training split is the smaller one."""
    read: float
    """Share of the larger split that was read; below 1, `share` is an estimate."""
    window: int

    @property
    def contained(self) -> bool:
        """True if the smaller split is contained in the larger one."""
        return self.share >= (CONTAINED if self.read == 1 else CONTAINED_IN_A_SAMPLE)

    def note(self, unit: str = "tokens") -> str:
        """A line on the share and how it was found; empty if it is too small to mention."""
        if self.share < TOLD:
            return ""
        smaller, larger = self.names
        sample = "" if self.read == 1 else f" and {self.read:.1%} of the {larger} {unit}"
        return (
            f"{self.percent} of the {smaller} {unit} are among the {larger} {unit} as well (found "
            f"by windows of {self.window} {unit}{sample}), so the held-out loss is too low; take "
            "them out of the training data"
        )

    @property
    def names(self) -> tuple[str, str]:
        """The smaller and the larger split in words."""
        return ("training", "held-out") if self.of_training else ("held-out", "training")

    @property
    def percent(self) -> str:
        """The share in words."""
        return f"{'about ' if self.read < 1 else ''}{self.share:.0%}"


def overlap_of(train: Readable, held_out: Readable, window: int = WINDOW) -> Overlap | None:
    """The overlap of two splits; None if one has no window, or no window is drawn."""
    of_training = len(train) < len(held_out)
    small, large = (train, held_out) if of_training else (held_out, train)
    windows = min(len(small), MOST) - window + 1
    if windows < 1:
        return None
    threshold = np.uint64(min((1 << 64) - 1, (1 << 64) // max(1, windows // MARKS)))
    marks_M = _marks(small, window, threshold)
    if not len(marks_M):
        return None
    seen_M = _seen(large, window, threshold, marks_M)
    read = min(1.0, MOST / len(large))
    share = min(1.0, float(seen_M.mean()) / read)
    return Overlap(share=share, of_training=of_training, read=read, window=window)


def _marks(split: Readable, window: int, threshold: np.uint64) -> NDArray[np.uint64]:
    """The different fingerprints of a split below the threshold, ascending, (M,)."""
    drawn = [_drawn(block_N, window, threshold) for block_N in _blocks(split, window)]
    return np.unique(np.concatenate(drawn))


def _seen(
    split: Readable, window: int, threshold: np.uint64, marks_M: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Mask (M,): True for each mark that the split has."""
    seen_M = np.zeros(len(marks_M), np.bool_)
    table = np.zeros(1 << TABLE_BITS, np.bool_)  # most windows are none, and are passed over here
    low = np.uint64((1 << TABLE_BITS) - 1)
    table[marks_M & low] = True
    for block_N in _blocks(split, window):
        drawn_W = _drawn(block_N, window, threshold)
        likely_W = drawn_W[table[drawn_W & low]]
        at_W = np.searchsorted(marks_M, likely_W).clip(max=len(marks_M) - 1)
        seen_M[at_W[marks_M[at_W] == likely_W]] = True
    return seen_M


def _drawn(block_N: NDArray[Any], window: int, threshold: np.uint64) -> NDArray[np.uint64]:
    found_W = fingerprints(block_N, window)
    return found_W[found_W < threshold]


def fingerprints(ids_N: NDArray[Any], window: int) -> NDArray[np.uint64]:
    """Fingerprints of all windows of `window` ids, a power of 2: (N - window + 1,)."""
    first, second, third = map(np.uint64, ODD)
    found_W = (ids_N.astype(np.uint64) + second) * first
    found_W ^= found_W >> np.uint64(29)
    span = 1
    while span < window:  # of windows twice as long each time
        found_W = found_W[:-span] * third + found_W[span:]
        found_W ^= found_W >> np.uint64(31)
        span *= 2
    found_W *= first
    return found_W ^ (found_W >> np.uint64(32))


def _blocks(split: Readable, window: int) -> Iterator[NDArray[Any]]:
    """Blocks of a split that together have each window once; of a large split, evenly spread
    blocks."""
    length = len(split)
    if length <= MOST:
        starts: Any = range(0, length - window + 1, BLOCK)
    else:
        count = MOST // BLOCK
        starts = [(length - BLOCK) * at // (count - 1) for at in range(count)]
    for start in starts:
        yield split.block(start, min(BLOCK + window - 1, length - start))
