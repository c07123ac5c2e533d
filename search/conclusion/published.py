"""Analyses of published papers by name; each is loaded when its findings are needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Any, get_origin

from fathom.search.analysis.losses.depth_metrics import DepthMetric
from fathom.search.records import TrialRecord

ANALYSES: Mapping[str, str] = {
    "crossings": "crossings",
    "required_depths": "required_depth",
    "matched": "matched_loss",
}
"""Key of `papers` in replies -> folder of the analysis below `papers/analyses`. The folder's module
`find` has a function `find` and `FORM`, the type of the findings, which are false if empty; its
module `show` has the functions `lines`, `section` and `tables`."""

Row = dict[str, Any]
"""Column -> value; a value may be a list of numbers."""


class PartKind(StrEnum):
    """Kind of a part of a section."""

    TEXT = "text"
    HEADING = "heading"
    ROWS = "rows"
    FOLDED = "folded"
    """A summary and the rows behind it."""
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class PaperSection:
    """A section of a report."""

    anchor: str
    heading: str
    parts: tuple[tuple[PartKind, Any], ...]
    """Pairs of a part's kind and its text or rows, in order."""


class PaperFindings(dict[str, Any]):
    """Name in `ANALYSES` -> findings of that analysis for a study."""

    def lines(self, metrics: Sequence[DepthMetric]) -> list[str]:
        """The findings as lines of text; `metrics` are those of the study at each depth."""
        lists = [_load(name, "show").lines(found, metrics) for name, found in self._there]
        return [line for lines in lists for line in lines]

    @property
    def sections(self) -> list[PaperSection]:
        """The sections of a report on the findings that are not empty."""
        return [_load(name, "show").section(found) for name, found in self._there]

    @property
    def tables(self) -> dict[str, list[Row]]:
        """Name of a table -> its rows."""
        tables: dict[str, list[Row]] = {}
        for name, found in self._there:
            tables |= _load(name, "show").tables(found)
        return tables

    @property
    def _there(self) -> list[tuple[str, Any]]:
        return [(name, found) for name, found in self.items() if found]


def find_papers(records: Sequence[TrialRecord], *, seed: int) -> PaperFindings:
    """Computes every published analysis from the records; the same seed gives the same result."""
    return PaperFindings({name: _load(name, "find").find(records, seed=seed) for name in ANALYSES})


@cache
def papers_form() -> type:
    """The class of the findings of all analyses, and of metrics by depth, in replies."""
    forms = {name: _load(name, "find").FORM for name in ANALYSES}
    forms["depth_metrics"] = tuple[DepthMetric, ...]
    fields = [
        (name, form, field(default=() if get_origin(form) is tuple else None))
        for name, form in forms.items()
    ]
    said = "The paper analyses of a study; each is empty where the records allow none."
    return make_dataclass("PaperFindings", fields, namespace={"__doc__": said}, frozen=True)


def _load(name: str, module: str) -> Any:
    return import_module(f"fathom.papers.analyses.{ANALYSES[name]}.{module}")
