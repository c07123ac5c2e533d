"""Parallel text as token ids, and the bucket of each pair; needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.translation.keys import WORDS, TranslationConfig
from fathom.objectives.rows.translation.pair_files import SentencePair
from fathom.objectives.rows.translation.parallel_text import ParallelText
from fathom.objectives.rows.translation.vocabulary import END, PairTokens
from fathom.objectives.text.tokenizer import BPE

PARTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Number of pairs in a batch for each sequence of full length, by bucket: the shorter the pairs,
the more."""
LEAST_SHARE = 0.5
"""Smallest share of padding that the note on the data mentions."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPairs:
    """The token ids of the pairs of a split, each side with its end."""

    sources: list[list[int]]
    targets: list[list[int]]

    @classmethod
    def of(cls, pairs: Sequence[SentencePair], tokens: PairTokens) -> Self:
        """The pairs as they are, of any length."""
        sources = tokens.source.ids(pair.source for pair in pairs)
        return cls(sources, tokens.target.ids(pair.target for pair in pairs))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of the longer side of each pair, (R,)."""
        pairs = zip(self.sources, self.targets, strict=True)
        return np.array([max(len(source), len(target)) for source, target in pairs], np.int64)

    def fitting(self, context: int) -> Self:
        """The pairs whose sides both fit the context."""
        kept = np.flatnonzero(self.lengths <= context)
        return type(self)([self.sources[at] for at in kept], [self.targets[at] for at in kept])

    def cut(self, context: int) -> Self:
        """The same pairs, each side cut to the context."""
        sides = (
            [ids if len(ids) <= context else [*ids[: context - 1], END] for ids in side]
            for side in (self.sources, self.targets)
        )
        return type(self)(*sides)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """All splits as token ids, with the numbers of pairs that were too long."""

    tokens: PairTokens
    train: EncodedPairs
    dev: EncodedPairs
    test: EncodedPairs
    too_long: int
    """Training pairs that were dropped for their length."""
    cut: int
    """Held-out pairs that were cut."""
    context: int

    @classmethod
    def of(cls, text: ParallelText, *, tokenizer: str, joint: bool, context: int) -> Self:
        """The splits encoded by tokenizers of the training pairs.

        Raises:
            ObjectiveError: if they support too few ids, or no training pair fits the context.
        """
        tokens = PairTokens.learned(text.train, tokenizer, joint=joint)
        train = EncodedPairs.of(text.train, tokens)
        fitting = train.fitting(context)
        if not fitting.sources:
            raise ObjectiveError(
                f"`context` must hold a training pair, but the shortest needs "
                f"{train.lengths.min()} tokens, got context={context}; use "
                f"{train.lengths.min()} or more"
            )
        dev, test = (EncodedPairs.of(pairs, tokens) for pairs in (text.dev, text.test))
        return cls(
            tokens=tokens,
            train=fitting,
            dev=dev.cut(context),
            test=test.cut(context),
            too_long=len(train.sources) - len(fitting.sources),
            cut=sum(int((pairs.lengths > context).sum()) for pairs in (dev, test)),
            context=context,
        )

    @property
    def epoch_tokens(self) -> int:
        """Training tokens of an epoch: all of its batches with padding, but without the empty rows
        of the last one."""
        parts = np.array(PARTS)[buckets_of(self.train.lengths, self.context)]
        return int(np.ceil(self.context * (1 / parts).sum()))


def buckets_of(lengths: NDArray[np.int64], context: int) -> NDArray[Any]:
    """Index into `PARTS`, (R,), for pairs with `lengths` (R,); shorter pairs have a later index."""
    widths = np.array([context // parts for parts in PARTS])
    buckets: NDArray[Any] = ((lengths[:, None] <= widths).sum(1) - 1).astype(np.uint8)
    return buckets


def encode(keys: TranslationConfig, text: ParallelText) -> EncodedText:
    """The pairs as token ids; raises `ObjectiveError` if they do not suit."""
    return EncodedText.of(
        text, tokenizer=keys.chosen_tokenizer, joint=keys.is_joint, context=keys.context
    )


@lru_cache(maxsize=4)
def sizes(keys: TranslationConfig) -> tuple[int, int]:
    """Number of token ids of sources and of targets; cached, since it is asked for each shape."""
    if keys.chosen_tokenizer != WORDS:
        size = int(keys.chosen_tokenizer.removeprefix(f"{BPE}:"))
        return size, size
    tokens = PairTokens.learned(keys.read().train, WORDS, joint=keys.is_joint)
    return tokens.source.size, tokens.target.size


@lru_cache(maxsize=4)
def survey(keys: TranslationConfig) -> tuple[int, str]:
    """The tokens of an epoch and the note on the data; cached, since a plan asks several times."""
    text = keys.read()
    encoded = encode(keys, text)
    padding = 1 - sum(map(len, encoded.train.targets)) / encoded.epoch_tokens
    lost = (
        (text.overlapping, "dropped because one side is held out"),
        (encoded.too_long, f"dropped because longer than {keys.context} tokens"),
        (text.unusable, "lines dropped because a side is empty or the number of columns is wrong"),
        (encoded.cut, f"of dev and test cut to {keys.context} tokens"),
    )
    note = (
        f"{len(encoded.train.sources)} training pairs, {len(text.dev)} of dev, {len(text.test)} of "
        "test"
    )
    note += "".join(f"; {count} {what}" for count, what in lost if count)
    note += f"; {padding:.0%} of the horizon is padding" * (padding > LEAST_SHARE)
    return encoded.epoch_tokens, note
