"""Words as token ids; standard library only."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from fathom.objectives.token_ids import PAD

START, SEPARATOR, END, UNKNOWN = range(PAD + 1, PAD + 5)
WORDS_FROM = PAD + 5
"""Id of the first word."""

WORD = re.compile(r"\w+|[^\w\s]")
"""Pattern of a word or a sign in running text, which has no blanks before signs."""


def word_ids(words: Iterable[str]) -> dict[str, int]:
    """Word -> token id, in the order of the words."""
    return {word: at for at, word in enumerate(words, WORDS_FROM)}


def words_in(text: str) -> Iterator[str]:
    """The words of running text; each sign that is neither letter nor digit is a word."""
    return (match[0] for match in WORD.finditer(text))


def with_frequent(words: Iterable[str], text: str, most: int) -> list[str]:
    """The words and the most frequent ones of a text together, sorted."""
    counts = Counter(words_in(text))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    return sorted({*words, *frequent[:most]})
