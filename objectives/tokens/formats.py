"""Files of token ids by their form: raw ids, llm.c's and NumPy's; other forms have modules of their
own."""

import glob
import importlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import matches, open_regular
from fathom.objectives.held_out.names import by_split, entries_of, named_apart, split_of
from fathom.objectives.tokens.doubts import (
    TypeDoubtError,
    likely_type,
    refuse_form,
    sample_of,
    shown,
)
from fathom.objectives.tokens.raw import raw_segment
from fathom.objectives.tokens.shards import (
    INDEX,
    SPLITS,
    TRAIN,
    is_shard_folder,
    read_index,
    segments_of,
)
from fathom.objectives.tokens.stream import Segment

NUMPY_HEAD = b"\x93NUMPY"
RAW, NUMPY, ARROW, PARQUET = ".bin", ".npy", ".arrow", ".parquet"
SUFFIXES = (RAW, NUMPY, ARROW, PARQUET)
PACKED, MEGATRON = (".gz", ".zst", ".xz", ".bz2"), ".idx"
COMPANIONS = (MEGATRON, ".json", ".pkl", ".md", ".model")
"""Suffixes of files that other programs write beside token ids."""
STATE, DATASETS = "state.json", "dataset_dict.json"
"""Files of a folder that `datasets` has written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenData:
    """Token ids of a split as they lie in files, and what their files say about them."""

    segments: tuple[Segment, ...]
    vocabulary: int | None = None
    """Number of token ids; None if the files do not say."""
    bytes: int | None = None
    """Bytes of the text that became these ids; None if the files do not say."""
    hashes: tuple[str, ...] | None = None
    """Hashes of Fathom's own shards."""

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return sum(segment.tokens for segment in self.segments)


def find_tokens(place: str, split: str, *, column: str | None, dtype: str | None) -> TokenData:
    """The token ids of a file, a folder or a glob pattern; of a folder with several splits, those
    of `split`.

    Raises:
        ObjectiveError: when there are none, or a file is damaged.
    """
    path = Path(os.path.expanduser(place)).absolute()
    if path.is_dir() and is_shard_folder(path):
        return _own(path, split)
    files = _files(place, path, split)
    try:
        segments = [part for file in files for part in _segments(file, column, dtype)]
    except TypeDoubtError as doubt:
        _refuse_mixture(files, doubt)
        raise
    found = tuple(segment for segment in segments if segment.tokens)
    if not found:
        raise ObjectiveError(f"{place} must hold token ids, got none; name other files")
    return TokenData(segments=found)


def _refuse_mixture(files: Sequence[Path], doubt: TypeDoubtError) -> None:
    """Refuses raw files of several types, which no `dtype` reads."""
    raw = (file for file in files if file.suffix in (RAW, NUMPY) and not _begins(file, NUMPY_HEAD))
    other = next((f for f in raw if (likely_type(sample_of(f)) or "uint16") != doubt.dtype), None)
    if other is not None:
        new = str(doubt.file.with_suffix(".ids.npy"))
        raise ObjectiveError(
            f"raw files must have ids of one type, got {doubt.file}, whose ids look like "
            f"{doubt.dtype}, and {other} of another type; "
            f'save {doubt.file} as .npy, python -c "import numpy as np; '
            f'np.save({new!r}, np.fromfile({str(doubt.file)!r}, {doubt.dtype!r}))", and leave '
            "the raw file out"
        )


def _own(folder: Path, name: str) -> TokenData:
    index = read_index(folder)
    known = [split for split in SPLITS if split in index.splits]
    split = index.splits.get(name) or index.splits.get(TRAIN)
    if split is None:
        raise ObjectiveError(f"{folder} must have the split {name}, got {', '.join(known)}")
    return TokenData(
        segments=segments_of(folder, index, split),
        vocabulary=index.vocabulary,
        bytes=split.bytes,
        hashes=tuple(shard.sha256 for shard in split.shards),
    )


def passed_over(place: str) -> list[str]:
    """Files of a folder that look like token ids and are not read, each with the reason."""
    folder = Path(os.path.expanduser(place))
    if not folder.is_dir() or any((folder / name).is_file() for name in (INDEX, STATE, DATASETS)):
        return []
    return [f"{entry} {reason}" for entry in entries_of(folder) if (reason := _unread(entry))]


def _unread(entry: Path) -> str:
    """The reason why an entry of a folder is not read; empty if it is read, or holds no ids."""
    if entry.is_dir():
        return "is a folder" if any(file.suffix in SUFFIXES for file in entry.iterdir()) else ""
    inner = Path(entry.stem).suffix if entry.suffix in PACKED else entry.suffix
    if entry.suffix not in SUFFIXES and inner.lower() in SUFFIXES:
        return "is packed" if inner != entry.suffix else f"does not end in {inner.lower()}"
    if entry.suffix == MEGATRON and not entry.with_suffix(RAW).exists():
        return f"has no {RAW} beside it"
    return "is empty" if entry.suffix in SUFFIXES and not entry.stat().st_size else ""


def has_split(place: str, split: str) -> bool:
    """True if a folder has held-out data of its own: Fathom's shards, a folder of several splits
    that `datasets` wrote, or files whose names say which are held out."""
    folder = Path(os.path.expanduser(place))
    if not folder.is_dir():
        return False
    if is_shard_folder(folder):
        found = read_index(folder).splits.get(split)
        return found is not None and found.tokens > 0
    if (folder / DATASETS).is_file():
        return (folder / split / STATE).is_file()
    return any(split_of(file.name) == split for file in _known(folder.iterdir()))


def is_token_place(place: str) -> bool:
    """True if a place looks as if it held token ids: a folder of shards or of `datasets`; a file or
    a pattern with a known suffix; a folder whose files all have one, apart from the companions that
    programs write, or that has such files for both splits."""
    path = Path(os.path.expanduser(place))
    if not path.is_dir():
        return path.suffix in SUFFIXES
    if is_shard_folder(path) or (path / STATE).is_file() or (path / DATASETS).is_file():
        return True
    if named_apart(_known(path.iterdir())):
        return True
    names = {file.suffix for file in path.iterdir() if not file.name.startswith(".")}
    return bool(names & {*SUFFIXES}) and names <= {*SUFFIXES, *COMPANIONS}


def _files(place: str, path: Path, split: str) -> list[Path]:
    """The files that a place names, in their order."""
    if path.is_dir():
        if (path / DATASETS).is_file() and (path / split).is_dir():
            path = path / split
        if (path / STATE).is_file():
            return list[Path](_arrow().files_of(path))
        found = _of_split(path, split)
    elif path.exists():
        found = [path]
    elif glob.has_magic(place):
        found = _known(matches(str(path)))
    else:
        raise ObjectiveError(
            f"token ids must lie in a file, a folder or a glob, got {place!r}; check the path"
        )
    if not found:
        raise ObjectiveError(
            f"{place} must hold files of token ids ({', '.join(SUFFIXES)}), got none; text becomes "
            "tokens with `fathom tokenize`"
        )
    return found


def _of_split(folder: Path, split: str) -> list[Path]:
    """Returns the files of token ids in a folder that belong to a split: for training, all files
    that are not named as held out or for a test; for another split, the files named so, or all if
    none is."""
    files = _known(folder.iterdir())
    named = by_split(files)
    if split != TRAIN:
        return named.get(split, files)
    found = [file for file in files if split_of(file.name) in (TRAIN, None)]
    if files and not found:
        raise ObjectiveError(
            f"`train` must have files to train on, got {folder} with none but "
            f"{', '.join(file.name for file in files[:3])}, which are held out by their names; "
            "name the files themselves if they are to be trained on, or another folder"
        )
    return found


def _known(files: Iterable[Path]) -> list[Path]:
    return sorted(
        file
        for file in files
        if file.suffix in SUFFIXES and file.is_file() and not file.name.startswith(".")
    )


def _segments(file: Path, column: str | None, dtype: str | None) -> list[Segment]:
    try:
        if file.suffix in (RAW, NUMPY) and _begins(file, NUMPY_HEAD):
            return [_numpy(file)]
        if file.suffix == ARROW:
            return list[Segment](_arrow().segments_of(file, column))
        if file.suffix == PARQUET:
            raise ObjectiveError(
                f"ids must be readable in place, which parquet is not, got {file}; turn them into "
                f"shards: {_arrow().parquet_command(file, column)}"
            )
        if file.suffix == NUMPY and dtype is None:
            kind = likely_type(sample_of(file)) or "uint16"
            raise TypeDoubtError(
                f"{file} must be a .npy file, but has no .npy header; raw ids, such as OLMo "
                f"writes, are read with a `dtype`, here most likely `dtype: {shown(kind)}`",
                file,
                kind,
            )
        if file.suffix != RAW and dtype is None:
            refuse_form(file, dtype)
            raise ObjectiveError(
                f"files of token ids must end in {', '.join(SUFFIXES)}, got {file}; text becomes "
                "tokens with `fathom tokenize`, and raw ids are read with their `dtype`"
            )
        return [raw_segment(file, dtype)]
    except OSError as error:
        raise ObjectiveError(f"{file} must be readable, got {error.strerror or error}") from error


def _begins(file: Path, first: bytes) -> bool:
    with open_regular(file) as opened:
        return opened.read(len(first)) == first


def _numpy(file: Path) -> Segment:
    """An array of ids, of one dimension, or of several in the order of its rows."""
    with open_regular(file) as opened:
        try:
            version = np.lib.format.read_magic(opened)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else (np.lib.format.read_array_header_2_0)
            )
            shape, fortran, dtype = read(opened)
        except Exception as error:  # of NumPy, of Python's parser, of its tokenizer
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ObjectiveError(
                f"{file} must be a .npy file, got {reason}; write it again"
            ) from error
        offset = opened.tell()
    if dtype.kind not in "iu" or (fortran and len(shape) > 1):
        raise ObjectiveError(
            f"{file} must be an array of whole numbers, stored row by row, got "
            f"{dtype}{', stored column by column' if fortran else ''}; save it as uint16 or uint32"
        )
    found = Segment(str(file), offset, prod(shape), dtype.str)
    size = file.stat().st_size
    if size != found.end:
        raise ObjectiveError(
            f"{file} must have {found.end} bytes for the {found.tokens:,} ids of its header, got "
            f"{size}; it was cut short: copy it again"
        )
    return found


def _arrow() -> Any:
    """The module for Arrow's files, which takes a while to import."""
    return importlib.import_module("fathom.objectives.tokens.arrow")
