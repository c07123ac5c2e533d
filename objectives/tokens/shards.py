"""Fathom's own files of tokens: shards of raw ids, and an index that says what is in them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.durable import put_in_place
from fathom.objectives.files.reading import open_regular
from fathom.objectives.keys import Group
from fathom.objectives.tokens.stream import Segment

INDEX = "index.json"
TOKENIZER = "tokenizer.json"
TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)
LARGEST_INDEX = 1 << 28
"""Size in bytes above which a file can't be an index."""
OTHERS = {"litdata": {"chunks", "config"}, "MosaicML Streaming": {"version", "shards"}}
"""Keys of the index that each other program writes beside its chunks, by the program's name."""

Whole = Annotated[int, Field(ge=0)]


class Shard(Group):
    """One file of token ids."""

    file: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    tokens: Whole
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Split(Group):
    """The shards of a split, in their order."""

    tokens: Whole
    documents: Whole
    """Number of documents, or of parts of long ones."""
    bytes: Whole
    """Bytes of the text that was cut into these tokens."""
    shards: tuple[Shard, ...]

    @property
    def open_tokens(self) -> int:
        """Tokens of the shard that is still being written."""
        return self.tokens - sum(shard.tokens for shard in self.shards)


class Index(Group):
    """The index of a folder of shards."""

    format: Literal["fathom-tokens-1"]
    made_of: str = ""
    """Digest of the source and of all settings with which it was cut."""
    dtype: Literal["uint8", "uint16", "uint32"]
    vocabulary: int = Field(ge=1, lt=1 << 32)
    """Number of token ids."""
    end: Annotated[int, Field(ge=0)] | None
    """Id between two documents."""
    splits: Mapping[str, Split]

    @property
    def stored(self) -> str:
        """numpy's name of the type of an id in a shard."""
        return "|u1" if self.dtype == "uint8" else f"<u{int(self.dtype[4:]) // 8}"


def is_shard_folder(folder: Path) -> bool:
    """True for a folder that `fathom tokenize` has written."""
    return (folder / INDEX).is_file()


def refuse_others(folder: Path) -> None:
    """Refuses a folder whose index is another program's, as the headers of its chunks are no ids.

    Raises:
        ObjectiveError: with the name of the program.
    """
    found = _index(folder)
    program = next((name for name, keys in OTHERS.items() if keys <= found.keys()), "")
    if program:
        raise ObjectiveError(
            f"{folder} must hold ids alone or shards of `fathom tokenize`, but holds chunks of "
            f"{program}, which Fathom does not read; tokenize their text: fathom tokenize TEXT "
            "--tokenizer tokenizer.json --out FOLDER"
        )


def shard_type(file: Path) -> str:
    """The type of an id in a shard that `fathom tokenize` wrote; empty if the file is no such
    shard."""
    try:
        index = Index.model_validate(_index(file.parent))
    except ValidationError:
        return ""
    shards = [shard.file for split in index.splits.values() for shard in split.shards]
    return index.stored if file.name in shards else ""


def _index(folder: Path) -> dict[str, object]:
    """The index of a folder, whoever wrote it; empty if there is none."""
    try:
        with open_regular(folder / INDEX) as file:
            found = json.loads(file.read(LARGEST_INDEX))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_index(folder: Path) -> Index:
    """The index of a folder of shards.

    Raises:
        ObjectiveError: when it is damaged, or of another program.
    """
    refuse_others(folder)
    path = folder / INDEX
    try:
        with open_regular(path) as file:
            found = Index.model_validate_json(file.read(LARGEST_INDEX))
    except OSError as error:
        raise ObjectiveError(
            f"{path} must be readable, got {error.strerror}; check the path and its permissions"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise ObjectiveError(
            f"{path} must be an index that `fathom tokenize` wrote, got {first['msg'].lower()} at "
            f"{where}; restore it, or tokenize again"
        ) from error
    for name, split in found.splits.items():
        if split.open_tokens:
            raise ObjectiveError(
                f"`tokens` of split {name} in {path} must be the sum of its shards' tokens, got "
                f"{split.tokens}; copy the file again, or tokenize again"
            )
    return found


def write_index(folder: Path, index: Index) -> None:
    """Writes the index of a folder, whole or not at all; it marks the folder as complete."""
    part = folder / f"{INDEX}.tmp"
    part.write_text(json.dumps(index.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
    put_in_place(part, folder / INDEX)


def segments_of(folder: Path, index: Index, split: Split) -> tuple[Segment, ...]:
    """The places of a split's tokens.

    Raises:
        ObjectiveError: when a shard is not there or has another size.
    """
    found = tuple(
        Segment(str(folder / shard.file), 0, shard.tokens, index.stored) for shard in split.shards
    )
    for segment in found:
        path = Path(segment.path)
        size = path.stat().st_size if path.is_file() else None
        if size != segment.end:
            raise ObjectiveError(
                f"shard {path} must be a file of {segment.end} bytes, as its index says, got "
                f"{'none' if size is None else size}; restore it, or tokenize again"
            )
    return tuple(segment for segment in found if segment.tokens)
