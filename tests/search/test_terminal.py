"""What a person sees while a search runs: `search/terminal.py`."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from search.folder import RunFolder
from search.plan import plan_study
from search.record_file import read_lines
from search.terminal import Progress, format_seconds
from tests.search.dry_run import Simulation, conductor, study
from tests.search.test_plan import MACHINE


def watched(path: Path, *, terminal: bool, events: int = 10**6) -> tuple[Progress, str]:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=80)
    config = study()
    search = conductor(config, path)
    with Progress(config.study, plan_study(config, 256, MACHINE), console) as progress:
        search._listeners = (progress.trial,)
        Simulation(search).run(events=events)
        progress.tick()
    return progress, output.getvalue()


def test_without_a_terminal_each_end_is_one_plain_line(tmp_path: Path) -> None:
    _, text = watched(tmp_path, terminal=False)
    lines = text.splitlines()
    folder = RunFolder(tmp_path)
    ends = [line["trial"] for line in read_lines(folder.records)]
    assert [line.split()[1] for line in lines] == ends
    assert len(set(ends)) < len(ends), "some paused, and were taken up again"
    assert "\x1b" not in text
    assert " paused " in text
    assert f"[{len(set(ends))} of about " in lines[-1]


def test_in_a_terminal_the_table_fits_80_columns(tmp_path: Path) -> None:
    progress, text = watched(tmp_path, terminal=True, events=60)
    assert "best so far" in text
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(progress._table())
    table = capture.get()
    assert "20k" in table
    assert "left" in table
    assert "…" not in table


@pytest.mark.parametrize(
    ("seconds", "words"), [(4, "4 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_durations_read_as_people_say_them(seconds: float, words: str) -> None:
    assert format_seconds(seconds) == words
