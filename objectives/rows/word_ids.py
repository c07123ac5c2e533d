"""Words as token ids; standard library only."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from fathom.objectives.token_ids import PAD

START, SEPARATOR, END, UNKNOWN = range(PAD + 1, PAD + 5)
WORDS_FROM = PAD + 5
"""Id of the first word."""

WORD = re.compile(r"\w+|[^\w\s]")
"""Pattern of a word or a sign in running text, which has no blanks before signs."""


def numbered(words: Iterable[str], first: int = WORDS_FROM) -> dict[str, int]:
    """Token ids of words, counted from `first` in the order of the words."""
    return {word: at for at, word in enumerate(words, first)}


def encoded(text: str, ids: Mapping[str, int]) -> list[int]:
    """Token ids of the words between blanks; `UNKNOWN` for a word that has none."""
    return [ids.get(word, UNKNOWN) for word in text.split()]


def prompt(source: str, ids: Mapping[str, int]) -> list[int]:
    """Token ids of `START`, a source and `SEPARATOR`."""
    return [START, *encoded(source, ids), SEPARATOR]


def words_in(text: str) -> Iterator[str]:
    """The words of running text; each sign that is neither letter nor digit is a word."""
    return (match[0] for match in WORD.finditer(text))


def most_frequent(words: Iterable[str], most: int | None) -> list[str]:
    """The most frequent of the words, at most `most`, or all if that is None."""
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]
