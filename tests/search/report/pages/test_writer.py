"""The report: every number from the records, whole whatever happens, readable without a network."""

import io
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from PIL import Image
from rich.console import Console

from fathom.search.conclusion.conclude import Conclusion
from fathom.search.export.best import best_yaml
from fathom.search.records import Outcome
from fathom.search.report.pages import writer
from fathom.search.report.pages.page import page as page_of
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.report.words.text import advice, summary_table
from fathom.search.words import study_reason
from tests.support.optima import UNTRAINED
from tests.support.reporting import (
    BUDGETS,
    CONFIG,
    Optima,
    Records,
    conclusion_of,
    of_budget,
    page_on,
    publish,
    visible,
)
from tests.support.simulated import simulated_study


def test_the_page_opens_with_the_answer_of_every_budget(page: str, optima: Optima) -> None:
    words = visible(page)

    places = [words.index(" ".join(advice(optimum).split())) for optimum in optima]
    assert places == sorted(places)
    assert places[-1] < words.index("Best depth and shape")
    plain = words.replace("`", "")
    assert all(study_reason(optimum.verdict).rstrip(".")[1:] in plain for optimum in optima)


def test_a_budget_has_one_shape_and_one_depth_whatever_else_may_be_better(
    study: Records, optima: Optima
) -> None:
    [optimum, *_] = optima
    shape = optimum.shape
    assert shape is not None
    untested = replace(optimum, costs=(UNTRAINED,))
    best = f"depth {shape.depth}, d_model {shape.d_model:,}, ff_ratio {shape.ff_ratio:.2f}"

    assert f"| {best}" in summary_table([untested])
    assert best in visible(page_of(replace(conclusion_of(study), optima=(untested,)), ()))
    terminal = Console(file=io.StringIO(), width=80)
    print_answers(replace(conclusion_of(study), optima=(untested,)), terminal)
    assert isinstance(terminal.file, io.StringIO)
    printed = terminal.file.getvalue()
    assert f"{shape.depth} x {shape.d_model}, {shape.ff_ratio:.2f}" in printed
    assert max(map(len, printed.splitlines())) <= 80
    better = f"{UNTRAINED.depth} was not trained to the end, and is expected to be better than"
    assert f"{better} depth {shape.depth} by 0.0040 nats" in " ".join(printed.split())
    [entry] = yaml.safe_load(best_yaml(Conclusion(config=CONFIG, optima=(untested,))))["best"]
    assert entry["optimal_depth"] == entry["shape"]["depth"] == shape.depth


def test_the_page_loads_nothing_from_anywhere(page: str) -> None:
    assert not re.search(r"(src|href|action)\s*=\s*[\"']?\s*(https?:)?//", page)
    assert not re.search(r"@import|url\(|<link|fetch\(", page)
    assert "default-src 'none'" in page, "and the browser is told to load nothing"


def test_names_from_the_user_cannot_become_part_of_the_page(study: Records) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)> ${x} & co"
    records = [
        replace(
            record,
            reason=hostile,
            spec=replace(record.spec, study=hostile, trial=f"{hostile} {record.spec.trial}"),
        )
        for record in of_budget(study, BUDGETS[0])[:12]
    ]

    page = page_on(records, study=hostile)

    assert "alert(1)</script>" not in page
    assert "<img" not in page
    assert hostile in visible(page), "but it is shown as it was written"
    assert page.count("<script") == 3


def test_a_page_is_small_enough_to_be_mailed_even_on_a_thousand_trials(page: str) -> None:
    assert len(page.encode()) < 280_000
    assert len(page_on(simulated_study(trials=300)).encode()) < 500_000


@pytest.mark.parametrize("kept", [Outcome.STOPPED, Outcome.DIVERGED, Outcome.OUT_OF_MEMORY])
def test_a_budget_without_a_finished_trial_is_said_to_be(kept: Outcome, study: Records) -> None:
    records = [r for r in study if r.outcome is kept and r.spec.budget == BUDGETS[0]]
    records += of_budget(study, BUDGETS[1])

    words = visible(page_on(records))

    assert "300k parameters, 6M tokens insufficient Not settled: no trial has finished." in words
    assert "300k: any best depth; nothing trained to the end." in words
    assert "1M parameters, 20M tokens identified Train depth" in words
    stopped_early = "every point is a trial that was stopped" in words
    assert stopped_early is (kept is Outcome.STOPPED)


def test_a_trial_that_diverged_at_once_leaves_a_report(study: Records) -> None:
    [first] = [r for r in of_budget(study, BUDGETS[0]) if r.outcome is Outcome.DIVERGED]
    nan = replace(first.curve[0], loss=float("nan"))

    words = visible(page_on([replace(first, curve=(nan,)), replace(first, curve=())]))

    assert "2 diverged" in words
    assert "No trial of this budget has a loss to show." in words


def test_a_run_without_any_ended_trial_has_a_report_that_says_so(tmp_path: Path) -> None:
    words = visible(publish(tmp_path, []))

    assert "No trial has ended yet" in words
    assert list((tmp_path / "figures").iterdir()) == []


def test_one_budget_alone_is_reported_without_a_law(study: Records) -> None:
    words = visible(page_on(of_budget(study, BUDGETS[2])))

    assert "3M parameters, 60M tokens identified Train depth" in words
    assert "it needs 3 budgets" in words


def test_figures_for_papers_are_pictures_of_something(run_folder: Path) -> None:
    keys = {path.stem for path in (run_folder / "figures").glob("*.png")}

    assert "answer" in keys, "the picture to share"
    assert len(keys) == 1 + 1 + 4 * len(BUDGETS)
    for key in keys:
        with Image.open(run_folder / "figures" / f"{key}.png") as image:
            assert image.width > 800
            colours = image.convert("RGB").getcolors(maxcolors=image.width * image.height)
            assert colours is not None
            assert len(colours) > 20, f"{key} is empty"
        svg = (run_folder / "figures" / f"{key}.svg").read_text(encoding="utf-8")
        assert svg.rstrip().endswith("</svg>")
        assert svg.count("<path") + svg.count("<use") > 20
        assert "</text>" in svg, "letters that can be edited"
    with Image.open(run_folder / "figures" / "answer.png") as image:
        assert image.width / image.height == pytest.approx(16 / 9, rel=1e-3), "for a slide"


def test_the_same_records_give_the_same_bytes(study: Records, tmp_path: Path) -> None:
    of_these = [record for record in study if record.outcome is Outcome.STOPPED][:9]
    publish(tmp_path, of_these)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    publish(tmp_path, of_these)

    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_interrupted_report_leaves_the_earlier_one_whole(
    study: Records, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "save_tables", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, [record for record in study if record.outcome is Outcome.DIVERGED])

    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_the_data_of_a_report_need_no_chart_library() -> None:
    libraries = "{'jinja2', 'matplotlib'}"
    code = f"import sys, fathom.search.report.pages.data; print(*{libraries} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (loaded.returncode, loaded.stdout.strip()) == (0, ""), loaded.stderr
