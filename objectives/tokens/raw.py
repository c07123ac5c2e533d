"""Raw files of token ids, whose type is stated by a header, a file beside them or `dtype`."""

from pathlib import Path
from struct import unpack_from

import numpy as np

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import open_regular
from fathom.objectives.tokens.doubts import refuse_form, refuse_type
from fathom.objectives.tokens.shards import refuse_others, shard_type
from fathom.objectives.tokens.stream import Segment

HEADER_BYTES = 1024
HEADERS = {20240520: ("<u2", 1), 20240801: ("<u4", 7)}
"""Type of an id, and version, by the first number of a file of llm.c or modded-nanogpt."""
OTHER_HEADERS = range(20230101, 20400101)
"""First numbers of other files of llm.c, such as weights: the dates of their forms."""
HEADER_NUMBERS = 16
"""Numbers at the start of such a header that may differ from 0; the others are 0."""
MEGATRON = b"MMIDIDX\0\0"
"""First bytes of the .idx that Megatron-LM and fairseq write beside a .bin."""
MEGATRON_TYPES = {1: "|u1", 2: "|i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
MEGATRON_HEAD = 34
"""Bytes of such an .idx before the sizes of its sequences: mark, version, type, and two counts."""


def raw_segment(file: Path, dtype: str | None) -> Segment:
    """The ids of a raw file; if nothing states their type, they have 2 bytes.

    Raises:
        ObjectiveError: when it is damaged, holds something else, or its ids are of another type.
    """
    refuse_others(file.parent)
    with open_regular(file) as opened:
        head = opened.read(HEADER_BYTES)
    size = file.stat().st_size
    index = file.with_suffix(".idx")
    if index.is_file() and (found := _by_index(file, index, size)):
        return _agreed(found, dtype, index.name)
    if int.from_bytes(head[:4], "little") in HEADERS and (dtype is None or _has_header(head)):
        return _agreed(_with_header(file, head, size), dtype, "its header")
    if stored := shard_type(file):
        return Segment(str(file), 0, size // np.dtype(stored).itemsize, stored)
    refuse_form(file, dtype)
    if _has_header(head) and int.from_bytes(head[:4], "little") in OTHER_HEADERS:
        raise ObjectiveError(
            f"{file} must hold token ids, got another file of llm.c, such as weights (its first "
            f"number is {int.from_bytes(head[:4], 'little')}); name a file of tokens"
        )
    kind = stored_type(dtype or "uint16")
    refuse_type(file, size, dtype)
    if size % kind.itemsize:
        whole = size - size % kind.itemsize
        raise ObjectiveError(
            f"{file} must be whole ids of {kind.itemsize} bytes ({kind.name}), got {size} bytes; "
            f"copy it again if it was cut short (truncate -s {whole} {file} drops the last, torn "
            "id), or name its `dtype`"
        )
    return Segment(str(file), 0, size // kind.itemsize, kind.str)


def stored_type(dtype: str) -> np.dtype[np.generic]:
    """The type of an id in a file: little endian, unless its name begins with `>`."""
    return np.dtype(dtype).newbyteorder(">" if dtype.startswith(">") else "<")


def _agreed(found: Segment, dtype: str | None, source: str) -> Segment:
    said = np.dtype(found.dtype)
    if dtype and stored_type(dtype).itemsize != said.itemsize:
        raise ObjectiveError(
            f"`dtype` must be {said.name}, as {source} says of {found.path}, got {dtype}; drop "
            "`dtype`"
        )
    return found


def _with_header(file: Path, head: bytes, size: int) -> Segment:
    if len(head) < HEADER_BYTES:
        raise ObjectiveError(
            f"{file} must have a header of {HEADER_BYTES} bytes, as its first number says, got "
            f"{size} bytes; it was cut short: copy it again"
        )
    magic, found_version, tokens = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 8))
    dtype, version = HEADERS[magic]
    if found_version != version:
        raise ObjectiveError(
            f"{file} must have version {version} in its header, which begins with {magic}, got "
            f"{found_version}; write it again, or name its `dtype` if it has no header"
        )
    found = Segment(str(file), HEADER_BYTES, tokens, dtype)
    if size != found.end:
        raise ObjectiveError(
            f"{file} must have {found.end} bytes for the {tokens:,} tokens that its header "
            f"counts, got {size}; copy it again, or write it again with the right header"
        )
    return found


def _by_index(file: Path, index: Path, size: int) -> Segment | None:
    """The ids of a file by the .idx of Megatron-LM beside it: mark, version (8 bytes), type (1),
    numbers of sequences and of documents (8 each), then lengths (4) and places (8) of sequences."""
    with open_regular(index) as opened:
        head = opened.read(MEGATRON_HEAD)
        if not head.startswith(MEGATRON):
            return None
        if len(head) < MEGATRON_HEAD:
            raise ObjectiveError(
                f"{index} must have a header of {MEGATRON_HEAD} bytes, got {len(head)}; "
                "copy it again"
            )
        version, code, count = unpack_from("<QBQ", head, len(MEGATRON))
        if version != 1 or code not in MEGATRON_TYPES:
            raise ObjectiveError(
                f"{index} must be of version 1 and name a type of whole numbers, got version "
                f"{version} and type {code}; write the ids again as uint16 or int32"
            )
        kind = np.dtype(MEGATRON_TYPES[code])
        if index.stat().st_size < MEGATRON_HEAD + 12 * count:
            raise ObjectiveError(
                f"{index} must have the {count:,} sequences it counts, but is cut short; "
                "copy it again"
            )
        end = 0
        if count:
            opened.seek(MEGATRON_HEAD + 4 * (count - 1))
            (last,) = unpack_from("<i", opened.read(4))
            opened.seek(MEGATRON_HEAD + 12 * count - 8)
            end = unpack_from("<q", opened.read(8))[0] + last * kind.itemsize
    if end != size:
        raise ObjectiveError(
            f"{file} must have {end} bytes of {kind.name}, as {index.name} beside it says, got "
            f"{size}; copy both again, which belong together"
        )
    return Segment(str(file), 0, size // kind.itemsize, kind.str)


def _has_header(head: bytes) -> bool:
    """True if a file begins with a few numbers of 4 bytes, and zeros for the rest of a header."""
    numbers = np.frombuffer(head[: len(head) // 4 * 4], "<i4")
    return len(head) == HEADER_BYTES and not numbers[HEADER_NUMBERS:].any()
