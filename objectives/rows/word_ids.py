"""Words as token ids; standard library only."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from fathom.objectives.token_ids import PAD

START, SEPARATOR, END, UNKNOWN = range(PAD + 1, PAD + 5)
WORDS_FROM = PAD + 5
"""Id of the first word."""

WORD = re.compile(r"\w+|[^\w\s]")
"""In running text, which unlike rows has no blanks before its signs."""


def word_ids(words: Iterable[str]) -> dict[str, int]:
    """Ids by word, in the order of the words."""
    return {word: at for at, word in enumerate(words, WORDS_FROM)}


def words_in(text: str) -> Iterator[str]:
    """The words of running text; every sign that is no letter or digit is one by itself."""
    return (match[0] for match in WORD.finditer(text))


def with_frequent(words: Iterable[str], text: str, most: int) -> list[str]:
    """The words and so many of a text's most frequent ones, together, sorted."""
    counts = Counter(words_in(text))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    return sorted({*words, *frequent[:most]})
