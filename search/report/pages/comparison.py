"""Studies beside each other: tables of text, and a page with the sounding of each."""

import os
from collections.abc import Mapping
from pathlib import Path

from fathom.search.analysis.answer.depth_difference import DepthRatio
from fathom.search.analysis.answer.optimum import DepthCost
from fathom.search.conclusion.comparison import CONFIDENCE, ComparedPair, ComparedStudies
from fathom.search.formatting import format_count, printable
from fathom.search.report.charts.page_figures import FigureData
from fathom.search.report.pages.page import drawn_sounding, rendered
from fathom.search.report.pages.sounding import sounding
from fathom.search.report.words import text
from fathom.search.report.words.other_depths import cost_text
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.errors import ConfigError

PAGE = "comparison.html"

Row = dict[str, str]
"""A row of a table: text by heading."""


def answer_rows(comparison: ComparedStudies) -> list[Row]:
    """Returns a row for each budget and study: its best depth and its best loss."""
    rows = []
    for study in comparison.studies:
        for optimum in study.conclusion.optima:
            if optimum.budget not in study.best:
                continue
            row = text.answer_row(optimum)
            best = study.best[optimum.budget]
            found = {
                "budget": row["budget"],
                "study": study.name,
                "best depth": row["depth"],
                "95 % interval": row["95 % interval"],
                "verdict": row["verdict"],
                "best loss": f"{best.loss:.4f}",
            }
            rows.append((optimum.budget, found))
    return [row for _, row in sorted(rows, key=lambda known: known[0])]


def depth_rows(comparison: ComparedStudies) -> list[Row]:
    """Returns a row for each pair of studies at each budget, and for each pair over several
    budgets."""
    rows = [_depth_row(pair) for pair in comparison.pairs]
    for together in comparison.together:
        budgets = ", ".join(map(format_count, together.budgets))
        answer = _together_text(together.ratio, together.one, together.other)
        rows.append(
            _row(f"{budgets} together", together.one, together.other)
            | {"second / first": _ratio(together.ratio)}
            | {"first's depth in the second": "", "second's depth in the first": ""}
            | {"answer": answer}
        )
    return rows


def _depth_row(pair: ComparedPair) -> Row:
    found = pair.depths
    return (
        _row(format_count(pair.budget), pair.one, pair.other)
        | {"second / first": _ratio(found.ratio) if found else ""}
        | {"first's depth in the second": _cost(found.first_in_other) if found else ""}
        | {"second's depth in the first": _cost(found.other_in_first) if found else ""}
        | {"answer": pair.depths_text}
    )


def _row(budget: str, one: str, other: str) -> Row:
    return {"budget": budget, "first": one, "second": other}


def _ratio(ratio: DepthRatio) -> str:
    return f"{ratio.ratio:.2f} [{ratio.low:.2f} to {ratio.high:.2f}]"


def _cost(cost: DepthCost | None) -> str:
    """Cost of a study's best depth in the other study, in nats, as text."""
    if cost is None:
        return "not tested"
    return cost_text(cost) if cost.nats else "the same depth"


def _together_text(ratio: DepthRatio, one: str, other: str) -> str:
    if not ratio.is_settled:
        return "not shown to differ"
    return f"deeper in {other if ratio.ratio > 1 else one}"


def loss_rows(comparison: ComparedStudies) -> list[Row]:
    """Returns a row for each pair of studies and each budget: the first best loss minus the
    second."""
    return [
        _row(format_count(pair.budget), pair.one, pair.other)
        | {"difference (nats)": f"{found.difference:+.4f}"}
        | {"interval": f"{found.low:+.4f} to {found.high:+.4f}"}
        | {"answer": pair.losses_text}
        for pair in comparison.pairs
        if (found := pair.losses)
    ]


def differing_rows(comparison: ComparedStudies) -> list[Row]:
    """Returns a row for each key in which the studies differ."""
    names = [study.name for study in comparison.studies]
    return [
        {"key": key, **dict(zip(names, values, strict=True))}
        for key, values in comparison.differing.items()
    ]


def tables_of(comparison: ComparedStudies) -> Mapping[str, list[Row]]:
    """Returns the rows of each table by its heading, without empty tables."""
    tables = {
        "What differs between the studies": differing_rows(comparison),
        "Best depths": answer_rows(comparison),
        "Do the best depths differ?": depth_rows(comparison),
        "Do the best losses differ?": loss_rows(comparison),
    }
    return {heading: rows for heading, rows in tables.items() if rows}


def notes_of(comparison: ComparedStudies) -> list[str]:
    """Returns sentences on how to read the tables."""
    notes = []
    if any(pair.depths for pair in comparison.pairs):
        notes.append(
            "The ratio is that of the best depths before rounding; beside it stands what the best "
            "depth of one study costs in the other, in nats."
        )
    notes.append(
        f"All ratios of a budget hold together with {CONFIDENCE:.0%}, and so do all differences of "
        "losses."
    )
    if comparison.together:
        notes.append("Together: if the ratio is the same at all of these budgets.")
    if comparison.no_losses:
        notes.append(f"Best losses are not compared: {comparison.no_losses}.")
    return notes


def write_comparison(comparison: ComparedStudies, folder: Path) -> Path:
    """Writes the page into a folder, which is made if it is not there; returns its path.

    Raises:
        ConfigError: when the path exists and is no folder.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise ConfigError(
            f"`--report` must be a folder, got {printable(str(folder))}, which is a file; name "
            "another place"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / PAGE, comparison_page(comparison))
    return folder / PAGE


def comparison_page(comparison: ComparedStudies) -> str:
    """Returns the HTML of the page, readable without a network."""
    data = FigureData()
    soundings = [
        drawn_sounding(sounded, data, study=study.name)
        for place, study in enumerate(comparison.studies)
        if (sounded := sounding(study.conclusion, key=f"sounding-{place}"))
    ]
    return rendered(
        "comparison.html",
        [each["said"].chart for each in soundings],
        data,
        title=" and ".join(study.name for study in comparison.studies),
        tables=tables_of(comparison),
        notes=notes_of(comparison),
        soundings=soundings,
    )
