"""Signs in a file's content that its token ids are read with the wrong type, or are no ids.

If ids of 4 bytes are read as ids of 2, there are twice as many, every second one is 0, and all lie
inside the vocabulary. So types are told apart by the bytes of the ids: upper bytes take few values.
"""

import os
import zlib
from pathlib import Path
from shlex import quote

import numpy as np
from numpy.typing import NDArray

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import GZIP, open_regular

PIECES, PIECE_BYTES = 64, 4096
"""Pieces of a file that are looked at, from its start to its end, and bytes of each."""
FEWEST = 16
"""Number of ids below which a sample says nothing."""
FORMS = {
    GZIP: "packed by gzip; unpack it: zcat {file} > {stem}.ids.bin",
    b"(\xb5/\xfd": "packed by zstd; unpack it: zstd -d --long=31 {file} -o {stem}.ids.bin",
    b"BZh": "packed by bzip2; unpack it: bzcat {file} > {stem}.ids.bin",
    b"\xfd7zXZ": "packed by xz; unpack it: xzcat {file} > {stem}.ids.bin",
    b"PK\x03\x04": "a zip archive, such as torch.save and np.savez write; save its ids by np.save",
    b"PAR1": "parquet; give it the suffix .parquet",
    b"ARROW1": "an Arrow file; give it the suffix .arrow",
    b"\x89HDF": "HDF5; save its ids by np.save",
    b"GGUF": "GGUF, weights of a model; name a file of tokens",
}
"""Forms that hold no raw ids, in words with the remedy, by the first bytes of a file."""
PICKLES = tuple(bytes([0x80, version, byte]) for version in (2, 3, 4, 5) for byte in b"\x95]c(")
WHOLE = "np.fromfile({file!r}, {kind!r}).astype('u4').tofile({out!r})"
TYPES = ("uint16", "uint32", "int64", ">u2", ">u4")
"""Types that are tried where ids do not suit the vocabulary."""
WORDS = {
    "int64": "of every four 2-byte numbers, only one takes more than a few values",
    "uint32": "of every two 2-byte numbers, the second is 0 or takes few values",
    ">u4": "of every two 2-byte numbers, the first is 0 or takes few values",
    ">u2": ("the lower byte of a number takes fewer values than its upper byte, as if swapped"),
    "uint8": "both bytes of a number take the same few values",
}
"""Sign by which ids of each type are noticed when they are read as numbers of 2 bytes."""


class TypeDoubtError(ObjectiveError):
    """The ids of a raw file are probably of the type `dtype`, which is stated nowhere."""

    def __init__(self, message: str, file: Path, dtype: str) -> None:
        super().__init__(message)
        self.file, self.dtype = file, dtype


def sample_of(file: Path) -> bytes:
    """Pieces of a file from its start to its end, at multiples of 8 bytes; all of a small file."""
    with open_regular(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size <= PIECES * PIECE_BYTES:
            return opened.read()
        steps = (place * (size - PIECE_BYTES) // (PIECES - 1) for place in range(PIECES))
        return b"".join(os.pread(opened.fileno(), PIECE_BYTES, start // 8 * 8) for start in steps)


def refuse_form(file: Path, dtype: str | None) -> None:
    """Refuses a file that is packed, an archive, a pickle, or text.

    Raises:
        ObjectiveError: with the remedy.
    """
    content = sample_of(file)
    head = content[:PIECE_BYTES]
    words = next((words for first, words in FORMS.items() if head.startswith(first)), "")
    if head.startswith(GZIP) and not _unpacks(head):
        words = ""
    if head.startswith(PICKLES):
        words = "a pickle, which is never opened since it may run code; save its ids by np.save"
    if not words and dtype is None and _is_text(content):
        words = (
            "text; fathom tokenize {file} --tokenizer bpe:8192 --out FOLDER cuts it into tokens, "
            "and `dtype: uint8` takes its bytes for ids"
        )
    if words:
        words = words.format(file=quote(str(file)), stem=quote(str(file.with_suffix(""))))
        raise ObjectiveError(f"{file} must hold raw token ids, but is {words}")


def refuse_type(file: Path, size: int, dtype: str | None) -> None:
    """Refuses a file whose ids do not look like ids of 2 bytes, though their type is stated
    nowhere.

    Raises:
        TypeDoubtError: with the type.
        ObjectiveError: with the command that writes fractions as whole numbers.
    """
    content = sample_of(file)
    if kind := fractions(content):
        out = str(file.with_suffix(".u4.bin"))
        command = f'python -c "import numpy as np; {WHOLE}"'
        raise ObjectiveError(
            f"{file} must hold whole numbers, but holds {np.dtype(kind).name}; write ids as whole "
            f"numbers: {command.format(file=str(file), kind=kind, out=out)}, and read that file "
            "with `dtype: uint32`"
        )
    likely = likely_type(content) if dtype is None else ""
    if likely:
        width = np.dtype(likely).itemsize
        torn = f" after `truncate -s {size - size % width} {file}`, which drops the torn last id"
        raise TypeDoubtError(
            f"`dtype` must be stated for {file}, whose ids look like {likely}: {WORDS[likely]}; "
            f"set `dtype: {shown(likely)}`{torn if size % width else ''} (or `dtype: uint16` if "
            "each id does have 2 bytes)",
            file,
            likely,
        )


def shown(dtype: str) -> str:
    """A type as it is written in a study file."""
    return f'"{dtype}"' if dtype.startswith(">") else dtype


def likely_type(content: bytes) -> str:
    """Likely type of the ids of a file that does not state it; empty for 2 bytes an id."""
    if len(content) < 2 * FEWEST:
        return ""
    for name, words, order in (("int64", 4, "<"), ("uint32", 2, "<"), (">u4", 2, ">")):
        numbers = _columns(content, f"{order}u2", words)[:, :: 1 if order == "<" else -1]
        if _is_upper(numbers[:, 1:], numbers[:, 0]):
            return name
    low, high = _columns(content, "<u1", 2).T
    if high.any() and (not low.any() or _entropy(high) - _entropy(low) > 0.25 + 256 / len(low)):
        return ">u2"
    lows, highs = set(low.tolist()), set(high.tolist())
    few = len(highs) >= 8 and len(lows) < 128 and len(low) >= 4 * FEWEST
    return "uint8" if few and (highs <= lows or lows <= highs) else ""


def is_wide_as_bytes(content: bytes) -> bool:
    """True if ids, read as one byte each, look as if they had two."""
    low, high = _columns(content, "<u1", 2).T
    return _is_upper(high, low)


def fractions(content: bytes) -> str:
    """The floating-point type of the numbers in a sample; empty if they are anything else."""
    for kind in ("<f8", "<f4", "<f2"):
        numbers = _columns(content, kind, 1)[:, 0]
        values = numbers[numbers != 0]
        if len(values) < max(FEWEST // 2, len(numbers) / 4) or not np.isfinite(values).all():
            continue
        size = np.abs(values.astype(np.float64))
        usual = ((size > 1e-10) & (size < 1e10)).all()
        if usual and ((size == np.round(size)).all() or kind == "<f4"):
            return kind
    return ""


def fitting_types(file: Path, vocabulary: int) -> list[str]:
    """Types with which all ids in a sample of a raw file lie inside the vocabulary."""
    content, found = sample_of(file), []
    for name in TYPES:
        kind = np.dtype(name) if name.startswith(">") else np.dtype(name).newbyteorder("<")
        ids = np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], kind)
        if len(ids) and 0 <= ids.min() < ids.max() < vocabulary:
            found.append(name)
    likely = likely_type(content)
    return [likely] if likely in found else found


def _columns(content: bytes, kind: str, width: int) -> NDArray[np.generic]:
    """A sample as rows of `width` numbers of the type `kind`."""
    size = np.dtype(kind).itemsize * width
    return np.frombuffer(content[: len(content) // size * size], kind).reshape(-1, width)


def _is_upper(high: NDArray[np.generic], low: NDArray[np.generic]) -> bool:
    """True if `high` looks like the upper part of numbers, since it has few values, and `low`
    varies."""
    if np.count_nonzero(low) < FEWEST // 2:
        return False
    return not high.any() or 8 * len(np.unique(high)) <= len(np.unique(low))


def _entropy(values: NDArray[np.generic]) -> float:
    """Entropy of the values, in bits."""
    share = np.bincount(values.astype(np.int64)) / len(values)
    return float(-(share[share > 0] * np.log2(share[share > 0])).sum())


def _unpacks(head: bytes) -> bool:
    """True if bytes are the first ones of a gzipped file."""
    try:
        zlib.decompressobj(31).decompress(head)
    except zlib.error:
        return False
    return True


def _is_text(content: bytes) -> bool:
    """True if a sample is UTF-8 without control characters; its pieces may cut characters."""
    if len(content) < 2 * FEWEST or any(
        byte in content for byte in (*range(9), *range(14, 27), 127)
    ):
        return False
    text = content.decode("utf-8", "replace")
    return text.count("\ufffd") <= len(text) // 1000
