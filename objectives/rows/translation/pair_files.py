"""Pairs of sentences from files: two with a line for a line, or one with tabs between its columns;
needs neither torch nor numpy."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.rows import tsv
from fathom.objectives.rows.published import TRANSLATION
from fathom.objectives.rows.translation.generated import GENERATED

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
