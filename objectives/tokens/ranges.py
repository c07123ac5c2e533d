"""The smallest and the largest token id of a split, compared with its vocabulary."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.held_out.files import times_of
from fathom.objectives.tokens.doubts import (
    TypeDoubtError,
    fitting_types,
    is_wide_as_bytes,
    likely_type,
    sample_of,
    shown,
)
from fathom.objectives.tokens.formats import find_tokens
from fathom.objectives.tokens.shards import TRAIN, VALIDATION
from fathom.objectives.tokens.stream import Segment, TokenFiles, TokenReader

WHOLE_TOKENS = 1 << 26
"""Largest split, in tokens, of which every token is looked at, in a fraction of a second."""
BLOCK = 1 << 20
SAMPLES, SAMPLE_TOKENS = 64, 512
"""Number of windows that are looked at in a larger split, and tokens of each."""
RAW = (".bin", ".npy")
"""Suffixes of files that may be raw."""
FAR = 2
"""Ratio of a vocabulary to the ids in use from which it is far larger."""


def check_ids(split: TokenFiles) -> None:
    """Checks that ids lie inside the vocabulary: all ids, or a sample of a large split.

    Raises:
        ObjectiveError: with the type that suits them, or the vocabulary that they need.
    """
    least, most, segment = _range(split)
    if least >= 0 and most < split.vocab_size:
        return
    file, value = Path(segment.path), least if least < 0 else most
    types = fitting_types(file, split.vocab_size) if segment.offset == 0 else []
    remedy = f"set `vocabulary: {most + 1}` or more if the ids are of this type"
    if least < 0:
        remedy = "give negative ids a place in the vocabulary, or take them out"
    if types and file.suffix in RAW:
        remedy = " or ".join(f"`dtype: {shown(name)}`" for name in types) + " reads ids that are"
    raise ObjectiveError(
        f"token ids must be below the size of the vocabulary, {split.vocab_size}, got {value} in "
        f"{segment.path}, read as {np.dtype(segment.dtype).name}; {remedy}"
    )


def largest_id(split: TokenFiles) -> int:
    """The largest id of a split; of a large split, the largest id of a sample."""
    return _range(split)[1]


def proposed_keys(place: str) -> dict[str, object]:
    """The keys `dtype` and `vocabulary` for token ids whose files do not state them."""
    dtype = None
    try:
        data = find_tokens(place, TRAIN, column=None, dtype=None)
    except TypeDoubtError as doubt:
        dtype = doubt.dtype
        data = find_tokens(place, TRAIN, column=None, dtype=dtype)
    keys: dict[str, object] = {"dtype": dtype} if dtype else {}
    if data.vocabulary is None:
        held_out = find_tokens(place, VALIDATION, column=None, dtype=dtype)
        parts = (TokenFiles(each.segments, 0) for each in (data, held_out))
        keys["vocabulary"] = 1 + max(map(largest_id, parts))
    return keys


def type_note(split: TokenFiles, dtype: str) -> str:
    """A line on ids that look like another type than `dtype`; empty if they do not."""
    for segment in split.segments[:SAMPLES]:
        content = sample_of(Path(segment.path)) if segment.offset == 0 else b""
        likely = likely_type(content)
        if dtype == "uint8":
            likely = "uint16" if is_wide_as_bytes(content) else ""
        if likely and _differs(segment, likely):
            return (
                f"the ids of {segment.path} look as if they were `dtype: {shown(likely)}` and not "
                f"{dtype}"
            )
    return ""


def vocabulary_note(split: TokenFiles, place: str) -> str:
    """A line on a vocabulary far larger than the ids in use; empty if it is not."""
    used = largest_id(split) + 1
    if split.vocab_size < FAR * used:
        return ""
    return (
        f"the largest token id seen in {place} is {used - 1:,}, of a vocabulary of "
        f"{split.vocab_size:,}: embeddings of larger ids would never be trained; name the "
        f"tokenizer that cut it, or `vocabulary: {used}` if no id is larger"
    )


def _differs(segment: Segment, likely: str) -> bool:
    """True if the type `likely` has another width or byte order than the segment's, whatever its
    sign."""
    stored = np.dtype(segment.dtype)
    swapped = likely.startswith(">") != (stored.byteorder == ">")
    return swapped or stored.itemsize != np.dtype(likely).itemsize


def _range(split: TokenFiles) -> tuple[int, int, Segment]:
    """The smallest and the largest id, and the segment of the first id outside the vocabulary, or
    the first segment if there is none."""
    return _cached(split, times_of(segment.path for segment in split.segments))


@lru_cache(maxsize=16)
def _cached(split: TokenFiles, _times: tuple[tuple[int, int], ...]) -> tuple[int, int, Segment]:
    reader, least, most, wrong = TokenReader(split), 0, 0, split.segments[0]
    for start, length in _windows(len(split)):
        ids = reader.block(start, length)
        low, high = int(ids.min()), int(ids.max())
        if least >= 0 and most < split.vocab_size and not 0 <= low <= high < split.vocab_size:
            bad = (ids < 0) | (ids >= split.vocab_size)
            wrong = reader.segment_at(start + int(bad.argmax()))
        least, most = min(least, low), max(most, high)
    return least, most, wrong


def _windows(tokens: int) -> Iterator[tuple[int, int]]:
    """Yields start and length of each window that is read."""
    if tokens <= WHOLE_TOKENS:
        for start in range(0, tokens, BLOCK):
            yield start, min(BLOCK, tokens - start)
        return
    for place in range(SAMPLES):
        yield (tokens - SAMPLE_TOKENS) * place // (SAMPLES - 1), SAMPLE_TOKENS
