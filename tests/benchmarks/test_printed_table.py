"""A table that is printed and kept for the pages: `benchmarks/printed_table.py`."""

import json
from pathlib import Path

import pytest

from benchmarks.pages import markdown
from benchmarks.printed_table import PrintedTable


def test_what_is_printed_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "worlds.json"
    file.write_text('{"machine": "a laptop", "tuned_on": "nothing", "figures": {"old": {}}}')

    table = PrintedTable({"worlds": "", "share": ".2f"}, file)
    table.add("flat", 0.5)
    table.add("starved", "-")
    table.figure("right", 3, "answers")

    kept = json.loads(file.read_text(encoding="utf-8"))
    assert capsys.readouterr().out == markdown(kept)
    assert (kept["machine"], kept["tuned_on"]) == ("a laptop", "nothing")
    assert kept["figures"] == {"right": {"value": 3, "unit": "answers"}}, "old figures are stale"
    assert kept["command"]
