"""Pairs of sentences, in splits; needs neither torch nor numpy.

They are in two files with a line for a line, or in one with tabs between its columns.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.rows import tsv
from fathom.objectives.rows.published import TRANSLATION
from fathom.objectives.rows.translation.generated import GENERATED, DrawnLanguage, drawn

HELD_OUT_FRACTION = 0.1
"""Largest fraction of the distinct sources that each of `dev` and `test` takes of the training
pairs."""

MOST_HALF_EMPTY = 0.01
"""Largest share of lines with one side alone, which are dropped; with more, the sides are probably
not of each other."""

Files = str | tuple[str, str]
"""A path of a table or a named data set, or the paths of a source and a target file."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation, without blanks at their ends and with single ones inside."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ParallelText:
    """All pairs, by split."""

    train: Sequence[SentencePair]
    dev: Sequence[SentencePair]
    test: Sequence[SentencePair]
    overlapping: int
    """Training pairs that were dropped, as their source or their target is in `dev` or `test`."""
    half_empty: int = 0
    """Lines with one side alone, which were dropped."""

    def parts(self) -> Iterator[str]:
        """Every text with the name of its split: what a digest of them is made of."""
        for name in ("train", "dev", "test"):
            yield name
            for pair in getattr(self, name):
                yield from (pair.source, pair.target)


def read_parallel_text(
    *, data: Files, dev: Files | None, test: Files | None, columns: tuple[int, int],
    held_out: int, train_pairs: int | None, generated: DrawnLanguage,
) -> ParallelText:  # fmt: skip
    """All splits; what is not named is held out of the training pairs.

    Of the training pairs those stay whose sentences are not in `dev` and `test` and, of these,
    `train_pairs`; what is held out, and what is kept, depends on the sources alone, so that fewer
    pairs are a part of more, and both are measured on the same held-out ones.

    Raises:
        ObjectiveError: when a file is missing or malformed, or there are too few pairs.
    """
    published = TRANSLATION.get(data, {}) if isinstance(data, str) else {}
    given: dict[str, tsv.Place | tuple[tsv.Place, tsv.Place] | None] = {
        "dev": published.get("dev"),
        "test": published.get("test"),
        **{name: place for name, place in (("dev", dev), ("test", test)) if place},
    }
    half_empty = 0
    if data == GENERATED:
        pairs = [SentencePair(*texts) for texts in drawn(generated)]
    else:
        pairs, half_empty = read_pairs(published.get("train", data), columns)
    named: dict[str, list[SentencePair]] = {}
    for name, place in given.items():
        if place:
            named[name], dropped = read_pairs(place, columns)
            half_empty += dropped
    taken = _held_out(pairs, [name for name in given if name not in named], held_out)
    splits = named | taken
    text = _without_overlap(pairs, splits["dev"], splits["test"], train_pairs)
    overlapping = text.overlapping - sum(map(len, taken.values()))
    return replace(text, overlapping=overlapping, half_empty=half_empty)


def read_pairs(
    place: tsv.Place | tuple[tsv.Place, tsv.Place], columns: tuple[int, int]
) -> tuple[list[SentencePair], int]:
    """Every pair of a place, and the number of lines that were dropped as they have one side alone;
    a line that is blank on both sides is none.

    Raises:
        ObjectiveError: when too many lines have one side alone, or the files have different numbers
            of lines.
    """
    if isinstance(place, tuple):
        name, sides = tsv.name_of(place[0]), _of_two_files(*place)
        second = tsv.name_of(place[1])
    else:
        name, sides = tsv.name_of(place), _of_table(place, columns)
        second = name
    pairs, halves = [], []
    for number, source, target in sides:
        if source and target:
            pairs.append(SentencePair(source, target))
        elif source or target:
            halves.append((number, "source" if target else "target"))
    if len(halves) > MOST_HALF_EMPTY * (len(pairs) + len(halves)):
        number, side = halves[0]
        more = f" (and {len(halves) - 1} more lines like it)" if len(halves) > 1 else ""
        raise ObjectiveError(
            f"line {number} of {name if side == 'source' else second} must have text, as its other "
            f"side has, but the {side} is empty{more}; fill it in, or delete the line on both sides"
        )
    return tsv.not_empty(pairs, name), len(halves)


def _of_two_files(source: tsv.Place, target: tsv.Place) -> Iterator[tuple[int, str, str]]:
    sides = [_lines(place) for place in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise ObjectiveError(
            f"{tsv.name_of(source)} and {tsv.name_of(target)} must have as many lines as each "
            f"other, a translation for each, got {len(sides[0])} and {len(sides[1])}; check that "
            "they belong together"
        )
    for number, (one, other) in enumerate(zip(*sides, strict=True), 1):
        yield number, _single_spaced(one), _single_spaced(other)


def _of_table(place: tsv.Place, columns: tuple[int, int]) -> Iterator[tuple[int, str, str]]:
    needed = max(columns)
    for number, line in enumerate(_lines(_known(place)), 1):
        cells = line.split("\t")
        if line.strip() and len(cells) < needed:
            raise ObjectiveError(
                f"line {number} of {tsv.name_of(place)} must have {needed} columns with a tab "
                f"between, got {len(cells)}; correct that line, set `columns`, or name two files: "
                "[source, target]"
            )
        one, other = (cells[at - 1] if line.strip() else "" for at in columns)
        yield number, _single_spaced(one), _single_spaced(other)


def _known(place: tsv.Place) -> tsv.Place:
    """The place, if it is a published file or a path that exists."""
    if isinstance(place, str) and not Path(place).expanduser().exists():
        known = (GENERATED, *TRANSLATION)
        raise ObjectiveError(
            f"`data` must be one of {', '.join(known)}, the path of a table, or two paths "
            f"[source, target], got {place!r}; {nearest(place, known)}"
        )
    return place


def _lines(place: tsv.Place) -> list[str]:
    """The lines of a file; some old files end them with a carriage return alone."""
    text = tsv.read_text(place)
    end = "\n" if "\n" in text else "\r"
    return text.removesuffix(end).split(end)


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _held_out(
    pairs: Sequence[SentencePair], names: Sequence[str], most: int
) -> dict[str, list[SentencePair]]:
    """The named splits, each of the first pairs of some sources."""
    firsts: dict[str, SentencePair] = {}
    for pair in pairs:
        firsts.setdefault(pair.source, pair)
    each = min(most, int(HELD_OUT_FRACTION * len(firsts)))
    if names and not each:
        raise ObjectiveError(
            f"`data` must have pairs enough to hold out {HELD_OUT_FRACTION:.0%} of them for each "
            f"of {' and '.join(names)}, got {len(firsts)} different sources; add pairs, or name "
            f"the files of `{names[0]}`"
        )
    order = sorted(firsts, key=_place_in_order)
    return {
        name: [firsts[source] for source in order[at * each : (at + 1) * each]]
        for at, name in enumerate(names)
    }


def _without_overlap(
    pairs: Sequence[SentencePair],
    dev: Sequence[SentencePair],
    test: Sequence[SentencePair],
    most: int | None,
) -> ParallelText:
    sources = {pair.source for pair in (*dev, *test)}
    targets = {pair.target for pair in (*dev, *test)}
    train = [pair for pair in pairs if pair.source not in sources and pair.target not in targets]
    if not train:
        raise ObjectiveError(
            f"`data` must have pairs that are not in `dev` and `test` as well, got {len(pairs)}, "
            "all of which are there; name other files"
        )
    overlapping = len(pairs) - len(train)
    if most is not None:
        if len(train) < most:
            raise ObjectiveError(
                f"`train_pairs` must be at most the number of training pairs, {len(train)}, got "
                f"{most}; lower it, or leave it out to take all"
            )
        train = sorted(train, key=lambda pair: _place_in_order(f"{pair.source}\t{pair.target}"))
        train = train[:most]
    return ParallelText(train, dev, test, overlapping)


def _place_in_order(text: str) -> bytes:
    """Place of a text in an order that looks random and depends on nothing else."""
    return hashlib.sha256(text.encode()).digest()
