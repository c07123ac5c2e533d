"""The figures of the pages are those that the benchmarks' files have: `benchmarks/pages.py`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages import FIGURE, FIGURES, HEADER, TABLE, markdown, pages, rendered
from tests.support.places import ROOT

COMPARED = [ROOT / "README.md", ROOT / "docs" / "peers.md", ROOT / "benchmarks" / "RESULTS.md"]
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?[kMBT]?(?!\w)")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
NO_FIGURES = {
    rf"(\d+ )?({MONTHS}) \d{{4}}|\d{{4}}-\d\d-\d\d": "dates",
    r"\bet al\.,? \d{4}|\b\d{4}\.\d{4,5}\b": "papers",
    r"\b(x86-64|GPT-2|Apache-2\.0)\b": "names",
    r"\b(Python|torch|ray|optuna|mlflow|transformers|litgpt|torchtitan|nanoGPT of"
    r"|Optuna|Ray Tune|Ax|Syne Tune|NePS|Determined|dashboard\]\(\S+\)|Fathom\*\*|CC BY)"
    r"\s\d+(\.\d+)*( to \d+(\.\d+)*)?": "versions",
    r"status \d+": "exit statuses",
    r"\d+ %(?= interval)|(?<=for )\d+ %": "the level of every interval",
    r"(?<=[a-z]#)\d+|(?<=\[)\d+\.\d+(?=\])": "issues and releases that are linked",
    r"\(\d\) (?=These)": "a footnote",
}
"""Numbers that nobody measured, and what they are."""


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_the_figures_that_the_files_have(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert rendered(text) == text, "run `python -m benchmarks.pages`"


@pytest.mark.parametrize("page", COMPARED, ids=lambda page: page.stem)
def test_every_number_of_a_page_comes_from_a_file_or_is_a_setting(page: Path) -> None:
    """A setting stands in a command of its section, or in a file that the section shows."""
    text = page.read_text(encoding="utf-8")

    assert [loose for section in sections(text) for loose in loose_numbers(section)] == []


def test_a_number_that_no_file_has_is_found() -> None:
    section = (
        "## How often\n\n```sh\nfathom run --hours 8\n```\n\n"
        "In 8 hours 777 answers of <!-- figure: coverage.one_minimum -->329<!-- / -->, on "
        "23 November 2026 with Python 3.11.7 and `--seeds 3`: 95 % intervals, 0.123 nats, 10k.\n"
    )

    assert loose_numbers(rendered(section)) == ["777", "0.123", "10k"]
    assert loose_numbers(section.replace("329", "330")) != [], "a figure is not what its file has"


@pytest.mark.parametrize("file", sorted(FIGURES.glob("*.json")), ids=lambda file: file.stem)
def test_a_file_says_how_it_was_measured_and_is_shown(file: Path) -> None:
    result = json.loads(file.read_text(encoding="utf-8"))
    shown = "".join(page.read_text(encoding="utf-8") for page in pages())

    assert result["command"]
    assert result["machine"]
    assert result["tuned_on"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"])
    used = {found["id"] for found in FIGURE.finditer(shown) if found["name"] == file.stem}
    assert used - {*HEADER} <= {*result.get("figures", {})}
    named = rf"<!-- table: {file.stem} (where|-->)|`figures/{file.name}`"
    assert used or re.search(named, shown), "no page shows it"


def test_a_page_may_show_some_rows_of_a_table() -> None:
    head = "<!-- table: stopping_left_out where table left out = cpp -->\n"

    shown = rendered(head + "<!-- /table -->").splitlines()

    assert len(shown) == 5
    assert shown[3].startswith("| cpp |")


def test_a_table_is_shown_in_the_formats_of_its_columns() -> None:
    columns: list[dict[str, Any]] = [{"name": "worlds"}, {"name": "share", "format": ".2f"}]

    table = markdown({"table": {"columns": columns, "rows": [["flat", 0.5], ["two", "-"]]}})

    assert table == "| worlds | share |\n|---|---|\n| flat | 0.50 |\n| two | - |\n"


def sections(page: str) -> list[str]:
    """A page, cut before its headings."""
    return re.split(r"(?m)^(?=#+ )", re.sub(r"```.*?```", hidden_headings, page, flags=re.S))


def hidden_headings(block: re.Match[str]) -> str:
    return block[0].replace("\n#", "\n #")


def loose_numbers(section: str) -> list[str]:
    """Numbers in the prose of a section that neither a file nor a command of it has."""
    if rendered(section) != section:
        return ["another figure than its file has"]
    known = {number for text in settings_of(section) for number in NUMBER.findall(text)}
    prose = FIGURE.sub("", TABLE.sub("", section))
    prose = re.sub(r"<!--.*?-->|```.*?```|`[^`]*`", "", prose, flags=re.S)
    for kind in NO_FIGURES:
        prose = re.sub(kind, "", prose)
    prose = re.sub(r"\]\([^)]*\)|^ *\d+\. ", "", prose, flags=re.M)
    return [number for number in NUMBER.findall(prose) if number not in known]


def settings_of(section: str) -> list[str]:
    """Commands of a section, its tables, and the files that they and its figures are from."""
    blocks = re.findall(r"```.*?```", section, re.S)
    tables = [*TABLE.finditer(section)]
    names = {found["name"] for found in (*tables, *FIGURE.finditer(section))}
    files = [(FIGURES / f"{name}.json").read_text(encoding="utf-8") for name in names]
    return [*blocks, *(found["shown"] for found in tables), *files]
