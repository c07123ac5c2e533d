"""Tokenizers of both sides: learned on the training pairs, exact there and back."""

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.translation.keys import TOKENS_FROM
from fathom.objectives.rows.translation.pair_files import SentencePair
from fathom.objectives.rows.translation.vocabulary import END, PairTokens

TRAIN = [SentencePair(f"the {n} cats <s> sleep", f"die {n} Katzen schlafen.") for n in range(99)]
STRANGE = "Ünïcode 猫 <pad> <unknown> «x» \U0001f408"


def test_subwords_write_back_what_they_read_and_mark_its_end() -> None:
    tokens = PairTokens.learned(TRAIN, "bpe:280", joint=True).target

    for text in ("die Katzen schlafen.", STRANGE):
        (ids,) = tokens.ids([text])
        assert ids[-1] == END
        assert min(ids[:-1]) >= TOKENS_FROM
        assert max(ids) < tokens.size == 280
        assert tokens.text(ids) == text


def test_words_that_training_has_not_seen_are_unknown() -> None:
    tokens = PairTokens.learned(TRAIN, "words", joint=False)

    (ids,) = tokens.source.ids(["the dogs sleep"])
    assert tokens.source.text(ids) == "the <unknown> sleep"
    assert ids[1] == TOKENS_FROM
    assert tokens.source.size == TOKENS_FROM + 1 + 4 + 99


def test_a_joint_vocabulary_has_the_same_ids_on_both_sides_and_separate_ones_do_not() -> None:
    joint = PairTokens.learned(TRAIN, "words", joint=True)
    separate = PairTokens.learned(TRAIN, "words", joint=False)

    assert joint.source is joint.target
    assert "Katzen" not in separate.source.text(separate.source.ids(["die Katzen"])[0])


def test_more_subwords_than_the_pairs_support_are_refused_with_how_many_they_do() -> None:
    with pytest.raises(
        ObjectiveError, match=r"the sources.*got 900 where they support \d+; use bpe:"
    ):
        PairTokens.learned([SentencePair("a" * 4000, "b")], "bpe:900", joint=False)
