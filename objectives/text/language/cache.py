"""A text as shards of tokens in a folder that all searches share, so that it is cut once.

An entry is named by the content of the text's files and by the keys that decide how it is cut.
"""

import hashlib
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.objectives.files.durable import put_in_place
from fathom.objectives.files.reading import digest_of
from fathom.objectives.text.corpus import Corpus, corpus_contents, files_by_name, read_corpus
from fathom.objectives.text.encode import Encoding, Ids, encode, id_type
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.tokens.shards import (
    TRAIN,
    VALIDATION,
    Index,
    Shard,
    Split,
    is_shard_folder,
    read_index,
    segments_of,
    write_index,
)
from fathom.objectives.tokens.stream import TokenFiles

VERSION = "1"
"""Version of the cutting, which changes when the same text would be cut in another way."""
IN_MEMORY = 1 << 24
"""Tokens up to which a split is read into memory, where its windows are taken fastest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutText:
    """Both splits of a text as tokens."""

    train: Ids | TokenFiles
    validation: Ids | TokenFiles
    vocab_size: int
    validation_bytes: int
    digest: str
    """Digest of both splits of the text."""


def cut_text(keys: LanguageConfig, folder: Path | None) -> CutText:
    """Returns the tokens of the text that the keys name: read from the folder if it has them,
    otherwise made and kept there."""
    if folder is None:
        return _of_memory(*_cut(keys))
    entry = folder / _entry(keys)
    if not is_shard_folder(entry):
        _keep(entry, *_cut(keys))
    index = read_index(entry)
    return CutText(
        train=_read(entry, index, TRAIN),
        validation=_read(entry, index, VALIDATION),
        vocab_size=index.vocabulary,
        validation_bytes=index.splits[VALIDATION].bytes,
        digest=index.made_of,
    )


def _cut(keys: LanguageConfig) -> tuple[Corpus, Encoding]:
    text = read_corpus(keys.corpus, validation_fraction=keys.validation_fraction)
    return text, encode(text, tokenizer=keys.tokenizer)


def _of_memory(text: Corpus, ids: Encoding) -> CutText:
    return CutText(
        train=ids.train, validation=ids.validation, vocab_size=ids.vocab_size,
        validation_bytes=len(text.validation), digest=text.digest,
    )  # fmt: skip


def _entry(keys: LanguageConfig) -> str:
    def parts() -> Iterator[str | bytes]:
        yield from (VERSION, keys.tokenizer, repr(keys.validation_fraction))
        if named := files_by_name(keys.corpus):  # its files come in the order of their splits
            yield f"{len(named.train)} files to train on, by their names"
        for blocks in corpus_contents(keys.corpus):
            found = hashlib.sha256()
            for block in blocks:
                found.update(block)
            yield found.digest()

    return digest_of(parts())


def _keep(entry: Path, text: Corpus, ids: Encoding) -> None:
    """Writes an entry, whole or not at all; another search may have written it meanwhile."""
    part = entry.with_name(f"{entry.name}.{uuid.uuid4().hex[:8]}.tmp")
    part.mkdir(parents=True)
    try:
        dtype = np.dtype(f"uint{8 * id_type(ids.vocab_size)().itemsize}")
        index = Index(
            format="fathom-tokens-1",
            made_of=text.digest,
            dtype=dtype.name,
            vocabulary=ids.vocab_size,
            end=None,
            splits={
                TRAIN: _write(part, TRAIN, ids.train.astype(dtype), text.train),
                VALIDATION: _write(part, VALIDATION, ids.validation.astype(dtype), text.validation),
            },
        )
        write_index(part, index)
        if not is_shard_folder(entry):
            put_in_place(part, entry)
    except FileExistsError:
        pass  # theirs is as good
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(folder: Path, name: str, ids: Ids, text: bytes) -> Split:
    file = folder / f"{name}-00000.bin"
    with file.open("wb") as opened:
        opened.write(ids.data)
    sha256 = hashlib.sha256(ids.data).hexdigest()
    shards = (Shard(file=file.name, tokens=len(ids), sha256=sha256),) if len(ids) else ()
    return Split(tokens=len(ids), documents=1, bytes=len(text), shards=shards)


def _read(entry: Path, index: Index, split: str) -> Ids | TokenFiles:
    """A split as an array if it is small, else as files."""
    split_index = index.splits[split]
    segments = segments_of(entry, index, split_index)
    if split_index.tokens > IN_MEMORY:
        return TokenFiles(segments, index.vocabulary)
    parts = [np.fromfile(segment.path, segment.dtype) for segment in segments]
    return np.concatenate([np.empty(0, index.stored), *parts]).astype(id_type(index.vocabulary))
