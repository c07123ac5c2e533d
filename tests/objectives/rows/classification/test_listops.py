"""Expressions: their values, their rules, and the published ones."""

from collections.abc import Callable

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.classification.keys import ClassificationConfig, ListOpsConfig
from fathom.objectives.rows.classification.labelled_texts import Text, read_with_vocabulary
from fathom.objectives.rows.classification.listops import END, OPERATORS, WORDS, expressions

PUBLISHED: dict[str, Callable[[list[int]], int]] = {
    **OPERATORS,
    "[FIRST": lambda values: values[0],
    "[LAST": lambda values: values[-1],
}
"""With the two operators that only some of the published files have."""


def parsed(text: str) -> tuple[int, int, int, int]:
    """Value, nesting of operators, fewest and most arguments of a flat expression."""
    stack: list[tuple[str, list[int]]] = [("", [])]
    nesting, counts = 0, [2]
    for token in text.split():
        if token == END:
            operator, values = stack.pop()
            counts.append(len(values))
            stack[-1][1].append(PUBLISHED[operator](values))
        elif token in PUBLISHED:
            stack.append((token, []))
            nesting = max(nesting, len(stack) - 1)
        else:
            stack[-1][1].append(int(token))
    [(_, [value])] = stack
    return value, nesting, min(counts), max(counts)


def test_the_reference_of_these_tests_is_right() -> None:
    values = {"7": 7, "[MAX 2 9 [MIN 4 7 ] 0 ]": 9, "[MED 1 2 ]": 1, "[MED 6 8 8 7 1 ]": 7}
    for text, value in (values | {"[SM 9 9 9 ]": 7}).items():
        assert parsed(text)[0] == value


def test_generated_expressions_have_their_values_and_obey_the_rules() -> None:
    found = expressions(2000, max_depth=5, max_args=4, lengths=(4, 40))

    assert len({text for text, _ in found}) == 2000
    for text, value in found:
        true, nesting, fewest, most = parsed(text)
        assert value == true
        assert 1 <= nesting <= 4
        assert 2 <= fewest <= most <= 4
        assert 4 <= len(text.split()) <= 40
    assert {word for text, _ in found for word in text.split()} == set(WORDS)


def test_expressions_are_those_of_their_seed_and_must_be_enough() -> None:
    def rules(seed: int) -> list[tuple[str, int]]:
        return expressions(50, max_depth=4, max_args=3, lengths=(3, 30), seed=seed)

    assert rules(1) == rules(1) != rules(2)
    with pytest.raises(ObjectiveError, match=r"11 distinct .* of 1 to 2 tokens .* got 10; lower"):
        expressions(11, max_depth=4, max_args=3, lengths=(1, 2))


@pytest.mark.parametrize("name", ["listops_d20s", "listops_d14", "listops_d8", "listops_d5f"])
def test_the_published_expressions_have_their_published_values(mirror: object, name: str) -> None:
    splits, vocabulary = read_with_vocabulary(
        data=name, label=None, dev=None, test={}, tokenizer="words", cut=False, listops={},
        context=939, validation_fraction=0.1,
    )  # fmt: skip

    every: list[Text] = [*splits["train"], *splits["dev"]]
    assert len(every) == 10_000
    assert vocabulary.classes == tuple("0123456789")
    assert not {"(", ")"} & set(vocabulary.words)
    wrong = [text for text in every if str(parsed(text.text)[0]) != text.label]
    assert not wrong


def test_the_vocabulary_of_generated_expressions_is_known_before_they_are_drawn() -> None:
    keys = ClassificationConfig(
        name="classification",
        listops=ListOpsConfig(examples=10**6, min_length=501, max_args=10),
        context=2000,
    )
    assert keys.vocab_size() == 2 + 15 + 10
    few = keys.model_copy(update={"listops": ListOpsConfig(examples=20)})
    assert few.vocab_size() == few.read()[1].size == 27
    with pytest.raises(ObjectiveError, match="must allow 20 distinct expressions"):
        keys.model_copy(update={"context": 1, "listops": ListOpsConfig()}).vocab_size()
