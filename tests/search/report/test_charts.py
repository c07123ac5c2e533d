"""The report's figures: what they show, where it is from, and how a browser draws them."""

import json
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import plotly.graph_objects as plotly
import pytest

from fathom.search.analysis.law import fit_laws
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.findings import find_paper_findings
from fathom.search.records import TrialRecord
from fathom.search.report.charts.chart import Band, Line, Points, depth_hue, linear_ticks, log_ticks
from fathom.search.report.charts.cost import loss_against_step_time
from fathom.search.report.charts.depth import loss_against_depth
from fathom.search.report.charts.law import depth_against_budget
from fathom.search.report.charts.page_figures import interactive
from fathom.search.report.charts.paper_figures import save_static
from fathom.search.report.charts.sizes import loss_against_size
from fathom.search.report.charts.trials import describe
from fathom.search.report.writer import make_charts
from tests.support.reporting import BUDGETS, conclusion_of, of_budget, page_on
from tests.support.simulated import simulated_study

CHROMIUM = shutil.which("chromium")


def test_every_chart_names_its_units_and_its_question(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    for chart in make_charts(conclusion_of(study)):
        for axis in (chart.x, chart.y):
            assert re.search(r"\((nats|layers|ms|.*FLOPs|.*count)\)|tokens", axis.label)
            assert 2 <= len(axis.ticks) <= 12
            assert all(axis.low <= value <= axis.high for value, _ in axis.ticks)
            assert len({text for _, text in axis.ticks}) == len(axis.ticks)
        assert "total count" in chart.question
        assert "tokens" in chart.question


def test_loss_against_depth_shows_every_trial_once(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    own = of_budget(study, BUDGETS[0])
    charts = {chart.key: chart for chart in make_charts(conclusion_of(study))}

    chart = charts[f"loss-against-depth-{BUDGETS[0]}"]

    points = [mark for mark in chart.marks if isinstance(mark, Points)]
    shown = [text.split(":")[0] for mark in points for text in mark.hover]
    names = {record.spec.trial for record in own}
    assert sorted(text for text in shown if text in names) == sorted(r.spec.trial for r in own)
    inside = [y for mark in points for y in mark.y]
    assert all(chart.y.low <= y <= chart.y.high for y in inside), "none is cut off"


def test_depths_are_drawn_against_one_another_and_crossings_lie_on_their_lines(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    crossings = find_paper_findings(study, seed=0).crossings
    assert crossings is not None
    pair = replace(crossings.pairs[0], neighbours=True, params=BUDGETS[0], interval=BUDGETS[:2])

    chart = loss_against_size(optima, replace(crossings, pairs=(pair,)))

    assert chart is not None
    lines = {int(mark.name): mark for mark in chart.marks if isinstance(mark, Line)}
    for optimum in optima:
        best = min(own.loss for own in optimum.depths)
        for own in (own for own in optimum.depths if own.depth in lines):
            line = lines[own.depth]
            assert line.y[line.x.index(optimum.budget)] == own.loss - best
    star = chart.marks[-1]
    assert isinstance(star, Points)
    assert (star.x, star.y) == ((BUDGETS[0],), (lines[pair.shallow].y[0],))
    assert loss_against_size(optima[:1], None) is None


def test_rungs_are_marked_on_the_learning_curves(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    charts = {chart.key: chart for chart in make_charts(conclusion_of(study))}

    marks = charts[f"learning-curves-{BUDGETS[1]}"].marks

    rungs = [mark.x[0] for mark in marks if isinstance(mark, Line) and mark.name == "rung"]
    assert rungs == [BUDGETS[1] * 20 // 4, BUDGETS[1] * 20 // 2]


def test_a_hover_text_shows_values_of_the_records_wherever_a_point_is_drawn(
    study: list[TrialRecord],
) -> None:
    records = {r.spec.trial: r for r in of_budget(study, BUDGETS[0])}
    off_scale = 0
    for chart in make_charts(conclusion_of(list(records.values()))):
        for trace in interactive(chart)["data"] if chart.budget else ():
            hovers = [trace.get(name, ()) for name in ("text", "customdata", "hovertemplate")]
            if not hovers[0]:
                continue
            for text, (x, y), template in zip(*hovers, strict=True):
                assert "%{x" not in template, "the place at which a point is drawn"
                assert "%{y" not in template
                record = records.get(text.split("<br>")[0])
                if record is None:
                    continue
                assert y == record.curve[-1].loss
                if chart.key.startswith("loss-against-depth"):
                    assert x == record.spec.shape.depth
                assert template.count("(off scale)") == (y > chart.y.high)
                off_scale += y > chart.y.high
    assert off_scale


def test_marks_that_are_no_losses_show_no_loss(study: list[TrialRecord]) -> None:
    own = of_budget(study, BUDGETS[0])
    charts = {chart.key: interactive(chart) for chart in make_charts(conclusion_of(own))}
    depths = charts[f"loss-against-depth-{BUDGETS[0]}"]["data"]
    [plateau] = [trace for trace in depths if trace["name"] == "plateau"]
    assert all("loss" not in template for template in plateau["hovertemplate"])
    curves = charts[f"learning-curves-{BUDGETS[0]}"]["data"]
    rungs = [trace for trace in curves if trace["name"] == "rung"]
    assert rungs
    assert not any("loss" in trace["hovertemplate"] for trace in rungs)


def test_interactive_charts_are_plain_json(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    for chart in make_charts(conclusion_of(study)):
        drawn = interactive(chart)

        assert len(drawn["data"]) == len(chart.marks)
        assert json.loads(json.dumps(drawn, allow_nan=False)) == drawn
        seen_by_plotly = plotly.Figure(**drawn).to_plotly_json()
        assert seen_by_plotly["data"] == drawn["data"]
        assert {key: seen_by_plotly["layout"][key] for key in drawn["layout"]} == drawn["layout"]


def test_neighbouring_depths_have_colours_that_differ_and_stand_out() -> None:
    depths = range(1, 9)
    hues = [depth_hue(depth, [*depths, 8]) for depth in depths]

    for page, of_page in (
        ("#ffffff", [h.light for h in hues]),
        ("#13161b", [h.dark for h in hues]),
    ):
        assert all(contrast(colour, page) >= 3 for colour in of_page)
        for one, other in pairwise(of_page):
            assert max(abs(a - b) for a, b in zip(rgb(one), rgb(other), strict=True)) >= 15


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, as WCAG defines it."""
    shares = [[channel / 255 for channel in rgb(colour)] for colour in (one, other)]
    linear = [
        [s / 12.92 if s <= 0.03928 else ((s + 0.055) / 1.055) ** 2.4 for s in own] for own in shares
    ]
    low, high = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear)
    return (high + 0.05) / (low + 0.05)


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


def test_both_families_of_curves_are_drawn_over_the_depths_that_finished(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    charts = {chart.key: chart for chart in make_charts(conclusion_of(study))}
    optimum = optima[1]
    assert optimum.power
    assert optimum.parabola

    lines = {
        mark.name: mark
        for mark in charts[f"loss-against-depth-{BUDGETS[1]}"].marks
        if isinstance(mark, Line)
    }

    assert set(lines) == {"fit", "parabola"}
    for name, curve in (("fit", optimum.power), ("parabola", optimum.parabola)):
        line = lines[name]
        assert line.x[0] == optimum.depths[0].depth
        assert line.x[-1] == pytest.approx(optimum.depths[-1].depth)
        assert line.y == tuple(curve(depth) for depth in line.x)
    assert lines["parabola"].dash, "the second opinion"
    assert not lines["fit"].dash


def test_bars_are_inside_the_scale(study: list[TrialRecord], optima: tuple[Optimum, ...]) -> None:
    unsure = replace(
        optima[0], depths=tuple(replace(own, standard_error=0.05) for own in optima[0].depths)
    )
    chart = loss_against_depth(of_budget(study, BUDGETS[0]), unsure)

    assert chart
    [means] = [mark for mark in chart.marks if mark.name == "mean of a depth"]
    assert isinstance(means, Points)
    assert all(chart.y.low <= low for low, _ in means.bars)


def test_best_depths_are_the_lowest_points_of_the_curves_beside_published_ones(
    optima: tuple[Optimum, ...],
) -> None:
    laws = fit_laws(optima)
    chart = depth_against_budget(optima, laws)

    assert chart
    marks = {mark.name: mark for mark in chart.marks}
    points = marks["best depth"]
    assert isinstance(points, Points)
    assert points.y == tuple(own.curve_minimum for own in optima)
    assert points.bars == tuple(own.curve_minimum_interval for own in optima)
    band = marks["CompleteP within 1 %"]
    constant = marks["width 64 x depth"]
    assert isinstance(band, Band)
    assert isinstance(constant, Line)
    assert all(
        low == pytest.approx(d, rel=2e-3) for low, d in zip(band.low, constant.y, strict=True)
    )
    assert all(high > 3 * low for low, high in zip(band.low, band.high, strict=True))
    assert {"Levine et al. 2020", "power law", "logarithmic law"} <= set(marks)
    sure = marks[f"95 % of the {laws[0].name} law"]
    assert isinstance(sure, Band)
    middle = min(range(len(sure.x)), key=lambda i: abs(sure.x[i] - BUDGETS[1]))
    assert sure.high[middle] / sure.low[middle] < 1.5, "three budgets make a band of use"
    ends = {mark.dash for mark in chart.marks if isinstance(mark, Line) and "power" in mark.name}
    assert ends == {True, False}, "dashed where it is extrapolated"


@pytest.mark.parametrize("against", ["step-time", "flops"])
def test_the_pareto_front_joins_trials_that_no_cheaper_one_beats(
    against: str, study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    charts = {chart.key: chart for chart in make_charts(conclusion_of(study))}

    marks = charts[f"loss-against-{against}-{BUDGETS[2]}"].marks

    [front] = [mark for mark in marks if isinstance(mark, Line)]
    trials = [
        pair
        for mark in marks
        if isinstance(mark, Points)
        for pair in zip(mark.x, mark.y, strict=True)
    ]
    assert list(front.x) == sorted(front.x)
    assert list(front.y) == sorted(front.y, reverse=True)
    for cost, loss in zip(front.x, front.y, strict=True):
        assert all(y >= loss for x, y in trials if x <= cost)
    depths = {r.spec.shape.depth for r in of_budget(study, BUDGETS[2]) if r.loss is not None}
    named = {mark.name for mark in marks if isinstance(mark, Points) and mark.in_legend}
    assert named == {str(depth) for depth in depths}, "the legend names every depth"


def test_step_times_of_one_type_of_device_alone_are_compared(
    study: list[TrialRecord], optima: tuple[Optimum, ...]
) -> None:
    own = [record for record in of_budget(study, BUDGETS[0]) if record.loss is not None]
    mixed = [replace(r, device="L4" if at < 2 else "H200") for at, r in enumerate(own)]

    alone = loss_against_step_time(mixed[2:], optima[0])
    both = loss_against_step_time(mixed, optima[0])

    assert alone
    assert both
    assert both.marks == alone.marks
    assert "Only trials of one device, H200, are shown." in both.caption
    assert "Only trials" not in alone.caption


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to draw the page")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_draws_every_figure_inside_the_window(width: int, tmp_path: Path) -> None:
    """Windows as wide as a phone and as a desktop screen."""
    (tmp_path / "report.html").write_text(page_on(simulated_study(budgets=BUDGETS)), "utf-8")

    seen = in_browser(tmp_path / "report.html", width, tmp_path)

    assert seen["overflow"] <= 0, "nothing is wider than the window"
    assert seen["drawn"] == 2 * (2 + 4 * len(BUDGETS)), "each with the titles of both axes"
    assert seen["errors"] == []
    assert seen["cut"] == [], "no label is outside its figure"
    assert seen["lowest"] >= 220, "no legend takes the place of its figure"


PROBE = """<script>
const errors = []; addEventListener("error", (event) => errors.push(event.message));
document.addEventListener("securitypolicyviolation", (e) => errors.push(e.blockedURI));
addEventListener("load", () => dispatchEvent(new Event("beforeprint")));  // draws all at once
addEventListener("load", () => setTimeout(() => {
  const cut = [], heights = [];
  for (const plot of document.querySelectorAll("div.plot")) {
    const box = plot.getBoundingClientRect();
    heights.push(plot.querySelector(".nsewdrag").getBoundingClientRect().height);
    for (const text of plot.querySelectorAll("svg text")) {
      const own = text.getBoundingClientRect();
      if (own.width && (own.left < box.left - 1 || own.right > box.right + 1
          || own.top < box.top - 1 || own.bottom > box.bottom + 1))
        cut.push(plot.dataset.chart + ": " + text.textContent);
    }
  }
  const root = document.documentElement;
  const drawn = document.querySelectorAll("div.plot .xtitle, div.plot .ytitle").length;
  const overflow = root.scrollWidth - root.clientWidth, lowest = Math.min(...heights);
  parent.postMessage(JSON.stringify({overflow, drawn, errors, cut, lowest}), "*");
}, 4000));
</script>"""
"""Put into the page before its own scripts; says what a reader would see."""
FRAME = """<!doctype html><body style="margin:0"><script>
addEventListener("message", (m) => { document.body.textContent = "SEEN" + m.data + "NEES"; });
</script><iframe src="probed.html" style="border:0" width="%d" height="20000"></iframe>"""
"""Around the page, since no window of a browser without a screen is narrower than 500 pixels."""


def in_browser(page: Path, width: int, folder: Path) -> Any:
    assert CHROMIUM is not None
    text = page.read_text(encoding="utf-8").replace("</head>", f"{PROBE}</head>", 1)
    (folder / "probed.html").write_text(text, encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(FRAME % width, encoding="utf-8")
    switches = "headless no-sandbox disable-gpu disable-quic no-first-run disable-sync dump-dom"
    done = subprocess.run(
        [
            CHROMIUM,
            *(f"--{switch}" for switch in switches.split()),
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=9000",
            f"--window-size={max(width, 500)},20000",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = re.search(r"SEEN(\{.*?\})NEES", done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


def test_a_hover_text_has_the_learning_rate_of_the_trial(
    study: list[TrialRecord],
) -> None:
    record = study[0]
    faster = replace(record, spec=replace(record.spec, learning_rate=4e-3, rate_scale=2.0))
    assert "rate 0.004," in describe(faster)


def test_a_legend_of_many_rows_makes_a_figure_higher_and_not_its_axes_lower(
    study: list[TrialRecord], optima: tuple[Optimum, ...], tmp_path: Path
) -> None:
    chart = next(chart for chart in make_charts(conclusion_of(study)) if chart.budget)
    line = next(mark for mark in chart.marks if isinstance(mark, Line))
    many = tuple(replace(line, name=f"the curve of number {n}", in_legend=True) for n in range(60))
    save_static([replace(chart, key="few"), replace(chart, key="many", marks=many)], tmp_path)
    few, high = (_png_size(tmp_path / f"{key}.png") for key in ("few", "many"))
    assert few == (1024, 768)
    assert high[0] == 1024
    assert high[1] > 20 * 25 + 2.7 * 160, "twenty rows below the lowest axes"


def test_many_horizons_are_named_by_the_first_and_the_last(optima: tuple[Optimum, ...]) -> None:
    known = next(optimum for optimum in optima if optimum.optimal_depth)
    many = [replace(known, budget=n * 10**6, tokens=n * 2 * 10**7) for n in range(1, 101)]
    chart = depth_against_budget(many, ())
    assert chart
    assert chart.question.endswith("20M to 2B tokens")


def _png_size(path: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height
