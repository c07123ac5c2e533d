"""The tables of the results page from a file of findings: `benchmarks/gpu/tables.py`."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import tables
from benchmarks.gpu.finding import (
    StageFinding,
    StageFindings,
    at_most,
    holds,
    measured,
)
from benchmarks.pages import FIGURES, pages
from tests.support.places import ROOT


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[object]]]:
    """Rows of each table of a file of findings."""
    found = StageFindings(tmp_path / "gpu.json", "A GPU", {}, [], {})
    for case, findings in FOUND.items():
        found.add(case, findings)
    monkeypatch.setattr(tables, "FIGURES", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tables", str(found.file)])
    tables.main()
    files = tmp_path.glob("gpu_*.json")
    return {file.stem: json.loads(file.read_text())["table"]["rows"] for file in files}


TIMES = ("step, ms, eager", "step, ms, recorded")
FOUND: dict[str, list[StageFinding]] = {
    "graphs/same losses": [at_most("gap", 0.0, 0.001)],
    "graphs/5x128": [
        measured(what, value) for what, value in zip(TIMES, (19.4689, 2.1), strict=True)
    ],
    "graphs/64x112": [
        measured(what, value) for what, value in zip(TIMES, (180.0, 59), strict=True)
    ],
    "memory/6x384": [measured("measured, MB", 981.4)],
    "packing/processes": [measured("4 processes / one alone", 3.6)],
    "steps/eager": [holds("no step waits", True)],
    "attention/causal": [at_most("output", 0.01, 0.03), at_most("gradient", 0.04, 0.03)],
}


def test_cases_of_sizes_have_a_row_each_and_cases_that_compare_the_figure_nearest_to_its_mark(
    kept: dict[str, list[list[object]]],
) -> None:
    assert kept == {
        "gpu_graphs": [["5x128", 19.47, 2.1], ["64x112", 180.0, 59.0]],
        "gpu_memory": [["6x384", 981.4]],
        "gpu_packing": [["processes", 3.6]],
        "gpu_compared": [
            ["steps/eager", "no step waits", "", "true", "yes"],
            ["attention/causal", "gradient", 0.04, "at most 0.03", "**no**"],
        ],
    }


def test_a_file_of_several_set_ups_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = StageFindings(tmp_path / "gpu.json", "A GPU", {}, [], {"CPU, tiny": {}})
    found.add("steps/eager", [])
    monkeypatch.setattr(sys, "argv", ["tables", str(found.file)])
    with pytest.raises(SystemExit, match="--setup must name one of CPU, tiny, A GPU"):
        tables.main()


def test_the_pages_say_what_was_measured_on_a_gpu_and_what_was_not() -> None:
    """A table of a GPU that is written without what the pages say of it is found."""
    kept = json.loads((FIGURES / tables.SUMMARY).read_text(encoding="utf-8"))
    assert kept == tables.summary(FIGURES)
    told: dict[str, tuple[str, ...]] = {"README.md": ("machine", "date", "missing")}
    told["docs/trust.md"] = (*told["README.md"], "measured")
    for page, parts in told.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for part in parts:
            assert f"<!-- figure: gpu.{part} -->" in text
    said = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert not re.search(
        r"(?i)(nothing|not|never)[^.]{0,40}(timed|measured|run) on (a GPU|one)", said
    )
