"""docs/report.md: the report that it explains is the one that its command makes."""

import os
import shlex
import sys

import pytest

from tests.support.command_line import run
from tests.support.markdown import blocks_of
from tests.support.places import ROOT

BLOCKS = blocks_of(ROOT / "docs" / "report.md")


@pytest.mark.drill
def test_its_answers_are_those_that_the_command_prints() -> None:
    command, answers = BLOCKS[0].text, BLOCKS[1].text
    _, verb, table, *_ = shlex.split(command)

    done = run(
        *(sys.executable, "-P", "-m", "fathom", verb, table), cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}, timeout=200,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    printed = [line.strip() for line in done.stdout.splitlines()]
    assert not [line for line in answers.splitlines() if line.strip() not in printed]
