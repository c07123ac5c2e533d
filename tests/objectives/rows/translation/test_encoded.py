"""Pairs as token ids: what is dropped, what is cut, and what an epoch takes of the horizon."""

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.translation.encoded import EncodedText
from fathom.objectives.rows.translation.pair_files import SentencePair
from fathom.objectives.rows.translation.parallel_text import ParallelText
from fathom.objectives.rows.translation.vocabulary import END

TRAIN = [SentencePair("a b", "A B C"), SentencePair("a b c d e", "A"), SentencePair("a", "A")]
HELD_OUT = [SentencePair("b a b a b", "A B"), SentencePair("a", "C")]


def encoded(context: int) -> EncodedText:
    text = ParallelText(TRAIN, HELD_OUT, HELD_OUT[1:], 0)
    return EncodedText.of(text, tokenizer="words", joint=True, context=context)


def test_long_training_pairs_are_dropped_and_long_held_out_ones_are_cut() -> None:
    text = encoded(4)

    assert (text.too_long, text.cut) == (1, 1)
    assert len(text.train.sources) == 2
    assert [len(ids) for ids in text.dev.sources] == [4, 2]
    assert all(ids[-1] == END for ids in (*text.dev.sources, *text.train.targets))


def test_an_epoch_takes_as_much_of_the_horizon_as_its_batches() -> None:
    # Of 8 tokens the pairs need 4, 6 and 2: a half, the whole and a quarter.
    assert encoded(8).epoch_tokens == 4 + 8 + 2


def test_a_context_below_every_pair_is_refused() -> None:
    with pytest.raises(ObjectiveError, match="shortest needs 2 tokens, got context=1; use 2"):
        encoded(1)
