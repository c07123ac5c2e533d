"""Words as token ids; standard library only."""

from collections.abc import Iterable

from objectives.sizes import PAD

START, SEPARATOR, END, UNKNOWN = range(PAD + 1, PAD + 5)
WORDS_FROM = PAD + 5
"""Id of the first word."""


def word_ids(words: Iterable[str]) -> dict[str, int]:
    """Ids by word, in the order of the words."""
    return {word: at for at, word in enumerate(words, WORDS_FROM)}
