"""The report: every number from the records, whole whatever happens, readable without a network."""

import csv
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import search.report.writer
from search.audit import audit_stopping
from search.law import fit_laws
from search.optimum import Optimum, find_optima
from search.records import Outcome, TrialRecord
from search.report.chart import Line, Points, linear_ticks, log_ticks
from search.report.figures_page import interactive
from search.report.page import Report
from search.report.page import page as page_of
from search.report.words import answer, plateau, summary_table, unsupported
from search.report.writer import make_charts, report_json, write_report
from search.verdict import Verdict
from tests.search.simulated import simulated_study

BUDGETS = (300_000, 1_000_000, 3_000_000)
CHROMIUM = shutil.which("chromium")


def report_on(
    records: Sequence[TrialRecord], *, study: str = "simulated", settings: str = ""
) -> Report:
    """What a run with these records would report."""
    optima = find_optima(records, seed=0)
    return Report(
        study=study,
        records=records,
        optima=optima,
        laws=fit_laws(optima),
        audits={o.budget: audit_stopping(of_budget(records, o.budget)) for o in optima},
        settings=settings,
        versions={"torch": "2.13.0"},
    )


def page_on(records: Sequence[TrialRecord], **texts: str) -> str:
    """The page alone, without the figures for papers, which take longer."""
    report = report_on(records, **texts)
    return page_of(report, make_charts(records, report.optima, report.laws))


def publish(folder: Path, records: Sequence[TrialRecord]) -> str:
    """The page of a report that was written to a folder."""
    report = report_on(records)
    path = write_report(
        folder,
        records,
        report.optima,
        report.laws,
        report.audits,
        study=report.study,
        settings=report.settings,
        versions=report.versions,
    )
    return path.read_text(encoding="utf-8")


def of_budget(records: Sequence[TrialRecord], budget: int) -> list[TrialRecord]:
    return [record for record in records if record.spec.budget == budget]


def visible(page: str) -> str:
    """The words of the page, without its scripts and its marks."""
    body = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", body)).split())


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cells(page: str) -> list[dict[str, str]]:
    """The table of optima as it is shown, heading to text."""
    table = page.split('id="table"', 1)[1].split("</section>", 1)[0]
    return [
        {
            unescape(head): unescape(re.sub(r"<[^>]*>", "", cell))
            for head, cell in re.findall(r'<td data-head="(.*?)">(.*?)</td>', row)
        }
        for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]
    ]


@pytest.fixture(scope="module")
def study() -> list[TrialRecord]:
    return simulated_study(budgets=BUDGETS)


@pytest.fixture(scope="module")
def optima(study: list[TrialRecord]) -> tuple[Optimum, ...]:
    return find_optima(study, seed=0)


@pytest.fixture(scope="module")
def run_folder(study: list[TrialRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    publish(folder, study)
    return folder


@pytest.fixture(scope="module")
def page(run_folder: Path) -> str:
    return (run_folder / "report.html").read_text(encoding="utf-8")


def test_the_answer_is_one_line_with_all_that_the_optimum_depends_on(
    optima: tuple[Optimum, ...],
) -> None:
    planted = replace(
        optima[1],
        budget=10_000_000,
        tokens=200_000_000,
        optimal_depth=7,
        interval=(6, 9),
        plateau=(5, 7, 9),
        depths=tuple(replace(optima[1].depths[0], depth=depth) for depth in (3, 5, 7, 9)),
        verdict=Verdict.IDENTIFIED,
    )

    assert answer(planted) == (
        "10M parameters, 200M tokens, total count: depth 7 [6-9], plateau 5-9, identified"
    )
    assert plateau(replace(planted, plateau=(3, 7, 9))) == "3, 7-9"
    assert "no depth yet" in answer(replace(planted, optimal_depth=None, interval=None))


def test_the_page_opens_with_the_answer_of_every_budget(
    page: str, optima: tuple[Optimum, ...]
) -> None:
    words = visible(page)

    places = [words.index(answer(optimum)) for optimum in optima]
    assert places == sorted(places)
    assert places[-1] < words.index("Best depth and shape")
    assert all(optimum.reason.rstrip(".")[1:] in words.replace("`", "") for optimum in optima)


def test_every_number_of_the_table_can_be_traced_to_the_records(
    page: str, study: list[TrialRecord]
) -> None:
    for shown, budget in zip(cells(page), BUDGETS, strict=True):
        own = of_budget(study, budget)
        outcomes = Counter(record.outcome for record in own)
        [optimum] = find_optima(own, seed=0)

        assert shown["trials"] == ", ".join(
            f"{outcomes[o]} {o.replace('_', ' ')}" for o in Outcome if outcomes[o]
        )
        assert shown["tokens"] == f"{20 * budget / 1e6:g}M"
        assert shown["depth"] == str(optimum.optimal_depth)
        assert shown["loss (nats per token)"] == f"{optimum.loss:.4f}"
        assert any(
            shown["d_model"].split()[0] == f"{shape.d_model:,}"
            and shown["d_ff / d_model"] == f"{shape.d_ff / shape.d_model:.2f}"
            and shown["heads"] == str(shape.n_heads)
            and shown["parameters, total"] == f"{shape.params_total:,}"
            and shown["non-embedding"] == f"{shape.params_non_embedding:,}"
            for shape in (record.spec.shape for record in own)
        ), "the shape is one that was trained"


def test_a_shape_of_another_depth_than_the_best_says_so(optima: tuple[Optimum, ...]) -> None:
    [optimum, *_] = optima
    assert optimum.shape is not None
    untested = replace(optimum, optimal_depth=optimum.shape.depth + 1)

    assert f"(at depth {optimum.shape.depth})" in summary_table([untested])
    assert "at depth" not in summary_table([replace(optimum, optimal_depth=optimum.shape.depth)])


def test_the_tables_hold_every_trial_and_every_evaluation(
    run_folder: Path, study: list[TrialRecord]
) -> None:
    trials, curves = rows(run_folder, "trials"), rows(run_folder, "curves")

    assert [row["trial"] for row in trials] == [record.spec.trial for record in study]
    assert len(curves) == sum(len(record.curve) for record in study)
    for row, record in zip(trials, study, strict=True):
        assert row["loss"] == ("" if record.loss is None else str(record.loss))
        assert row["outcome"] == record.outcome
        assert int(row["params_total"]) == record.spec.shape.params_total
    assert [int(row["budget"]) for row in rows(run_folder, "optima")] == list(BUDGETS)


def test_deleting_a_budgets_records_removes_that_budget_and_nothing_else(
    study: list[TrialRecord], run_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "figures" / "mine.txt").write_text("kept")
    fewer = [record for record in study if record.spec.budget != BUDGETS[1]]

    after = publish(tmp_path, fewer)

    words = visible(after)
    assert "1M parameters" not in words
    assert "300k parameters" in words
    assert "3M parameters" in words
    gone = {path.name for path in (run_folder / "figures").iterdir()} - {
        path.name for path in (tmp_path / "figures").iterdir()
    }
    assert gone == {
        path.name for path in (run_folder / "figures").iterdir() if "-1000000." in path.name
    }
    assert (tmp_path / "figures" / "mine.txt").exists(), "only its own kinds of file are its own"
    kept = [row for row in rows(run_folder, "optima") if row["budget"] != str(BUDGETS[1])]
    assert rows(tmp_path, "optima") == kept


def test_the_page_loads_nothing_from_anywhere(page: str) -> None:
    without_plotly = re.sub(r"<script>/\*\*.*?</script>", "", page, count=1, flags=re.DOTALL)

    assert len(without_plotly) < len(page) - 1_000_000, "plotly.js is in the page, once"
    assert not re.search(r"(src|href|action)\s*=\s*[\"']?\s*(https?:)?//", without_plotly)
    assert not re.search(r"@import|url\(|<link|fetch\(", without_plotly)
    assert "default-src 'none'" in page, "and the browser is told to load nothing"


def test_names_from_the_user_cannot_become_part_of_the_page(study: list[TrialRecord]) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)> $plotly ${x} & co"
    records = [
        replace(
            record,
            reason=hostile,
            spec=replace(record.spec, study=hostile, trial=f"{hostile} {record.spec.trial}"),
        )
        for record in of_budget(study, BUDGETS[0])[:12]
    ]

    page = page_on(records, study=hostile, settings=f"study: {hostile!r}")

    assert "alert(1)</script>" not in page
    assert "<img" not in page
    assert hostile in visible(page), "but it is shown as it was written"
    assert page.count("<script") == 4


@pytest.mark.parametrize("kept", [Outcome.STOPPED, Outcome.DIVERGED, Outcome.OUT_OF_MEMORY])
def test_a_budget_without_a_finished_trial_is_reported_as_such(
    kept: Outcome, study: list[TrialRecord]
) -> None:
    records = [r for r in study if r.outcome is kept and r.spec.budget == BUDGETS[0]]
    records += of_budget(study, BUDGETS[1])

    words = visible(page_on(records))

    assert "300k parameters, 6M tokens, total count: no depth yet, insufficient" in words
    assert "300k: any best depth; nothing trained to the end." in words
    assert "1M parameters, 20M tokens, total count: depth" in words
    stopped_early = "every point is a trial that was stopped" in words
    assert stopped_early is (kept is Outcome.STOPPED)


def test_a_trial_that_diverged_at_once_leaves_a_report(study: list[TrialRecord]) -> None:
    [first] = [r for r in of_budget(study, BUDGETS[0]) if r.outcome is Outcome.DIVERGED]
    nan = replace(first.curve[0], loss=float("nan"))

    words = visible(page_on([replace(first, curve=(nan,)), replace(first, curve=())]))

    assert "2 diverged" in words
    assert "No trial of this budget has a loss to show." in words


def test_a_run_without_any_ended_trial_has_a_report_that_says_so(tmp_path: Path) -> None:
    words = visible(publish(tmp_path, []))

    assert "No trial has ended yet" in words
    assert list((tmp_path / "figures").iterdir()) == []


def test_one_budget_alone_is_reported_without_a_law(study: list[TrialRecord]) -> None:
    words = visible(page_on(of_budget(study, BUDGETS[2])))

    assert "3M parameters, 60M tokens, total count: depth" in words
    assert "No law was fitted." in words
    assert "it needs 3 budgets" in words


def test_figures_for_papers_are_pictures_of_something(run_folder: Path) -> None:
    keys = {path.stem for path in (run_folder / "figures").glob("*.png")}

    assert len(keys) == 1 + 4 * len(BUDGETS)
    for key in keys:
        with Image.open(run_folder / "figures" / f"{key}.png") as image:
            assert image.width > 800
            colours = image.convert("RGB").getcolors(maxcolors=image.width * image.height)
            assert colours is not None
            assert len(colours) > 20, f"{key} is empty"
        svg = (run_folder / "figures" / f"{key}.svg").read_text(encoding="utf-8")
        assert svg.rstrip().endswith("</svg>")
        assert svg.count("<path") > 20


def test_the_same_records_give_the_same_bytes(study: list[TrialRecord], tmp_path: Path) -> None:
    own = [record for record in study if record.outcome is Outcome.STOPPED][:9]
    publish(tmp_path, own)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    publish(tmp_path, own)

    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_interrupted_report_leaves_the_earlier_one_whole(
    study: list[TrialRecord], run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search.report.writer, "save_tables", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, [record for record in study if record.outcome is Outcome.DIVERGED])

    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_every_chart_names_its_units_and_its_question(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    for chart in make_charts(study, optima, fit_laws(optima)):
        for axis in (chart.x, chart.y):
            assert re.search(r"\((nats per token|layers|ms|.*FLOPs|.*count)\)|tokens", axis.label)
            assert 2 <= len(axis.ticks) <= 12
            assert all(axis.low <= value <= axis.high for value, _ in axis.ticks)
            assert len({text for _, text in axis.ticks}) == len(axis.ticks)
        assert "total count" in chart.question
        assert "tokens" in chart.question


def test_loss_against_depth_shows_every_trial_once(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    own = of_budget(study, BUDGETS[0])
    charts = {chart.key: chart for chart in make_charts(study, optima, ())}

    chart = charts[f"loss-against-depth-{BUDGETS[0]}"]

    points = [mark for mark in chart.marks if isinstance(mark, Points)]
    shown = [text.split(":")[0] for mark in points for text in mark.hover]
    names = {record.spec.trial for record in own}
    assert sorted(text for text in shown if text in names) == sorted(r.spec.trial for r in own)
    inside = [y for mark in points for y in mark.y]
    assert all(chart.y.low <= y <= chart.y.high for y in inside), "none is cut off"


def test_rungs_are_marked_on_the_learning_curves(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    charts = {chart.key: chart for chart in make_charts(study, optima, ())}

    marks = charts[f"learning-curves-{BUDGETS[1]}"].marks

    rungs = [mark.x[0] for mark in marks if isinstance(mark, Line) and mark.name == "rung"]
    assert rungs == [BUDGETS[1] * 20 // 4, BUDGETS[1] * 20 // 2]


def test_interactive_charts_are_plain_json(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    for chart in make_charts(study, optima, fit_laws(optima)):
        drawn = interactive(chart)

        assert len(drawn["data"]) == len(chart.marks)
        assert json.loads(json.dumps(drawn, allow_nan=False)) == drawn


def test_report_json_has_the_shape_that_is_promised(optima: tuple[Optimum, ...]) -> None:
    found = report_json("simulated", optima, fit_laws(optima))

    assert list(found) == ["study", "budgets", "law"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    keys = "budget count tokens optimal_depth interval plateau verdict shape loss trials"
    for budget in found["budgets"]:
        assert list(budget) == keys.split()
        assert list(budget["trials"]) == ["finished", "stopped", "diverged", "failed"]
        assert budget["trials"]["failed"] == 1, "running out of memory is a way to fail"
        assert budget["shape"]["depth"] >= 1
    assert found["law"]["name"] in ("logarithmic", "power")
    assert report_json("simulated", optima, ())["law"] is None


def test_what_the_data_do_not_show_is_said(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    edge = replace(optima[0], verdict=Verdict.EDGE)

    limits = unsupported(study, (edge, *optima[1:]), (), {})

    assert "300k: that the best depth lies inside the range that was tried." in limits
    assert any("none of their trials finished" in limit for limit in limits)
    assert any("stopping early was fair" in limit for limit in limits)
    assert any(limit.startswith("Law: any line from size to depth") for limit in limits)


@pytest.mark.parametrize(
    ("low", "high"), [(1.5, 1.5004), (0.2, 3000), (3.1e13, 3.4e13), (1, 1e12), (0.5, 7)]
)
def test_ticks_are_few_distinct_and_inside(low: float, high: float) -> None:
    for values in (log_ticks(low, high), [value for value, _ in linear_ticks(low, high)]):
        assert 2 <= len(values) <= 8
        slack = 1e-9 * (high - low)
        assert all(low - slack <= value <= high + slack for value in values)
    texts = [text for _, text in linear_ticks(low, high)]
    assert len(set(texts)) == len(texts)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to draw the page")
@pytest.mark.parametrize("width", [500, 1400])
def test_a_browser_draws_every_figure_inside_the_window(
    width: int, run_folder: Path, tmp_path: Path
) -> None:
    seen = in_browser(run_folder / "report.html", width, tmp_path)

    assert seen["overflow"] <= 0, "nothing is wider than the window"
    assert seen["drawn"] == 1 + 4 * len(BUDGETS)
    assert seen["errors"] == []
    assert seen["cut"] == [], "no label is outside its figure"


PROBE = """<script>
const errors = []; addEventListener("error", (event) => errors.push(event.message));
document.addEventListener("securitypolicyviolation", (e) => errors.push(e.blockedURI));
addEventListener("load", () => dispatchEvent(new Event("beforeprint")));  // draws all at once
addEventListener("load", () => setTimeout(() => {
  const cut = [];
  for (const plot of document.querySelectorAll("div.plot")) {
    const box = plot.getBoundingClientRect();
    for (const text of plot.querySelectorAll("svg text")) {
      const own = text.getBoundingClientRect();
      if (own.width && (own.left < box.left - 1 || own.right > box.right + 1
          || own.top < box.top - 1 || own.bottom > box.bottom + 1))
        cut.push(plot.dataset.chart + ": " + text.textContent);
    }
  }
  const root = document.documentElement;
  const drawn = document.querySelectorAll("div.plot .xtitle").length;
  const seen = {overflow: root.scrollWidth - root.clientWidth, drawn, errors, cut};
  document.body.innerHTML = "";
  document.body.textContent = "SEEN" + JSON.stringify(seen) + "NEES";
}, 4000));
</script>"""
"""Put into the page before its own scripts; says what a reader would see."""


def in_browser(page: Path, width: int, folder: Path) -> Any:
    assert CHROMIUM is not None
    probed = folder / "probed.html"
    text = page.read_text(encoding="utf-8")
    probed.write_text(text.replace("</head>", f"{PROBE}</head>", 1), encoding="utf-8")
    switches = "headless no-sandbox disable-gpu disable-quic no-first-run disable-sync dump-dom"
    done = subprocess.run(
        [
            CHROMIUM,
            *(f"--{switch}" for switch in switches.split()),
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=9000",
            f"--window-size={width},20000",
            probed.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = re.search(r"SEEN(\{.*?\})NEES", done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))
