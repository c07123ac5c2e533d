"""The recording of a terminal: what a command writes, at one speed, in a file that is played."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recording import TEMPLATE, played, read_cast, record, save_cast
from tests.support.places import ROOT

HELLO = [sys.executable, "-c", "import os; print(os.get_terminal_size().columns, '┃')"]


def test_a_command_is_recorded_in_a_terminal_of_its_width() -> None:
    events = record(HELLO, columns=40, rows=10)

    assert "".join(text for _, text in events).split() == ["40", "┃"]


def test_a_command_that_fails_is_no_recording() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        record([sys.executable, "-c", "print('why'); raise SystemExit(3)"])

    assert failed.value.returncode == 3
    assert "why" in failed.value.output


def test_all_of_the_time_is_played_at_one_speed(tmp_path: Path) -> None:
    events = [(0.0, "a"), (30.0, "b"), (120.0, "c")]

    shown = played(events, ["fathom", "run"], 24)

    assert shown == [(0.0, "$ fathom run\r\n"), (1.0, "a"), (7.0, "b"), (25.0, "c")]
    save_cast(shown, tmp_path / "x.cast")
    assert read_cast(tmp_path / "x.cast") == shown


def test_the_recording_of_the_front_page_is_small() -> None:
    drawn = (ROOT / "docs" / "terminal.svg").read_bytes()
    assert len(drawn) < 200_000
    assert b"prefers-color-scheme: dark" in drawn


def test_the_recording_plays_once_and_shows_its_last_picture_then_and_where_nothing_plays() -> None:
    drawn = (ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8")
    [last] = re.findall(r"100\.000%\{transform:(.*?)\}", drawn)
    plain = re.search(r"#screen_view \{(.*?)\}", drawn, re.S)
    assert plain
    assert {"animation-iteration-count:1", f"transform:{last}"} <= {
        line.strip() for line in plain[1].split(";")
    }
    assert "#screen_view {animation: none}" in drawn, "where a reader wants no motion"


def test_the_drawing_has_a_light_and_a_dark_set_of_all_colours() -> None:
    light, dark = TEMPLATE.read_text(encoding="utf-8").split("prefers-color-scheme: dark")
    names = ["foreground", "background", *(f"color{number}" for number in range(16))]
    assert all(f".{name}" in part for name in names for part in (light, dark))
