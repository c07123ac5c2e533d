"""A user's own function that reads the lines of a command."""

import sys
from pathlib import Path

import pytest

from fathom.search.training.command.lines import LineError, json_values
from fathom.search.training.command.parser import load_parser

MODULE = """
def parse(line):
    if line == "bad":
        raise IndexError("no loss")
    if line == "wrong":
        return 3
    return {"step": 1, "loss": 2.0} if line == "step" else None
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "lines_of_a_log.py").write_text(MODULE, encoding="utf-8")


def test_without_one_lines_are_json() -> None:
    assert load_parser(None) is json_values


def test_it_reads_what_it_knows() -> None:
    parse = load_parser("lines_of_a_log:parse")
    assert parse("step") == {"step": 1, "loss": 2.0}
    assert parse("else") is None


def test_its_mistakes_name_the_line() -> None:
    parse = load_parser("lines_of_a_log:parse")
    with pytest.raises(LineError, match="failed at the line 'bad': IndexError: no loss"):
        parse("bad")
    with pytest.raises(LineError, match="must return a mapping or None, got 3 for 'wrong'"):
        parse("wrong")
