"""A drawn language and its translation, whose difficulty is known; standard library only.

A sentence is subject, verb, object. Each noun may have an adjective, and a relative clause with an
object of its own, nested up to a given depth. The translation has a word for each word, and
differs in three ways: the verb comes last in its clause, a relative clause comes before its noun,
and verbs and adjectives have a form that agrees with the class of their noun. So the last word of
a sentence depends on the first noun, with all nested clauses between.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

GENERATED = "generated"
"""Name of the data that are drawn."""
CLASSES = 3
"""Classes of nouns, with which verbs and adjectives agree."""
ADJECTIVE_SHARE = 0.3
CLAUSE_SHARE = 0.5
"""Probability of a relative clause after a noun that may have one."""


Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLanguage:
    """Rules by which sentences are drawn."""

    pairs: int
    nesting: int
    """Deepest nesting of relative clauses; each level is a further step of reordering."""
    nouns: int
    verbs: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words of a noun with all that belongs to it, and their translation."""

    source: Words
    target: Words
    noun_class: int


def drawn(language: DrawnLanguage) -> Iterator[tuple[str, str]]:
    """Yields distinct sources with their translations, the same every time; if the language has
    fewer sentences than are asked for, all that were found."""
    draws, seen = random.Random(0), set[str]()
    for _ in range(20 * language.pairs):
        if len(seen) == language.pairs:
            return
        source, target = map(" ".join, _sentence(draws, language))
        if source not in seen:
            seen.add(source)
            yield source, target


def _sentence(draws: random.Random, language: DrawnLanguage) -> tuple[Words, Words]:
    subject = _phrase(draws, language, language.nesting)
    verb = draws.randrange(language.verbs)
    of = _phrase(draws, language, language.nesting)
    source = (*subject.source, f"v{verb}", *of.source)
    return source, (*subject.target, *of.target, _form("V", verb, subject.noun_class))


def _phrase(draws: random.Random, language: DrawnLanguage, nesting: int) -> Phrase:
    noun = draws.randrange(language.nouns)
    noun_class = noun % CLASSES
    source: Words = (f"n{noun}",)
    target: Words = (f"N{noun}",)
    if draws.random() < ADJECTIVE_SHARE:
        adjective = draws.randrange(language.verbs)
        source = (f"a{adjective}", *source)
        target = (*target, _form("A", adjective, noun_class))
    if nesting and draws.random() < CLAUSE_SHARE:
        verb = draws.randrange(language.verbs)
        of = _phrase(draws, language, nesting - 1)
        source = (*source, "that", f"v{verb}", *of.source)
        target = (*of.target, _form("V", verb, noun_class), "DE", *target)
    return Phrase(source, target, noun_class)


def _form(kind: str, word: int, noun_class: int) -> str:
    return f"{kind}{word}.{noun_class}"
