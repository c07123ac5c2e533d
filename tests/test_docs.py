"""The documentation: its links work and its statements hold."""

import doctest
import importlib
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from fathom.search.study.file.study_file import parse
from tests.support.markdown import PAGES, anchors_of, blocks_of, links_of
from tests.support.places import ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_works_on_github_too(page: Path) -> None:
    broken = []
    for link in links_of(page):
        place, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", place):
            continue
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_of_a_table_is_one_line_with_as_many_cells_as_its_head(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    rows = [line for line in text.splitlines() if line.startswith("|")]

    assert not [row for row in rows if row == "|" or not row.endswith("|")]
    for table in re.findall(r"(?m)^\|[-| :]+\|\n(?:(?!$|<!--|##).+\n)*", text):
        cells = re.sub(r"`[^`\n]*`|\\\|", "", table).splitlines()
        assert all(row.startswith("|") and row.count("|") == cells[0].count("|") for row in cells)


def test_the_studies_that_pages_show_are_studies() -> None:
    shown = [block.text for page in PAGES for block in blocks_of(page) if block.language == "yaml"]
    studies = [text for text in shown if text.startswith("study:")]

    assert len(studies) >= 10
    for study in studies:
        parse(study)


WITH_EXAMPLES = [
    "fathom." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for package in ("models", "objectives", "search")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_of_docstrings_are_correct(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module))

    assert done.attempted
    assert not done.failed


NOTES = {
    "install": "it makes an environment",
    "long": "it trains for minutes or hours, or takes data from elsewhere",
    "cluster": "it needs hosts, a cloud or a server",
}
"""Why a block of shell is not run by a test."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists_and_its_shell_is_run_by_a_test_or_says_why_not(
    page: Path,
) -> None:
    """`tests/search/test_cli.py` runs those without a note."""
    text = page.read_text(encoding="utf-8")
    modules = re.findall(r"python -m ((?:benchmarks|tests)(?:\.\w+)+)", text)
    files = re.findall(r"\b(?:search|models|objectives|benchmarks|tests)/[\w/]+\.[a-z]+", text)
    places = [ROOT / module.replace(".", "/") for module in modules]
    assert not [p for p in places if not (p.is_dir() or p.with_suffix(".py").exists())]
    assert not [file for file in files if not (ROOT / file).exists()]

    blocks = blocks_of(page)
    assert {block.note for block in blocks if block.language == "sh"} <= {"", *NOTES}
    assert {block.language for block in blocks}.isdisjoint({"bash", "shell", "console"})
