"""Rows of source, target and category, in splits; needs neither torch nor numpy.

A file has 2 or 3 columns: source, target and, where there are 3, a category for which exact
match is reported as well. The first row sets the number of columns.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.rows import tsv
from fathom.objectives.rows.held_out import check_apart
from fathom.objectives.rows.published import TRANSDUCTION

ALL = "all"
"""Name for all categories of a split together; no category may have it."""
MOST_CATEGORIES = 200
LONGEST_CATEGORY = 100
"""Most characters of a category: each is a metric, whose names have at most 250."""
NOT_IN_A_METRIC = re.compile(r"[^\w.\- ]", re.ASCII)
COLUMN_NAMES = frozenset(
    {
        *("source", "src", "input", "inputs", "sentence", "question", "command", "commands", "x"),
        *("target", "tgt", "output", "outputs", "answer", "action", "actions", "label", "y"),
        *("text", "logical_form", "lf"),
    }
)
"""Names of columns in a header, which a file of rows must not have."""
SPECIAL_INPUTS = 2
"""Number of special tokens among the inputs: the start and the separator."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A row; `category` is empty if the file has none."""

    source: str
    target: str
    category: str
    line: tsv.TsvLine

    @property
    def context(self) -> int:
        """Tokens that a model reads to write the whole target and its end."""
        return len(self.source.split()) + len(self.target.split()) + SPECIAL_INPUTS


def read_splits(
    *, data: str, dev: str | None, test: str | None, generalisation: Mapping[str, str],
    validation_fraction: float, context: int,
) -> dict[str, list[Pair]]:  # fmt: skip
    """Rows by split: `train`, `dev` and others. Each file is read once; files that the user names
    replace splits of a named data set.

    Raises:
        ObjectiveError: when a file is missing or malformed, or a row exceeds the context.
    """
    if data not in TRANSDUCTION and not Path(data).expanduser().exists():
        raise ObjectiveError(
            f"`data` must be one of {', '.join(TRANSDUCTION)}, or the path of a file, "
            f"got {data!r}; {nearest(data, TRANSDUCTION)}"
        )
    tsv.check_names(generalisation, "train", "dev", "test")
    given = {"dev": dev, "test": test, **generalisation}
    places: dict[str, tsv.Place] = {
        **TRANSDUCTION.get(data, {"train": data}),
        **{name: place for name, place in given.items() if place},
    }
    found = {name: read_pairs(place) for name, place in places.items()}
    if "dev" in found:
        place = tsv.name_of(places["dev"])
        check_apart(rows_of(found["train"]), rows_of(found["dev"]), place)
    splits = tsv.with_dev(found, attrgetter("source"), validation_fraction, data=data)
    longest = max((pair for pairs in splits.values() for pair in pairs), key=attrgetter("context"))
    if longest.context > context:
        # The longest is named, so that one change is enough.
        raise ObjectiveError(
            f"`context` must hold every row, but {longest.line} needs {longest.context} tokens, "
            f"got context={context}; use {longest.context} or more, or drop that row"
        )
    return splits


def rows_of(pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    """Source and target of each row."""
    return [(pair.source, pair.target) for pair in pairs]


def read_pairs(place: tsv.Place) -> list[Pair]:
    """Reads every row of a file; all rows must have as many columns as the first."""
    pairs = tsv.not_empty(_pairs(place), place)
    categories = len({pair.category for pair in pairs})
    if categories > MOST_CATEGORIES:
        raise ObjectiveError(
            f"the third column of {tsv.name_of(place)} must be one of at most {MOST_CATEGORIES} "
            f"categories, got {categories}; drop the column, or use fewer categories"
        )
    return pairs


def _pairs(place: tsv.Place) -> Iterator[Pair]:
    columns, first = 0, True
    for line in tsv.read_lines(place):
        wanted = f"{columns} columns like its first row" if columns else "2 or 3 columns"
        columns = columns or len(line.cells)
        if columns not in (2, 3) or len(line.cells) != columns:
            raise ObjectiveError(
                f"{line} must have {wanted} (source, target, category) with a tab between, "
                f"got {len(line.cells)}; correct that line"
            )
        source, target, *rest = line.cells
        if first and {source.strip().lower(), target.strip().lower()} <= COLUMN_NAMES:
            raise ObjectiveError(
                f"{line} names the columns ({source.strip()}, {target.strip()}) and would be read "
                "as a row; delete that line"
            )
        first = False
        if not (source.strip() and target.strip()):
            raise ObjectiveError(f"{line} must have both a source and a target; fill in or drop it")
        yield Pair(source, target, _category(line, rest), line)


def _category(line: tsv.TsvLine, rest: list[str]) -> str:
    if not rest:
        return ""
    category = NOT_IN_A_METRIC.sub("_", rest[0].strip()) or "none"
    if category == ALL:
        raise ObjectiveError(f"{line} must not have a category called {ALL!r}; rename it")
    if len(category) > LONGEST_CATEGORY:
        raise ObjectiveError(
            f"{line} must have a category of at most {LONGEST_CATEGORY} characters, got "
            f"{len(category)}; shorten it, or drop the third column"
        )
    return category


def words_of(pairs: list[Pair]) -> set[str]:
    """The distinct words of sources and targets."""
    return {word for pair in pairs for word in (*pair.source.split(), *pair.target.split())}
