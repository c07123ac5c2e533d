"""Pairs of sentences from two files, line by line, or from a table with tabs between columns.

Needs neither torch nor numpy.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.keys import short
from fathom.objectives.rows import tsv
from fathom.objectives.rows.published import TRANSLATION
from fathom.objectives.rows.translation.generated import GENERATED

MOST_DROPPED = 0.01
"""Largest share of lines with one side alone, and of lines with a wrong number of columns, that may
be dropped; with more, the sides probably do not belong together."""

Files = str | tuple[str, str]
"""A path of a table or a named data set, or the paths of a source and a target file."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation, with single blanks inside and none at the ends."""

    source: str
    target: str


def read_pairs(
    place: tsv.Place | tuple[tsv.Place, tsv.Place], columns: tuple[int, int]
) -> tuple[list[SentencePair], int]:
    """Every pair of a place, and the number of lines that were dropped.

    `columns` are those of source and target in a table. Lines are dropped if one side is empty, or
    if they have another number of columns than most; lines that are blank on both sides do not
    count.

    Raises:
        ObjectiveError: when too many lines would be dropped, the files have different numbers of
            lines, or a column of the table has no sentences.
    """
    if isinstance(place, tuple):
        name, second = map(tsv.name_of, place)
        sides, irregular = _of_two_files(*place), 0
    else:
        name = second = tsv.name_of(place)
        sides, irregular = _of_table(place, columns)
    pairs, halves = [], []
    for number, source, target in sides:
        if source and target:
            pairs.append(SentencePair(source, target))
        elif source or target:
            halves.append((number, "source" if target else "target"))
    if len(halves) > MOST_DROPPED * (len(pairs) + len(halves)):
        number, side = halves[0]
        more = f" (and {len(halves) - 1} more lines like it)" if len(halves) > 1 else ""
        raise ObjectiveError(
            f"line {number} of {name if side == 'source' else second} must have text, as its other "
            f"side has, but the {side} is empty{more}; fill it in, or delete the line on both sides"
        )
    return tsv.not_empty(pairs, name), len(halves) + irregular


def _of_two_files(source: tsv.Place, target: tsv.Place) -> list[tuple[int, str, str]]:
    sides = [_lines(place) for place in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise ObjectiveError(
            f"{tsv.name_of(source)} and {tsv.name_of(target)} must have equally many lines, one "
            f"translation in each, got {len(sides[0])} and {len(sides[1])}; check that they "
            "belong together"
        )
    return [
        (number, _single_spaced(source_text), _single_spaced(target_text))
        for number, (source_text, target_text) in enumerate(zip(*sides, strict=True), 1)
    ]


def _of_table(place: tsv.Place, columns: tuple[int, int]) -> tuple[list[tuple[int, str, str]], int]:
    """Number, source and target of each line that is not blank and has as many columns as most
    lines; and the number of lines that have more or fewer columns."""
    name, lines = tsv.name_of(place), enumerate(_lines(_known(place)), 1)
    rows = [tsv.TsvLine(name, at, tuple(line.split("\t"))) for at, line in lines if line.strip()]
    if not rows:
        return [], 0
    kept = _regular(rows, max(columns))
    if all(cell[:1] == cell[-1:] == '"' for row in kept for cell in _of(row, columns)):
        tsv.refuse_csv(kept[0])
    for column in columns:
        _check_sentences(kept, column)
    texts = [_of(row, columns) for row in kept]
    sides = [
        (row.number, _single_spaced(source), _single_spaced(target))
        for row, (source, target) in zip(kept, texts, strict=True)
    ]
    return sides, len(rows) - len(kept)


def _of(row: tsv.TsvLine, columns: tuple[int, int]) -> tuple[str, str]:
    """The two cells of a row that are source and target."""
    return row.cells[columns[0] - 1], row.cells[columns[1] - 1]


def _regular(rows: Sequence[tsv.TsvLine], needed: int) -> list[tsv.TsvLine]:
    """The rows with the usual number of columns; raises `ObjectiveError` if these are too few, or
    if too many rows have another number."""
    ((usual, _),) = Counter(len(row.cells) for row in rows).most_common(1)
    odd = [row for row in rows if len(row.cells) != usual]
    if usual < needed:
        tsv.refuse_csv(rows[0])
        first = min(rows, key=lambda row: (len(row.cells) >= needed, row.number))
        raise ObjectiveError(
            f"{first} must have {needed} columns with a tab between, got {len(first.cells)}; "
            "correct that line, set `columns`, or name two files: [source, target]"
        )
    if len(odd) > MOST_DROPPED * len(rows):
        more = f" (and {len(odd) - 1} more lines are like it)" if len(odd) > 1 else ""
        raise ObjectiveError(
            f"{odd[0]} must have {usual} columns with a tab between, as most lines have, got "
            f"{len(odd[0].cells)}{more}; correct it, or name two files: [source, target]"
        )
    return [row for row in rows if len(row.cells) == usual]


def _check_sentences(rows: Sequence[tsv.TsvLine], column: int) -> None:
    """Raises `ObjectiveError` if a column has no sentences, in a table of more than two columns."""
    count = len(rows[0].cells)
    if count > 2 and _is_dull(rows, column):
        others = [at for at in range(1, count + 1) if not _is_dull(rows, at)]
        such_as = f", such as `columns: {others[:2]}`" if len(others) > 1 else ""
        raise ObjectiveError(
            f"column {column} of {rows[0].place} must have sentences, but has only numbers or one "
            f"repeated text, such as {short(rows[-1].cells[column - 1])}; set `columns`{such_as}"
        )


def _is_dull(rows: Sequence[tsv.TsvLine], column: int) -> bool:
    """True if a column has only numbers, or the same text in every row of several; the first row
    may have names of columns."""
    texts = [row.cells[column - 1].strip() for row in rows[1:] or rows]
    return all(text.isdecimal() for text in texts) or len(texts) > 1 == len(set(texts))


def _known(place: tsv.Place) -> tsv.Place:
    """The place, if it is a published file or a path that exists."""
    if isinstance(place, str) and not Path(place).expanduser().exists():
        known = (GENERATED, *TRANSLATION)
        raise ObjectiveError(
            f"parallel text must be one of {', '.join(known)}, the path of a table, or two paths "
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
