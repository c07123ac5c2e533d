"""The generated language: its targets follow from their sources, which nest as deep as asked."""

from fathom.objectives.rows.translation.generated import DrawnLanguage, drawn

SMALL = DrawnLanguage(pairs=300, nesting=3, nouns=9, verbs=6)


def translated(source: str) -> str:
    """The translation by a parser of its own."""
    words = source.split()

    def phrase() -> tuple[list[str], int]:
        adjective = words.pop(0) if words[0].startswith("a") else ""
        noun = int(words.pop(0)[1:])
        target = [f"N{noun}"] + ([f"A{adjective[1:]}.{noun % 3}"] if adjective else [])
        if words and words[0] == "that":
            words.pop(0)
            verb = words.pop(0)[1:]
            target = [*phrase()[0], f"V{verb}.{noun % 3}", "DE", *target]
        return target, noun % 3

    subject, noun_class = phrase()
    verb = words.pop(0)[1:]
    target = " ".join([*subject, *phrase()[0], f"V{verb}.{noun_class}"])
    assert not words
    return target


def test_every_target_is_what_the_grammar_says() -> None:
    pairs = [*drawn(SMALL)]

    assert len({source for source, _ in pairs}) == 300
    assert all(translated(source) == target for source, target in pairs)


def test_it_is_the_same_every_time_and_fewer_pairs_are_the_first_of_more() -> None:
    more = [*drawn(DrawnLanguage(pairs=400, nesting=3, nouns=9, verbs=6))]

    assert [*drawn(SMALL)] == more[:300]


def test_sentences_nest_as_deep_as_asked_and_no_deeper() -> None:
    def most_clauses(nesting: int) -> int:
        language = DrawnLanguage(pairs=500, nesting=nesting, nouns=30, verbs=20)
        return max(source.split().count("that") for source, _ in drawn(language))

    assert [most_clauses(nesting) for nesting in (0, 1, 3)] == [0, 2, 6]


def test_a_language_without_so_many_sentences_gives_those_that_it_has() -> None:
    assert len([*drawn(DrawnLanguage(pairs=500, nesting=0, nouns=2, verbs=1))]) == 16
