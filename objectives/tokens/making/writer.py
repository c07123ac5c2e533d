"""Writes shards, and a note of the progress from which an interrupted writing continues."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import Field, ValidationError

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.durable import put_in_place
from fathom.objectives.keys import Group
from fathom.objectives.tokens.making.cut import CutBlock
from fathom.objectives.tokens.shards import SPLITS, Index, Shard, Split, write_index

PROGRESS = "progress.json"
SHARD_TOKENS = 100_000_000


NOTHING = Split(tokens=0, documents=0, bytes=0, shards=())


class WritingProgress(Group):
    """The progress of both splits, as a file keeps it."""

    made_of: str
    """Digest of the source and of all settings."""
    blocks: int = 0
    """Blocks of the source whose tokens are written."""
    last: str = ""
    """Split of the last piece of text."""
    splits: Mapping[str, Split] = Field(default_factory=dict)
    """The written part of each split; its shards are only those that are whole."""


class ShardWriter:
    """Writes shards of both splits into a folder."""

    def __init__(self, folder: Path, made_of: str, dtype: str, end: int | None) -> None:
        """Continues from the last note of an earlier writer of the same tokens.

        Raises:
            ObjectiveError: when the folder holds tokens made of something else.
        """
        self._folder, self._dtype = folder, np.dtype(dtype)
        self._end = np.array([] if end is None else [end], self._dtype)
        self.progress = read_progress(folder, made_of)
        self._open: dict[str, BinaryIO] = {}
        for name, split in self.progress.splits.items():
            self._cut_back(name, split)

    def add(self, block: CutBlock, *, continues: bool) -> None:
        """Writes the ids of a block; `continues` is True if its first text began in the block
        before."""
        splits = dict(self.progress.splits)
        for name, added in block.splits.items():
            before = splits.get(name, NOTHING)
            follows = continues and block.first == name == self.progress.last
            ids = added.ids
            if before.tokens and not follows:
                ids = np.concatenate((self._end, ids))
            splits[name] = self._written(name, before, ids).model_copy(
                update={
                    "documents": before.documents + added.documents,
                    "bytes": before.bytes + added.bytes,
                }
            )
        changes = {"splits": splits, "last": block.last, "blocks": self.progress.blocks + 1}
        self.progress = self.progress.model_copy(update=changes)

    def note(self) -> None:
        """Writes the progress to its file, once the tokens are on the disk."""
        for file in self._open.values():
            file.flush()
            os.fsync(file.fileno())
        part = self._folder / f"{PROGRESS}.tmp"
        part.write_text(self.progress.model_dump_json(), encoding="utf-8")
        put_in_place(part, self._folder / PROGRESS)

    def finish(self, vocabulary: int, end: int | None) -> Index:
        """Closes the last shards and writes the index; returns it. The folder is then complete."""
        splits = {
            name: self._closed(name, split) if split.open_tokens else split
            for name in SPLITS
            if (split := self.progress.splits.get(name, NOTHING)).tokens
        }
        index = Index(
            format="fathom-tokens-1",
            made_of=self.progress.made_of,
            dtype=self._dtype.name,
            vocabulary=vocabulary,
            end=end,
            splits=splits,
        )
        write_index(self._folder, index)
        (self._folder / PROGRESS).unlink(missing_ok=True)
        return index

    def close(self) -> None:
        """Closes the files."""
        for file in self._open.values():
            file.close()

    def _written(self, name: str, split: Split, ids: Any) -> Split:
        while len(ids):
            room = SHARD_TOKENS - split.open_tokens
            self._file(name, split).write(ids[:room].tobytes())
            split = split.model_copy(update={"tokens": split.tokens + min(room, len(ids))})
            if len(ids) >= room:
                split = self._closed(name, split)
            ids = ids[room:]
        return split

    def _file(self, name: str, split: Split) -> BinaryIO:
        if name not in self._open:
            path = self._folder / _name(name, len(split.shards))
            self._open[name] = path.open("ab" if split.open_tokens else "wb")
        return self._open[name]

    def _closed(self, name: str, split: Split) -> Split:
        """The split after its open shard is closed."""
        file = self._folder / _name(name, len(split.shards))
        if opened := self._open.pop(name, None):
            opened.flush()
            os.fsync(opened.fileno())
            opened.close()
        shard = Shard(file=file.name, tokens=split.open_tokens, sha256=_sha256(file))
        return split.model_copy(update={"shards": (*split.shards, shard)})

    def _cut_back(self, name: str, split: Split) -> None:
        """Removes what was written after the last note."""
        file, length = self._folder / _name(name, len(split.shards)), split.open_tokens
        length *= self._dtype.itemsize
        if (file.stat().st_size if file.exists() else 0) < length:
            raise ObjectiveError(
                f"{file} must have {length} bytes, as {PROGRESS} says; remove {self._folder} and "
                "tokenize again"
            )
        if file.exists():
            os.truncate(file, length)


def read_progress(folder: Path, made_of: str) -> WritingProgress:
    """The progress that an earlier writing left; refuses progress on tokens made of something
    else."""
    path = folder / PROGRESS
    if not path.exists():
        return WritingProgress(made_of=made_of)
    try:
        found = WritingProgress.model_validate(json.loads(path.read_bytes()))
    except (ValueError, ValidationError) as error:
        raise ObjectiveError(f"{path} is damaged; remove {folder} and tokenize again") from error
    if found.made_of != made_of:
        raise another(folder)
    return found


def another(folder: Path) -> ObjectiveError:
    """The error that a folder holds tokens of another source or tokenizer."""
    return ObjectiveError(
        f"--out must be a new folder or one of the same source and settings, got {folder}, which "
        "holds other tokens (or the source has changed); name another, or remove it"
    )


def _name(split: str, number: int) -> str:
    return f"{split}-{number:05d}.bin"


def _sha256(file: Path) -> str:
    with file.open("rb", buffering=0) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
