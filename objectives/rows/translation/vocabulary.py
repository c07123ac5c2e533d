"""Token ids of sentences, by tokenizers that are learned on the training pairs; needs no torch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from tokenizers import Tokenizer, models, pre_tokenizers

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.translation.keys import TOKENS_FROM, WORDS
from fathom.objectives.rows.translation.pair_files import SentencePair
from fathom.objectives.text.encode import UNKNOWN, train_bpe
from fathom.objectives.text.tokenizer import BPE
from fathom.objectives.token_ids import PAD

START, END = PAD + 1, PAD + 2


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTokens:
    """The tokenizer of one side, or of both."""

    tokenizer: Tokenizer

    @property
    def size(self) -> int:
        """Number of token ids, those of padding, start and end included."""
        return TOKENS_FROM + int(self.tokenizer.get_vocab_size())

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The token ids of each text, with the end."""
        encoded = self.tokenizer.encode_batch_fast([_with_blank(text) for text in texts])
        return [[*(TOKENS_FROM + token for token in sentence.ids), END] for sentence in encoded]

    def text(self, ids: Sequence[int]) -> str:
        """The text of token ids, on one line; special ids have no text."""
        kept = [token - TOKENS_FROM for token in ids if token >= TOKENS_FROM]
        return " ".join(self.tokenizer.decode(kept).split())


@dataclass(frozen=True, slots=True, eq=False)
class PairTokens:
    """The tokenizers of both sides, one for both if the vocabulary is joint."""

    source: SentenceTokens
    target: SentenceTokens

    @classmethod
    def learned(cls, train: Sequence[SentencePair], tokenizer: str, *, joint: bool) -> Self:
        """The tokenizers of the training pairs; raises `ObjectiveError` if they support too few
        ids."""
        sources, targets = [pair.source for pair in train], [pair.target for pair in train]
        if joint:
            both = _learned([*sources, *targets], tokenizer, "both sides")
            return cls(both, both)
        return cls(
            _learned(sources, tokenizer, "the sources"), _learned(targets, tokenizer, "the targets")
        )


def _with_blank(text: str) -> str:
    """The text with a blank before it, so that its first word is cut like any other."""
    return f" {text}"


def _learned(texts: Sequence[str], tokenizer: str, side: str) -> SentenceTokens:
    if tokenizer == WORDS:
        words = sorted({word for text in texts for word in text.split()} - {UNKNOWN})
        found = Tokenizer(
            models.WordLevel({word: at for at, word in enumerate([UNKNOWN, *words])}, UNKNOWN)
        )
        found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return SentenceTokens(found)
    size = int(tokenizer.removeprefix(f"{BPE}:"))
    tokens = SentenceTokens(train_bpe(map(_with_blank, texts), size - TOKENS_FROM))
    if tokens.size != size:
        raise ObjectiveError(
            f"`tokenizer: {tokenizer}` must have no more ids than {side} of the training pairs "
            f"support, got {size} where they support {tokens.size}; use {BPE}:{tokens.size}, or "
            "more pairs"
        )
    return tokens
