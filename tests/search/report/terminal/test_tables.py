"""The console of a command: `search/report/terminal/tables.py`."""

import pytest

from fathom.search.report.terminal.tables import empty_table, terminal


def test_texts_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = empty_table("a [/b] table", ("model",))
    table.add_row("mods:llama: [red]")
    terminal().print(table, "mods:llama: [/x]")
    printed = capsys.readouterr().out
    for text in ("a [/b] table", "mods:llama: [red]", "mods:llama: [/x]"):
        assert text in printed


def test_a_dumb_terminal_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert terminal().width == 50


def test_a_pipe_has_every_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = empty_table("a ladder", ("model", "standing"), ("standing",))
    table.add_row("m" * 90, "too deep")
    terminal().print(table)
    assert "too deep" in capsys.readouterr().out
