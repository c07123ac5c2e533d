"""Whole searches through known curves: `benchmarks/answers/spent/replay.py`."""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.answers.spent import replay
from benchmarks.answers.spent.replay_report import SHOWN, Entry, Repetition, markdown, points
from benchmarks.pages import measured
from benchmarks.simulate.clock import run as cluster_run
from benchmarks.simulate.ours import DRAWS, FathomSearch
from benchmarks.worlds.kinds import KINDS, planted
from benchmarks.worlds.known import Known, planted_budget
from benchmarks.worlds.planted import World, symmetric
from fathom.search.analysis.answer.finding import find_optimum
from tests.support.command_line import run as run_program
from tests.support.curves import run, write
from tests.support.places import ROOT


def repetition(until: float, right: bool = True) -> Repetition:
    many = len(points())
    return Repetition(until=until, spent=1.0, right=(right,) * many, regret=(0.01,) * many)


def entry(name: str, *until: float) -> Entry:
    found = tuple(repetition(tokens, math.isfinite(tokens)) for tokens in until)
    return Entry(name, name == "ours", found)


def rows(*entries: Entry) -> list[list[str]]:
    lines = [line for line in markdown("title", "", entries) if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_median_is_infinite_when_half_of_the_searches_end_wrong() -> None:
    assert entry("half", 0.1, math.inf, math.inf).until(0.5) == math.inf
    most = entry("most", 0.1, 0.2, math.inf)
    assert most.until(0.5) == 0.2
    assert most.right(-1) == pytest.approx(2 / 3)
    assert points()[-1] == 1
    assert all(1 / share in points() for share in SHOWN), "every column is a compared point"


def known() -> Known:
    world = World(curve=symmetric(4.0, 0.1), noise=0.0)
    return planted_budget(world, np.random.default_rng(0), depths=(1, 4), ratios=(4,), seeds=1)


@pytest.mark.parametrize("kind", KINDS)
def test_worlds_of_a_kind_have_their_best_depth_in_its_range(kind: str) -> None:
    shallowest, deepest = KINDS[kind].best
    for known in (planted(seed, kind) for seed in range(4)):
        best = min(known.truth, key=known.regret)
        assert shallowest / 1.5 < best < deepest * 1.5
        assert known.truth != planted(5, kind).truth


def test_our_last_answer_equals_the_report(tmp_path: Path) -> None:
    """Confirmed depths count from the third on; rounding is to the depths of the table."""
    some = planted(1102)
    player = FathomSearch(some, "", 1102, tmp_path)
    moments = list(cluster_run(some, player, workers=4, limit=some.ladder_tokens))
    found = find_optimum(player.scheduler.records, seed=1102, draws=DRAWS)
    assert player.scheduler.done
    assert found.optimal_depth in some.depths
    assert moments[-1].answer == found.optimal_depth


def table(path: Path, depths: Sequence[int] = (2, 4, 8, 16)) -> Path:
    runs = [run(depth) for depth in depths]
    ends = [2.0 + 0.1 * abs(np.log2(depth) - 2) for depth in depths]
    some = [
        replace(plain, losses=e + plain.tokens**-0.5) for plain, e in zip(runs, ends, strict=True)
    ]
    return write(path, some)


@pytest.mark.drill
def test_the_command_prints_a_row_for_each_searcher_and_draws(tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    asked = [sys.executable, "-m", "benchmarks.answers.spent.replay", "--figure", str(figure)]
    asked += ["--table", str(table(tmp_path / "table.csv"))]
    asked += ["--rivals", "ladder", "--repetitions", "1", "--processes", "1"]
    answer = run_program(*asked, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    assert "plateau: 4 of 2, 4, 8, 16" in answer.stdout
    names = [line.split("|")[1].strip() for line in answer.stdout.splitlines() if "|" in line][2:]
    assert "**ours**" in names
    assert "ladder by depth" in names
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("file", "named"),
    [
        *((file, file) for file in ("none.csv", "columns.csv", "letters.csv", "narrow.csv")),
        *(("table.csv", name) for name in ("nobody", "ladder by depth")),
    ],
)
def test_an_unusable_table_or_an_unknown_rival_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: str,
    named: str,
) -> None:  # fmt: skip
    (tmp_path / "columns.csv").write_text("depth,loss\n1,2\n")
    whole = table(tmp_path / "letters.csv").read_text()
    (tmp_path / "letters.csv").write_text(whole.replace("2.", "two", 1))
    table(tmp_path / "narrow.csv", (4,))
    table(tmp_path / "table.csv")
    rivals = "none" if file == named else "ladder,nobody"
    arguments = ["--table", str(tmp_path / file), "--rivals", rivals]
    monkeypatch.setattr(sys, "argv", ["replay", *arguments])
    monkeypatch.setattr(replay, "_quietly", lambda: None)
    with pytest.raises(SystemExit, match="2"):
        replay.main()
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert named in output.err


def test_the_figures_of_what_a_search_saves_follow_from_the_table() -> None:
    result = measured("replay")
    names = [column["name"] for column in result["table"]["columns"]]
    right, spent = (
        [row[names.index(name)] for row in result["table"]["rows"]]
        for name in ("right in the end", "spent")
    )
    found = {name: figure["value"] for name, figure in result["figures"].items()}
    assert found["tables"] == len(spent)
    assert (found["always_right"], found["never_right"]) == (right.count(1), right.count(0))
    assert (found["least_spent"], found["most_spent"]) == (min(spent), max(spent))
    assert found["median_spent"] == pytest.approx(statistics.median(spent))
