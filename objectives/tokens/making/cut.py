"""A block of text as token ids of both splits: what a worker process does."""

import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.text.encode import pieces_of
from fathom.objectives.tokens.making.sources import TextBlock
from fathom.objectives.tokens.shards import TRAIN, VALIDATION

HASH_BYTES = 8
PORTION = 1 << 18
"""Most letters of a text that a tokenizer takes at once: it takes 150 times as much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSettings:
    """Settings by which text is cut into ids."""

    tokenizer: str | None
    """The text of a tokenizer.json; None for ids that are cut already."""
    as_bytes: bool
    """True if the ids are the bytes of the text."""
    vocab_size: int
    dtype: str
    end: int | None
    """Id between two documents."""
    field: str
    """Key of the text in a JSON object."""
    validation: float
    """Fraction of the text that is held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSplit:
    """The ids of a block that go to one split."""

    ids: NDArray[Any]
    """Ids, with `end` between documents but not before the first."""
    documents: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBlock:
    """A block as token ids."""

    splits: dict[str, CutSplit]
    """Ids by split, for the splits of which the block has text."""
    first: str
    """Split of the block's first piece; empty without pieces."""
    last: str
    """Split of the block's last piece."""


def texts_of(block: TextBlock, field: str) -> Sequence[Any]:
    """The documents of a block, or the pieces of a long text.

    Raises:
        ObjectiveError: when it holds no text.
    """
    if isinstance(block.content, list):
        return block.content
    try:
        if block.kind == "text":
            if (at := block.content.find(0)) >= 0:
                raise ValueError(f"a zero byte at offset {block.place + at}")
            return list(pieces_of(block.content))
        return list(_json_texts(block.content, field))
    except ValueError as error:
        form = "UTF-8 text" if block.kind == "text" else f"a JSON object with `{field}` per line"
        raise ObjectiveError(
            f"{block.path} must be {form}, got {str(error).splitlines()[0]} (after byte "
            f"{block.place:,}); convert it, leave it out, or name another --field"
        ) from error


def _json_texts(lines: bytes, field: str) -> Iterator[str]:
    for line in lines.splitlines():
        if not line.strip():
            continue
        found = json.loads(line)
        if not isinstance(found, dict) or not isinstance(found.get(field), str):
            keys = ", ".join(map(str, found))[:200] if isinstance(found, dict) else "no object"
            raise ValueError(keys or "an empty object")
        text = found[field]
        # Half a character, which JSON can write and no tokenizer reads.
        yield text if text.isascii() else text.encode("utf-8", "replace").decode()


def portions(text: str) -> Iterator[str]:
    """The parts of a long text, each of at most `PORTION` letters and ending before a blank or line
    end if it has one.

    >>> [*map(len, portions("word " * 100_000))]
    [262139, 237861]
    """
    begin = 0
    while begin < len(text):
        end = begin + PORTION
        if end < len(text):
            blank = max(text.rfind(" ", begin + 1, end), text.rfind("\n", begin + 1, end))
            end = blank if blank > 0 else end
        yield text[begin:end]
        begin = end


def split_of(text: bytes, validation: float) -> str:
    """The split of a document, or of a piece of a long one; its content alone decides it."""
    drawn = int.from_bytes(hashlib.blake2b(text, digest_size=HASH_BYTES).digest())
    return VALIDATION if drawn < validation * 2 ** (8 * HASH_BYTES) else TRAIN


class Cutter:
    """Cuts blocks into tokens."""

    def __init__(self, settings: CutSettings) -> None:
        self._settings = settings
        if settings.tokenizer is not None:
            self._tokenizer = Tokenizer.from_str(settings.tokenizer)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()

    def cut(self, block: TextBlock) -> CutBlock:
        """The ids of a block.

        Raises:
            ObjectiveError: when it holds no text, or no ids.
        """
        texts = texts_of(block, self._settings.field)
        contents = [self._content(text, block) for text in texts]
        splits = [split_of(content, self._settings.validation) for content in contents]
        ids = self._ids(texts, contents, block)
        found = {}
        for name in dict.fromkeys(splits):
            places = [at for at, split in enumerate(splits) if split == name]
            found[name] = CutSplit(
                ids=self._joined(block, [ids[at] for at in places], places),
                documents=len(places),
                bytes=sum(len(contents[at]) for at in places),
            )
        first, last = (splits[0], splits[-1]) if splits else ("", "")
        return CutBlock(splits=found, first=first, last=last)

    def _content(self, text: Any, block: TextBlock) -> bytes:
        """The bytes of a document, whose hash decides its split."""
        if self._settings.tokenizer is not None and isinstance(text, str):
            return text.encode()
        if self._settings.tokenizer is None and isinstance(text, list):
            with suppress(ValueError, TypeError, OverflowError):  # what is no id
                return np.array(text, np.int64).tobytes()
        wanted = "text" if self._settings.tokenizer is not None else "lists of token ids"
        raise ObjectiveError(
            f"{block.path} must have {wanted} in its column {self._settings.field}, got "
            f"{type(text).__name__}; name another --field"
        )

    def _ids(
        self, texts: Sequence[Any], contents: Sequence[bytes], block: TextBlock
    ) -> list[NDArray[Any]]:
        """The ids of each document or piece."""
        dtype = np.dtype(self._settings.dtype)
        if self._settings.as_bytes:
            return [np.frombuffer(content, np.uint8).astype(dtype) for content in contents]
        if self._settings.tokenizer is not None:
            short = iter(self._encoded([text for text in texts if len(text) <= PORTION], block))
            return [
                next(short)
                if len(text) <= PORTION
                else np.concatenate([self._encoded([part], block)[0] for part in portions(text)])
                for text in texts
            ]
        ids = [np.frombuffer(content, np.int64) for content in contents]
        for document_ids in ids:
            wrong = document_ids[(document_ids < 0) | (document_ids >= self._settings.vocab_size)]
            if len(wrong):
                raise ObjectiveError(
                    f"token ids must be below --vocabulary, {self._settings.vocab_size}, and not "
                    f"negative, got {wrong[0]} in {block.path}; correct --vocabulary or the ids"
                )
        return [document_ids.astype(dtype) for document_ids in ids]

    def _encoded(self, texts: Sequence[str], block: TextBlock) -> list[NDArray[Any]]:
        """The ids of each text."""
        try:
            encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except Exception as error:  # such as an unknown token that its vocabulary lacks
            raise ObjectiveError(
                f"--tokenizer must cut {block.path}, got {str(error).splitlines()[0]}; name another"
            ) from error
        return [np.array(encoding.ids, self._settings.dtype) for encoding in encoded]

    def _joined(self, block: TextBlock, ids: list[NDArray[Any]], places: list[int]) -> NDArray[Any]:
        """The ids of a split in one array, with `end` between documents but not between
        neighbouring pieces of one text; `places` are the indices of `ids` in the block."""
        end = self._settings.end
        between = np.array([] if end is None else [end], self._settings.dtype)
        parts: list[NDArray[Any]] = []
        for at, (document_ids, place) in enumerate(zip(ids, places, strict=True)):
            follows = block.kind == "text" and at > 0 and places[at - 1] == place - 1
            if at > 0 and not follows:
                parts.append(between)
            parts.append(document_ids)
        return np.concatenate(parts)


_cutter: list[Cutter] = []
"""The cutter of this worker process."""


def start_worker(settings: CutSettings, threads: int) -> None:
    """Prepares a worker process, which ends with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this one
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    _cutter.append(Cutter(settings))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def cut_block(block: TextBlock) -> CutBlock:
    """The ids of a block, in a worker process."""
    return _cutter[0].cut(block)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
