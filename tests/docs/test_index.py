"""The first screen of the README, which docs/index.md shows: its commands run as they stand."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from docs.extensions.dark import STYLE, with_dark
from tests.support.command_line import run
from tests.support.markdown import blocks_of
from tests.support.places import ROOT

FIRST, *_ = [
    block.text
    for block in blocks_of(ROOT / "README.md")
    if block.language == "sh" and not block.note
]
COMMANDS = [line for line in FIRST.splitlines() if not line.startswith("#")]


def test_the_drawings_of_the_docs_read_on_dark_pages() -> None:
    for path in (ROOT / "docs").glob("*.svg"):
        drawing = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in drawing, f"python -m docs.extensions.dark {path}"
        assert with_dark(drawing) == drawing
    assert with_dark("<svg><defs>a</defs></svg>") == f"<svg><defs>\n  {STYLE}a</defs></svg>"


@pytest.mark.drill
@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[1])
def test_a_command_of_the_first_screen_runs(command: str, tmp_path: Path) -> None:
    """`ask` measures how fast this machine trains, which takes half a minute beside other work."""
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    program, *arguments = shlex.split(command)

    known = os.environ | {"PYTHONPATH": str(ROOT)}
    asked = (sys.executable, "-P", "-m", program, *arguments)
    done = run(*asked, cwd=tmp_path, env=known, timeout=280)

    assert done.returncode == 0, done.stderr
    assert done.stdout
