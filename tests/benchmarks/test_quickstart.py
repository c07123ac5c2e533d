"""The answer of the quickstart, which every page shows: `benchmarks/quickstart.py`."""

import argparse
import html
import re
from typing import Any

from benchmarks.pages import measured
from benchmarks.quickstart import answer, cell, with_run
from tests.support.markdown import blocks_of
from tests.support.places import ROOT


def budget(size: int, depth: int | None, *interval: int) -> dict[str, Any]:
    kind = "identified" if interval else "insufficient"
    return {
        "question": {"budget": size},
        "answer": {"depth": depth, "interval": [*interval] or None} if depth else None,
        "verdict": {"kind": kind, "settled": bool(interval)},
    }


BUDGETS = [budget(10_000, 1, 1, 2), budget(20_000, 3, 3, 3), budget(40_000, None)]
PLATEAU = {**budget(80_000, 4, 3, 4), "verdict": {"kind": "plateau", "settled": True}}


def test_an_answer_names_the_depth_of_each_size_or_its_verdict() -> None:
    assert answer(BUDGETS) == (
        "at 10k parameters **1 layer is best** [1-2], at 20k **3** [3], "
        "and at 40k no depth is settled (`insufficient`)"
    )
    assert answer([PLATEAU, BUDGETS[1]]) == (
        "at 80k parameters **4 layers are best** [3-4] (`plateau`), and at 20k **3** [3]"
    )
    assert cell(PLATEAU) == "4 [3-4] plateau"


def test_a_run_becomes_the_first_row_and_the_answer_of_every_page() -> None:
    asked = argparse.Namespace(machine="a laptop", recorded=True)
    before = measured("quickstart")

    once = with_run(before, BUDGETS, 61.0, asked)
    twice = with_run(once, BUDGETS, 61.0, asked)

    assert once["table"]["rows"][0][1:] == ["1 [1-2]", "3 [3]", "insufficient"]
    assert [row[1:] for row in once["table"]["rows"][1:]] == [
        row[1:] for row in before["table"]["rows"]
    ]
    assert [row[0].endswith(" (recorded)") for row in once["table"]["rows"]].count(True) == 1
    assert twice == once
    assert once["figures"]["minutes"]["value"] == 2
    assert once["figures"]["recorded"]["value"] == "10k: 1 [1-2]; 20k: 3 [3]; 40k: insufficient"


def recorded_lines() -> list[str]:
    """The lines of text of all pictures of the recording."""
    drawn = (ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]+>", "\n", drawn)).splitlines()


def test_the_first_screen_shows_the_answer_of_the_recording_word_by_word() -> None:
    [shown] = [block.text for block in blocks_of(ROOT / "README.md") if block.note == "answer"]
    recorded = recorded_lines()
    for line in shown.splitlines():
        assert any(line in drawn for drawn in recorded), line


def test_the_recording_ends_with_the_answer_that_its_caption_says() -> None:
    for said in measured("quickstart")["figures"]["recorded"]["value"].split("; "):
        size, shown = said.split(": ")
        words = {size, *shown.replace("[", "").replace("]", "").split()}
        assert any(words <= set(re.findall(r"[\w-]+", line)) for line in recorded_lines()), said
