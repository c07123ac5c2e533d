"""Rows of source, target and category, in splits; needs neither torch nor numpy.

A file has 2 or 3 columns: source, target and, where there are 3, a category for which exact
match is reported as well. The first row sets the number of columns.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.published import TRANSDUCTION
from fathom.objectives.rows.tsv import Place, TsvLine, name_of, read_lines, split_off

ALL = "all"
"""Name for all categories of a split together; no category may have it."""
MOST_CATEGORIES = 200
LONGEST_CATEGORY = 100
"""Most characters of a category: each is a metric, whose names have at most 250."""
NOT_IN_A_METRIC = re.compile(r"[^\w.\- ]", re.ASCII)
SPECIAL_INPUTS = 2
"""Number of special tokens among the inputs: the start and the separator."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A row; `category` is empty if the file has none."""

    source: str
    target: str
    category: str
    line: TsvLine

    @property
    def context(self) -> int:
        """Tokens that a model reads to write the whole target and its end."""
        return len(self.source.split()) + len(self.target.split()) + SPECIAL_INPUTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSplits:
    """Rows of a `transduction` study, by split."""

    train: list[Pair]
    dev: list[Pair]
    further: dict[str, list[Pair]]
    """`test` and the generalisation splits, by name."""


def read_splits(
    *, data: str, dev: str | None, test: str | None, generalisation: Mapping[str, str],
    validation_fraction: float, context: int,
) -> PairSplits:  # fmt: skip
    """Read every row once; what the user names replaces what a named data set brings.

    Raises:
        ValueError: when a file is missing or malformed, or a row exceeds the context; in one line.
    """
    known = TRANSDUCTION.get(data)
    if known is None:
        _check_path(data)
    dev_place: Place | None = dev or (known.dev if known else None)
    test_place: Place | None = test or (known.test if known else None)
    further: dict[str, Place] = {"test": test_place} if test_place else {}
    published: Mapping[str, Place] = known.generalisation if known else {}
    for name, place in {**published, **generalisation}.items():
        if name in ("train", "dev", "test"):
            raise ObjectiveError(
                f"a generalisation split must not be called {name!r}, which is another split; "
                "rename it, or use the key of that name"
            )
        further[name] = place
    train = read_pairs(known.train if known else data)
    if dev_place:
        dev_pairs = read_pairs(dev_place)
    else:
        train, dev_pairs = split_off(
            train, lambda one: one.source, validation_fraction, data=data, noun="rows"
        )
    splits = PairSplits(
        train=train,
        dev=dev_pairs,
        further={name: read_pairs(place) for name, place in further.items()},
    )
    _check_context(splits, context)
    return splits


def read_pairs(place: Place) -> list[Pair]:
    """Reads every row of a file; all rows must have as many columns as the first."""
    pairs: list[Pair] = []
    columns = 0
    for line in read_lines(place):
        columns = columns or len(line.cells)
        if columns not in (2, 3) or len(line.cells) != columns:
            wanted = f"{columns} columns like its first row" if pairs else "2 or 3 columns"
            raise ObjectiveError(
                f"{line} must have {wanted} (source, target, category) with a tab between, "
                f"got {len(line.cells)}; correct that line"
            )
        source, target, *rest = line.cells
        if not (source.strip() and target.strip()):
            raise ObjectiveError(f"{line} must have both a source and a target; fill in or drop it")
        pairs.append(Pair(source, target, _category(line, rest), line))
    if not pairs:
        raise ObjectiveError(
            f"{name_of(place)} must have at least one row, got none; check the path"
        )
    categories = len({pair.category for pair in pairs})
    if categories > MOST_CATEGORIES:
        raise ObjectiveError(
            f"the third column of {name_of(place)} must be one of at most {MOST_CATEGORIES} "
            f"categories, got {categories}; drop the column, or make them fewer"
        )
    return pairs


def _category(line: TsvLine, rest: list[str]) -> str:
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


def _check_path(data: str) -> None:
    if not os.path.exists(os.path.expanduser(data)):
        near = difflib.get_close_matches(data, TRANSDUCTION, n=1)
        raise ObjectiveError(
            f"`data` must be one of {', '.join(TRANSDUCTION)}, or the path of a file, "
            f"got {data!r}; " + (f"did you mean {near[0]!r}?" if near else "check the path")
        )


def _check_context(splits: PairSplits, context: int) -> None:
    """Refuse rows that would have to be cut; the longest is named, so that one change is enough."""
    everything = [splits.train, splits.dev, *splits.further.values()]
    longest = max((pair for split in everything for pair in split), key=lambda pair: pair.context)
    if longest.context > context:
        raise ObjectiveError(
            f"`context` must hold every row, but {longest.line} needs {longest.context} tokens, "
            f"got context={context}; use {longest.context} or more, or drop that row"
        )


def words_of(pairs: list[Pair]) -> list[str]:
    """The distinct words of sources and targets, sorted."""
    words: set[str] = set()
    for pair in pairs:
        words.update(pair.source.split(), pair.target.split())
    return sorted(words)
