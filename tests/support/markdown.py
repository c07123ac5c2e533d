"""Markdown pages as GitHub shows them: their links, anchors and blocks of code."""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.places import ROOT

PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "RESULTS.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block."""

    language: str
    note: str
    """What stands behind the language, which no reader sees."""
    text: str


def blocks_of(page: Path) -> list[CodeBlock]:
    """Every fenced block, in order."""
    found = []
    for token in _tokens(page):
        if token.type == "fence":
            language, _, note = token.info.strip().partition(" ")
            found.append(CodeBlock(language, note, token.content))
    return found


def links_of(page: Path) -> list[str]:
    """Targets of the links and pictures of a page."""
    inner = [inline for token in _tokens(page) for inline in token.children or ()]
    places = [str(inline.attrs.get("href") or inline.attrs.get("src") or "") for inline in inner]
    return [place for place in places if place]


def anchors_of(page: Path) -> set[str]:
    """Anchors of a page's headings by GitHub's rule: lower case, no punctuation, dashes."""
    tokens = _tokens(page)
    titles = [tokens[at + 1] for at, token in enumerate(tokens) if token.type == "heading_open"]
    plain = ["".join(inline.content for inline in title.children or ()) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text(encoding="utf-8"))
