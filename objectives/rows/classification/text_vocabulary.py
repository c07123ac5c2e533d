"""Texts as token ids: words or bytes; needs neither torch nor numpy.

Ids: padding, words that training never saw, the words or bytes, then the classes.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.classification import listops
from fathom.objectives.rows.classification.labelled_texts import (
    GENERATED,
    Text,
    TextSplits,
    classes_of,
    read_texts,
)
from fathom.objectives.rows.word_ids import most_frequent, word_ids
from fathom.objectives.token_ids import PAD

BYTES = "bytes"
LISTOPS = "listops"
UNSEEN = PAD + 1
TOKENS_FROM = PAD + 2
BYTE_VALUES = 256

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextVocabulary:
    """Words and classes of the training texts, with their token ids."""

    tokenizer: str
    words: Mapping[str, int]
    """Word -> token id; empty for bytes."""
    classes: tuple[str, ...]

    @property
    def first_class(self) -> int:
        """Id of the first class."""
        return TOKENS_FROM + (BYTE_VALUES if self.tokenizer == BYTES else len(self.words))

    @property
    def size(self) -> int:
        """Number of ids."""
        return self.first_class + len(self.classes)

    def ids(self, text: str) -> list[int]:
        """Token ids of a text."""
        if self.tokenizer == BYTES:
            return [TOKENS_FROM + byte for byte in text.encode()]
        return [self.words.get(word, UNSEEN) for word in _words(text, self.tokenizer)]

    def length(self, text: str) -> int:
        """Number of tokens of a text."""
        return len(text.encode() if self.tokenizer == BYTES else _words(text, self.tokenizer))


def read_with_vocabulary(
    *, tokenizer: str, cut: bool, listops: Mapping[str, Any], context: int, **places: Any
) -> tuple[TextSplits, TextVocabulary]:
    """The texts of a study and their vocabulary; `places` go to `read_texts`.

    Raises:
        ValueError: when they can't be read, or one exceeds the context and is not to be cut.
    """
    splits = read_texts(rules=listops, context=context, **places)
    vocabulary = _vocabulary(splits, tokenizer, generated=places["data"] == GENERATED)
    _check_lengths(splits, vocabulary, context, cut=cut)
    return splits, vocabulary


def _vocabulary(splits: TextSplits, tokenizer: str, *, generated: bool) -> TextVocabulary:
    kind, _, most = tokenizer.partition(":")
    words: Iterable[str] = ()
    if generated and kind != BYTES and not most:
        words = listops.WORDS
    elif kind != BYTES:
        every = (word for text in splits["train"] for word in _words(text.text, kind))
        words = most_frequent(every, int(most) if most else None)
    ids = word_ids(sorted(words), TOKENS_FROM)
    return TextVocabulary(tokenizer=kind, words=ids, classes=classes_of(splits))


def _words(text: str, tokenizer: str) -> list[str]:
    return (listops.without_parentheses(text) if tokenizer == LISTOPS else text).split()


def _check_lengths(
    splits: TextSplits, vocabulary: TextVocabulary, context: int, *, cut: bool
) -> None:
    """Refuses empty texts, and texts longer than the context unless they are to be cut."""
    every = [text for own in splits.values() for text in own]
    lengths = [vocabulary.length(text.text) for text in every]
    at = max(range(len(every)), key=lengths.__getitem__)
    if min(lengths) == 0:
        empty: Text = every[lengths.index(0)]
        raise ObjectiveError(f"{empty.origin} must have at least one token, got none; drop it")
    if lengths[at] > context and not cut:
        raise ObjectiveError(
            f"`context` must hold every text, but {every[at].origin} has {lengths[at]} tokens, got "
            f"context={context}; use {lengths[at]} or more, or `cut: true` to keep the beginnings"
        )
    longer = sum(length > context for length in lengths)
    if longer:
        logger.warning("cut %d of %d texts to %d tokens", longer, len(every), context)
