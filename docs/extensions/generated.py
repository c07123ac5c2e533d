"""Pages that are written from the program itself: `cli.md` and `config.md`.

A page has a comment where the generated part goes, and is read with it.
"""

import re
import subprocess
import sys

from sphinx.application import Sphinx

from docs.extensions.keys import all_keys

RESULTS = "](../benchmarks/RESULTS.md"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def read(_app: Sphinx, page: str, source: list[str]) -> None:
    """Puts in what is generated; what GitHub finds outside of `docs/` is a page here."""
    source[0] = source[0].replace(RESULTS, "](results.md")
    # A comment at the beginning of a line would end the paragraph.
    source[0] = re.sub(r"(?<=\S)\n(?=<!-- figure: )", " ", source[0])
    parts = {"cli": ("<!-- verbs -->", all_verbs), "config": ("<!-- keys -->", all_keys)}
    if page in parts:
        comment, generate = parts[page]
        assert comment in source[0], f"{page}.md has lost its `{comment}`"
        source[0] = source[0].replace(comment, generate())


def all_verbs() -> str:
    """Every verb with its help, by typer's own writer of such pages."""
    asked = [
        sys.executable,
        "-m",
        "typer",
        "fathom.search.cli",
        "utils",
        "docs",
        "--name",
        "fathom",
    ]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True)
    # The title is the page's own, and so is the list of verbs, which stands at its side.
    verbs = answer.stdout[answer.stdout.index("\n## ") :]
    return verbs.replace("```console\n$ ", "```text\n")
