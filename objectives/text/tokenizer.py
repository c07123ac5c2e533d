"""Tokenizers by name and the number of ids of each; `encode.py` applies them.

`bytes`    the 256 byte values.
`chars`    the characters of the training split, and one id for every other character.
`bpe:N`    byte-level byte-pair encoding with exactly N ids, learned on the training split.
"""

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.text.corpus import check_corpus, read_corpus

BYTES = "bytes"
CHARS = "chars"
BPE = "bpe"
BYTE_IDS = 256


def count_ids(*, corpus: str, tokenizer: str, validation_fraction: float) -> int:
    """Number of ids; reads the corpus only for `chars`, but says at once when it is missing."""
    check_corpus(corpus)
    if tokenizer == BYTES:
        return BYTE_IDS
    if tokenizer == CHARS:
        train = read_corpus(corpus, validation_fraction=validation_fraction).train
        return len(characters(train)) + 1
    return bpe_ids(tokenizer)


def bpe_ids(tokenizer: str) -> int:
    """The N of a `tokenizer` named `bpe:N`; raises `ObjectiveError` for any other name."""
    kind, _, size = tokenizer.partition(":")
    if kind != BPE or not (size.isascii() and size.isdigit()):
        raise ObjectiveError(
            f"tokenizer must be {BYTES}, {CHARS} or {BPE}:N, for example {BPE}:1024, "
            f"got {tokenizer!r}"
        )
    if int(size) <= BYTE_IDS:
        raise ObjectiveError(
            f"{BPE}:N must have N > {BYTE_IDS}, the bytes alone, got {tokenizer!r}; "
            f"use {BPE}:{BYTE_IDS + 1} or more, or {BYTES}"
        )
    return int(size)


def characters(text: bytes) -> str:
    """The distinct characters of a UTF-8 text, sorted."""
    return "".join(sorted(set(text.decode())))
