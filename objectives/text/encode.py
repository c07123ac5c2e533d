"""Text to token ids, and each tokenizer as a file for other programs.

A tokenizer learns from the training split alone.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.text.corpus import Corpus, read_corpus
from fathom.objectives.text.tokenizer import BPE, BYTE_IDS, BYTES, CHARS, bpe_ids, characters

Ids = NDArray[Any]
"""Token ids in the smallest type that torch can index everywhere: uint8, int16 or int32."""

UNKNOWN = "<unknown>"
"""Name of the id that stands for every character that the training split lacks."""
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
    to_ids: Callable[[bytes], Ids]
    if tokenizer == BYTES:
        vocab_size, to_ids = BYTE_IDS, partial(np.frombuffer, dtype=np.uint8)
    elif tokenizer == CHARS:
        vocab_size, to_ids = _chars(corpus.train)
    else:
        vocab_size = bpe_ids(tokenizer)
        to_ids = partial(_pairs, learned_bpe(pieces_of(corpus.train), vocab_size))
    return Encoding(
        train=to_ids(corpus.train), validation=to_ids(corpus.validation), vocab_size=vocab_size
    )


def id_type(vocab_size: int) -> type[np.uint8 | np.int16 | np.int32]:
    """Smallest type for ids below `vocab_size`: unsigned for one byte, signed above, as torch can
    index by these."""
    if vocab_size <= 1 << 8:
        return np.uint8
    return np.int16 if vocab_size <= 1 << 15 else np.int32


def _chars(train: bytes) -> tuple[int, Callable[[bytes], Ids]]:
    known = characters(train)
    unknown = len(known)
    id_of_code = np.full(CODE_POINTS, unknown, dtype=id_type(unknown + 1))
    id_of_code[[ord(character) for character in known]] = np.arange(unknown)

    def to_ids(text: bytes) -> Ids:
        ids: Ids = id_of_code[np.frombuffer(text.decode().encode("utf-32-le"), dtype="<u4")]
        return ids

    return unknown + 1, to_ids


def _pairs(bpe: Tokenizer, text: bytes) -> Ids:
    pieces = pieces_of(text)
    batches = iter(lambda: list(itertools.islice(pieces, PIECES_AT_ONCE)), [])
    dtype = id_type(bpe.get_vocab_size())
    encoded = (bpe.encode_batch_fast(batch) for batch in batches)
    return np.concatenate([np.array(piece.ids, dtype) for batch in encoded for piece in batch])


def learned_bpe(
    pieces: Iterator[str], vocab_size: int, special: Sequence[str] = (), *,
    source: str = "training split", more: str = "a larger corpus",
) -> Tokenizer:  # fmt: skip
    """A byte-level BPE tokenizer learned on the pieces, with exactly `vocab_size` ids, special
    tokens included; `source` and `more` are words of the error's message.

    Raises:
        ObjectiveError: when the pieces support fewer ids.
    """
    bpe = train_bpe(pieces, vocab_size, special)
    learned = bpe.get_vocab_size()
    if learned != vocab_size:
        raise ObjectiveError(
            f"{BPE}:N must have no more ids than the {source} supports, got {BPE}:{vocab_size} "
            f"where it supports {learned}; use {BPE}:{learned} or {more}"
        )
    return bpe


def train_bpe(pieces: Iterator[str], vocab_size: int, special: Sequence[str] = ()) -> Tokenizer:
    """A byte-level BPE tokenizer learned on the pieces, with at most `vocab_size` ids, special
    tokens included."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
        special_tokens=list(special),
    )
    bpe.train_from_iterator(pieces, trainer)
    return bpe


def pieces_of(text: bytes) -> Iterator[str]:
    """Pieces of whole lines, each of at least `PIECE_BYTES` except the last."""
    begin = 0
    while begin < len(text):
        newline = text.find(b"\n", begin + PIECE_BYTES - 1)
        end = newline + 1 if newline >= 0 else len(text)
        yield text[begin:end].decode()
        begin = end


def tokenizer_file(*, corpus: str, tokenizer: str, validation_fraction: float) -> str:
    """The JSON that `Tokenizer.from_str` takes; `chars` and `bpe:N` are learned on the corpus."""
    if tokenizer == BYTES:
        return bytes_tokenizer().to_str(pretty=True)
    train = read_corpus(corpus, validation_fraction=validation_fraction).train
    if tokenizer == CHARS:
        return _of_characters(characters(train)).to_str(pretty=True)
    return learned_bpe(pieces_of(train), bpe_ids(tokenizer)).to_str(pretty=True)


def bytes_tokenizer() -> Tokenizer:
    """Tokenizer of bytes: it knows no characters, so each falls back to its bytes."""
    ids = {f"<0x{byte:02X}>": byte for byte in range(BYTE_IDS)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _of_characters(known: str) -> Tokenizer:
    ids = {character: index for index, character in enumerate(known)} | {UNKNOWN: len(known)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer
