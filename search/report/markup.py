"""Pieces of HTML that every section of the page uses. Cells and facts come in as text or as HTML,
as each function says; what is text is escaped here."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from fathom.search.report.text import sentence

MISSING = "\N{EN DASH}"


def prose(text: str) -> str:
    """A sentence, with the settings that it names in backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(sentence(text)))


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already; each carries its heading for windows too narrow for columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{escape(name)}"><span>{cell}</span></td>'
            for name, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts_list(facts: Mapping[str, str]) -> str:
    """Headings and facts, which are text; those that are empty are left out."""
    known = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items() if v)
    return f"<dl>{known}</dl>" if known else ""
