"""Text that is written from the program into the pages, so that it reads on GitHub too.

    python -m docs.extensions.generated

writes it again between the comments of the pages:

    <!-- keys -->               every key of a study file
    <!-- commands -->           every command with its help
    <!-- readme -->             the first screen of the README
    <!-- code: FILE N- -->      a file of the repository from its line N on

Each ends at `<!-- /generated -->`.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command

from docs.extensions.keys import all_keys
from fathom.search.cli import app

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(
    r"(?P<head><!-- (?:(?P<kind>keys|commands|readme)|"
    r"code: (?P<file>\S+)(?: (?P<first>\d+)-)?) -->\n)"
    r".*?(?P<end><!-- /generated -->)",
    re.S,
)
LANGUAGES = {".py": "python", ".yaml": "yaml"}
RESULTS = "](../benchmarks/RESULTS.md"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def read(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Links what GitHub finds outside of `docs/` to its page here."""
    source[0] = source[0].replace(RESULTS, "](results.md")
    # A comment at the beginning of a line would end the paragraph.
    source[0] = re.sub(r"(?<=\S)\n(?=<!-- figure: )", " ", source[0])


def pages() -> list[Path]:
    """The pages with generated parts."""
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if PART.search(page.read_text())]


def written(page: str) -> str:
    """The text of a page with its generated parts as the program gives them now."""
    return PART.sub(lambda part: f"{part['head']}{_generated(part)}{part['end']}", page)


def _generated(part: re.Match[str]) -> str:
    if part["kind"]:
        return f"\n{WRITERS[part['kind']]()}\n\n"
    lines = (ROOT / part["file"]).read_text(encoding="utf-8").splitlines()
    code = "\n".join(lines[int(part["first"] or 1) - 1 :])
    return f"```{LANGUAGES[Path(part['file']).suffix]}\n{code}\n```\n"


def all_commands() -> str:
    """Every command that is not hidden, with its help, by typer's own writer of such pages."""
    options = ("fathom.search.cli", "utils", "docs", "--name", "fathom")
    asked = [sys.executable, "-m", "typer", *options]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True)
    # The page has its own title, and the list of commands stands at its side.
    text = answer.stdout[answer.stdout.index("\n## ") :].strip()
    text = text.replace("```console\n$ ", "```text\n").replace("**Usage**:\n\n", "")
    text = re.sub(r"\* `--help`: .*\n", "", text).replace("&#x27;", "'")
    command: Any = get_command(app)
    hidden = [name for name, each in command.commands.items() if each.hidden]
    sections = re.split(r"(?m)^(?=## )", text)
    return "".join(
        section
        for section in sections
        if not any(f"`fathom {name}`\n" in section for name in hidden)
    ).strip()


def first_screen() -> str:
    """What the README shows between its two lines for it, with links from `docs/`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    title, shown = readme.split("<!-- docs/index.md shows what lies between these two lines. -->")
    return title + shown.split("<!-- docs/index.md ends here. -->")[0].strip().replace(
        "](docs/", "]("
    )


WRITERS = {"keys": all_keys, "commands": all_commands, "readme": first_screen}
"""Comment of a generated part -> what returns its text."""


def main() -> None:
    """Writes the generated parts of every page."""
    for page in pages():
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
