"""Text to token ids. Whatever a tokenizer learns, it learns from the training split alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.text.corpus import Corpus
from fathom.objectives.text.tokenizer import (
    BPE,
    BYTE_IDS,
    BYTES,
    CHARS,
    bpe_ids,
    characters,
    check_tokenizer,
)

Ids = NDArray[Any]
"""Token ids in the smallest type that torch can index everywhere: uint8, int16 or int32."""

PIECE_BYTES = 1 << 16
"""Least bytes of a piece; long texts are encoded in pieces, in parallel and bounded memory."""
PIECES_AT_ONCE = 64
CODE_POINTS = 0x110000


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Token ids of both splits."""

    train: Ids
    validation: Ids
    vocab_size: int


def encode(corpus: Corpus, *, tokenizer: str) -> Encoding:
    """Both splits encoded, each on its own, so that no token spans the two."""
    check_tokenizer(tokenizer)
    vocab_size, to_ids = ENCODERS[tokenizer.partition(":")[0]](corpus.train, tokenizer)
    return Encoding(
        train=to_ids(corpus.train), validation=to_ids(corpus.validation), vocab_size=vocab_size
    )


def id_type(vocab_size: int) -> type[np.uint8 | np.int16 | np.int32]:
    """Smallest type for ids below `vocab_size`; signed above a byte, as torch indexes those."""
    if vocab_size <= 1 << 8:
        return np.uint8
    return np.int16 if vocab_size <= 1 << 15 else np.int32


def _bytes(_train: bytes, _tokenizer: str) -> tuple[int, Callable[[bytes], Ids]]:
    return BYTE_IDS, lambda text: np.frombuffer(text, dtype=np.uint8)


def _chars(train: bytes, _tokenizer: str) -> tuple[int, Callable[[bytes], Ids]]:
    known = characters(train)
    unknown = len(known)
    id_of_code = np.full(CODE_POINTS, unknown, dtype=id_type(unknown + 1))
    id_of_code[[ord(character) for character in known]] = np.arange(unknown)

    def to_ids(text: bytes) -> Ids:
        ids: Ids = id_of_code[np.frombuffer(text.decode().encode("utf-32-le"), dtype="<u4")]
        return ids

    return unknown + 1, to_ids


def _bpe(train: bytes, tokenizer: str) -> tuple[int, Callable[[bytes], Ids]]:
    vocab_size = bpe_ids(tokenizer)
    bpe = learned_bpe(train, vocab_size)

    def to_ids(text: bytes) -> Ids:
        batches = [
            np.concatenate([encoded.ids for encoded in bpe.encode_batch_fast(pieces)])
            for pieces in _batches(_pieces(text))
        ]
        return np.concatenate(batches).astype(id_type(vocab_size))

    return vocab_size, to_ids


def learned_bpe(train: bytes, vocab_size: int) -> Tokenizer:
    """Byte-level pairs of the training split.

    Raises:
        ObjectiveError: when it supports fewer ids.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    bpe.train_from_iterator(_pieces(train), trainer)
    learned = bpe.get_vocab_size()
    if learned != vocab_size:
        raise ObjectiveError(
            f"{BPE}:N must have no more ids than the training split supports, "
            f"got {BPE}:{vocab_size} where it supports {learned}; "
            f"use {BPE}:{learned} or a larger corpus"
        )
    return bpe


def _pieces(text: bytes) -> Iterator[str]:
    """Pieces of whole lines, each of at least `PIECE_BYTES` but the last."""
    begin = 0
    while begin < len(text):
        newline = text.find(b"\n", begin + PIECE_BYTES - 1)
        end = newline + 1 if newline >= 0 else len(text)
        yield text[begin:end].decode()
        begin = end


def _batches(pieces: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for piece in pieces:
        batch.append(piece)
        if len(batch) == PIECES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


ENCODERS: dict[str, Callable[[bytes, str], tuple[int, Callable[[bytes], Ids]]]] = {
    BYTES: _bytes,
    CHARS: _chars,
    BPE: _bpe,
}
