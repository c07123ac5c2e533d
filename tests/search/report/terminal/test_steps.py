"""The steps of a start: `search/report/terminal/steps.py`."""

import contextlib
import io

import pytest
from rich.console import Console

from fathom.search.report.terminal import steps as module
from fathom.search.report.terminal.steps import Steps


def shown(*, terminal: bool, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, force_terminal=terminal, width=80)
    with Steps(console) as steps:
        steps.begin("starting Ray")
        steps.begin("reading the data")
    file.seek(0)
    return file.read()


def test_in_a_file_each_step_is_a_plain_line() -> None:
    assert shown(terminal=False) == "starting Ray\nreading the data\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_keeps_slow_steps(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "reading the data" in shown(terminal=True, encoding=encoding), "as long as it lasts"
    assert "reading the data: " not in shown(terminal=True, encoding=encoding)
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.0)
    assert "reading the data: 0 s" in shown(terminal=True, encoding=encoding)


def test_a_dumb_terminal_has_each_step_as_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert shown(terminal=True) == "starting Ray\nreading the data\n"


def test_the_cursor_is_shown_again_after_an_error() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True)
    with contextlib.suppress(OSError), Steps(console) as steps:
        steps.begin("reading the data")
        raise OSError("no text")
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")
