"""The report's figures: what they show, where it is from, and how a browser draws them."""

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

from fathom.models.unit import UNITS, Unit
from fathom.search.analysis.answer.definitions import Standing, depth_standings
from fathom.search.report.charts import trials
from fathom.search.report.charts.chart import (
    Chart,
    Labels,
    Line,
    Points,
    linear_ticks,
    log_ticks,
)
from fathom.search.report.charts.colours import (
    ACCENT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PINK,
    depth_hue,
)
from fathom.search.report.charts.cost import loss_against_step_time
from fathom.search.report.charts.depth import loss_against_depth
from fathom.search.report.charts.page_figures import STEPS, FigureData, page_figure
from fathom.search.report.charts.paper_figures import save_static
from fathom.search.report.charts.strip import strip_chart
from fathom.search.report.charts.trials import apart, describe
from fathom.search.report.charts.units import in_unit
from fathom.search.report.pages import page as page_module
from fathom.search.report.pages.writer import make_charts
from tests.support.colours import EYES, contrast, distance
from tests.support.reporting import BUDGETS, Optima, Records, conclusion_of, of_budget

APART = 14.0
"""Smallest distance of a depth's colour and the accent; about 2 can just be told apart."""


@pytest.fixture(scope="module")
def charts(study: Records) -> dict[str, Chart]:
    return {chart.key: chart for chart in make_charts(conclusion_of(study))}


def test_every_chart_names_its_units_and_its_question(charts: dict[str, Chart]) -> None:
    for chart in charts.values():
        for axis in (chart.x, chart.y):
            assert re.search(r"\((nats|layers|ms|.*FLOPs|.*count)\)|tokens", axis.label)
            assert 2 <= len(axis.ticks) <= 12
            assert all(axis.low <= value <= axis.high for value, _ in axis.ticks)
            assert len({text for _, text in axis.ticks}) == len(axis.ticks)
        assert "total count" in chart.question
        assert "tokens" in chart.question


def test_loss_against_depth_shows_each_trial_once(study: Records, charts: dict[str, Chart]) -> None:
    of_these = of_budget(study, BUDGETS[0])
    chart = charts[f"loss-against-depth-{BUDGETS[0]}"]
    points = [mark for mark in chart.marks if isinstance(mark, Points)]
    shown = [text.split(":")[0] for mark in points for text in mark.hover]
    names = {record.spec.trial for record in of_these}
    assert sorted(text for text in shown if text in names) == sorted(r.spec.trial for r in of_these)
    inside = [y for mark in points for y in mark.y]
    assert all(chart.y.low <= y <= chart.y.high for y in inside), "none is cut off"


def test_rungs_are_marked_on_the_learning_curves(charts: dict[str, Chart]) -> None:
    marks = charts[f"learning-curves-{BUDGETS[1]}"].marks
    rungs = [mark.x[0] for mark in marks if isinstance(mark, Line) and mark.name == "rung"]
    assert rungs == [BUDGETS[1] * 20 // 4, BUDGETS[1] * 20 // 2]


def test_a_hover_text_shows_values_of_the_records_wherever_a_point_is_drawn(study: Records) -> None:
    records = {r.spec.trial: r for r in of_budget(study, BUDGETS[0])}
    off_scale = 0
    for chart in make_charts(conclusion_of(list(records.values()))):
        for text, values in pointed_at(chart):
            record = records.get(text.split(":")[0])
            if record is None:
                continue
            loss = record.curve[-1].loss
            off = " (off scale)" if loss > chart.y.high else ""
            assert values.endswith(f"loss {loss:.4f}{off}")
            if chart.key.startswith("loss-against-depth"):
                assert values.startswith(f"depth {record.spec.shape.depth},")
            off_scale += bool(off)
    assert off_scale


def pointed_at(chart: Chart) -> list[tuple[str, str]]:
    """What is said of each point of a chart: its text and its values."""
    data = FigureData()
    svg = page_figure(chart, data).svg
    found = json.loads(gzip.decompress(b64decode(data.encoded)))
    [figure] = found["figures"].values()
    assert len(figure["points"]) == svg.count("<use "), "in the order in which they are drawn"
    assert len(figure["lines"]) == svg.count('<path class="line"')
    return [(found["texts"][number], ", ".join(values)) for number, *values in figure["points"]]


def test_the_values_of_a_line_can_be_read_off_its_drawing(charts: dict[str, Chart]) -> None:
    chart = charts[f"learning-curves-{BUDGETS[0]}"]
    svg = re.sub(r'<g class="[^"]* mark".*?</g>', "", page_figure(chart, FigureData()).svg)
    drawn = re.findall(r'<path class="line" d="M([^"]*)"', svg)
    lines = [mark for mark in chart.marks if isinstance(mark, Line) and mark.has_values]
    assert len(drawn) == len(lines) > 10
    low, high = chart.y.low, chart.y.high
    for path, line in zip(drawn, lines, strict=True):
        steps = [[int(n) for n in re.findall(r"-?\d+", pair)] for pair in path.split("l")]
        height = 0
        for (_, dy), loss in zip(steps, line.y, strict=True):
            height += dy
            read = low + (1 - height / STEPS) * (high - low)
            assert read == pytest.approx(loss, abs=5e-5), "to all the digits that are shown"


def test_marks_that_are_no_losses_show_no_loss(study: Records) -> None:
    of_these = of_budget(study, BUDGETS[0])
    charts = {chart.key: chart for chart in make_charts(conclusion_of(of_these))}
    svg = page_figure(charts[f"learning-curves-{BUDGETS[0]}"], FigureData()).svg
    [rungs] = re.findall(r'<g class="\w+ dash mark".*?</g>', svg)
    assert rungs.count("<path") == 2, "of which no values are said"


@pytest.mark.parametrize("page", ["#ffffff", "#1a1e25"])
@pytest.mark.parametrize("number", range(2, 8))
def test_deeper_is_further_from_the_page_in_lightness(number: int, page: str) -> None:
    hues = [depth_hue(2**n) for n in range(number)]
    shown = [contrast(hue.light if page == "#ffffff" else hue.dark, page) for hue in hues]

    assert shown[0] >= 3
    assert all(b > a for a, b in pairwise(shown)), "so that eyes of every kind see the order"


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("depth", range(1, 65))
def test_no_depth_has_a_colour_like_the_accent(depth: int, eye: str) -> None:
    hue = depth_hue(depth)
    assert distance(hue.light, ACCENT.light, eye) >= APART
    assert distance(hue.dark, ACCENT.dark, eye) >= APART


def test_names_at_the_ends_of_lines_keep_apart_and_inside() -> None:
    for places in ([0.5, 0.5, 0.5], [0.0, 0.01, 0.99, 1.0], [-3.0, 0.2, 5.0], []):
        moved = apart(places, 0.1)
        assert all(b - a >= 0.1 - 1e-9 for a, b in pairwise(moved))
        assert all(0 <= place <= 1 for place in moved)


def test_learning_curves_name_each_depth_once(study: Records, charts: dict[str, Chart]) -> None:
    chart = charts[f"learning-curves-{BUDGETS[0]}"]
    [names] = [mark for mark in chart.marks if isinstance(mark, Labels)]
    tried = {record.spec.shape.depth for record in of_budget(study, BUDGETS[0])}
    assert sorted(int(text.removesuffix("★")) for text in names.texts) == sorted(tried)
    assert sum("★" in text for text in names.texts) == 1, "the answer"


def test_of_many_trials_a_sample_of_curves_is_drawn_with_the_best_of_each_depth(
    study: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MOST_TRIALS", 4)
    of_these = of_budget(study, BUDGETS[0])
    (optimum,) = (o for o in conclusion_of(study).optima if o.budget == BUDGETS[0])
    chart = trials.learning_curves(of_these, optimum)
    assert chart is not None
    drawn = [mark for mark in chart.marks if isinstance(mark, Line) and mark.name != "rung"]
    assert f"{len(drawn)} of {len(of_these)} trials" in chart.caption
    assert len(drawn) < len(of_these)
    best = {
        min(
            (r for r in of_these if r.spec.shape.depth == depth),
            key=lambda r: (-r.shared_tokens, trials.last_loss(r)),
        ).spec.trial
        for depth in {record.spec.shape.depth for record in of_these}
    }
    assert best <= {line.hover.split(":")[0] for line in drawn}


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


def test_both_families_of_curves_are_drawn_at_whole_depths_from_the_first_that_finished_to_the_last(
    optima: Optima, charts: dict[str, Chart]
) -> None:
    optimum = optima[1]

    marks = charts[f"loss-against-depth-{BUDGETS[1]}"].marks
    lines = {mark.name: mark for mark in marks if isinstance(mark, Line)}

    assert set(lines) == {"fit", "parabola"}
    for name, curve in (("fit", optimum.curves.power), ("parabola", optimum.curves.parabola)):
        line = lines[name]
        assert line.x[0] == optimum.depths[0].depth
        assert line.x[-1] == optimum.depths[-1].depth
        assert all(isinstance(depth, int) for depth in line.x)
        assert line.y == tuple(curve(depth) for depth in line.x)
    assert lines["parabola"].dash, "the second opinion"
    assert not lines["fit"].dash


def test_bars_are_inside_the_scale(study: Records, optima: Optima) -> None:
    depths = tuple(replace(estimate, standard_error=0.05) for estimate in optima[0].depths)
    unsure = replace(optima[0], depths=depths)
    chart = loss_against_depth(of_budget(study, BUDGETS[0]), unsure)

    assert chart
    [means] = [mark for mark in chart.marks if mark.name == "mean of a depth"]
    assert isinstance(means, Points)
    assert all(chart.y.low <= low for low, _ in means.bars)


@pytest.mark.parametrize("against", ["step-time", "flops"])
def test_the_pareto_front_joins_trials_that_no_cheaper_one_beats(
    against: str, study: Records, charts: dict[str, Chart]
) -> None:
    marks = charts[f"loss-against-{against}-{BUDGETS[2]}"].marks

    [front] = [mark for mark in marks if isinstance(mark, Line)]
    points = [mark for mark in marks if isinstance(mark, Points)]
    trials = [pair for mark in points for pair in zip(mark.x, mark.y, strict=True)]
    assert list(front.x) == sorted(front.x)
    assert list(front.y) == sorted(front.y, reverse=True)
    for cost, loss in zip(front.x, front.y, strict=True):
        assert all(y >= loss for x, y in trials if x <= cost)
    depths = {r.spec.shape.depth for r in of_budget(study, BUDGETS[2]) if r.loss is not None}
    named = {mark.name for mark in points if mark.in_legend}
    assert named == {str(depth) for depth in depths}, "the legend names every depth"


def test_step_times_of_one_device_alone_are_compared(study: Records, optima: Optima) -> None:
    of_these = [record for record in of_budget(study, BUDGETS[0]) if record.loss is not None]
    mixed = [replace(r, device="L4" if at < 2 else "H200") for at, r in enumerate(of_these)]

    alone = loss_against_step_time(mixed[2:], optima[0])
    both = loss_against_step_time(mixed, optima[0])

    assert alone
    assert both
    assert both.marks == alone.marks
    assert "Only trials of one device, H200, are shown." in both.caption
    assert "Only trials" not in alone.caption


def test_a_hover_text_has_the_learning_rate_of_the_trial(study: Records) -> None:
    record = study[0]
    faster = replace(record, spec=replace(record.spec, learning_rate=4e-3, rate_scale=2.0))
    assert "rate 0.004," in describe(faster)


def test_a_legend_of_many_rows_makes_a_figure_higher_and_not_its_axes_lower(
    charts: dict[str, Chart], tmp_path: Path
) -> None:
    chart = charts[f"loss-against-step-time-{BUDGETS[0]}"]
    line = next(mark for mark in chart.marks if isinstance(mark, Line))
    many = tuple(replace(line, name=f"the curve of number {n}", in_legend=True) for n in range(60))
    save_static([replace(chart, key="few"), replace(chart, key="many", marks=many)], tmp_path)
    with Image.open(tmp_path / "few.png") as small, Image.open(tmp_path / "many.png") as large:
        few, high = small.size, large.size
    assert few == (1920, 1440)
    assert high[0] == 1920
    assert high[1] > 20 * 47 + 2.7 * 300, "twenty rows below the lowest axes"


def test_text_and_marks_stand_out_from_the_page_in_both_schemes() -> None:
    style = (Path(page_module.__file__).parent / "templates" / "style.css").read_text("utf-8")
    schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    for scheme, of_hue in zip(schemes, ("light", "dark"), strict=True):
        colour = dict(re.findall(r"--([\w-]+): (#\w{6})", scheme))
        for back in ("page", "card"):
            for text in ("ink", "soft", "link"):
                assert contrast(colour[text], colour[back]) >= 4.5, (of_hue, text, back)
        for verdict in ("good", "flat", "edge", "poor"):
            assert contrast(colour[verdict], colour[f"{verdict}-back"]) >= 4.5
        for hue in (ACCENT, GREEN, ORANGE, PINK):
            assert contrast(getattr(hue, of_hue), colour["card"]) >= 3
        for hue in (INK, MUTED):
            assert contrast(getattr(hue, of_hue), colour["card"]) >= 4.5, "it is of texts too"


@pytest.mark.parametrize("unit", [UNITS["bits_per_byte"], Unit("accuracy", nats=0.1, zero=80)])
def test_a_chart_of_losses_is_drawn_in_the_unit_of_its_table(
    study: Records, optima: Optima, unit: Unit
) -> None:
    records = of_budget(study, BUDGETS[0])
    nats = loss_against_depth(records, optima[0])
    drawn = in_unit(nats, unit)
    assert nats
    assert drawn

    assert unit.label in drawn.y.label
    assert drawn.y.low < drawn.y.high
    for before, after in zip(nats.marks, drawn.marks, strict=True):
        if isinstance(before, Points) and isinstance(after, Points):
            assert after.y == pytest.approx([unit.value(y) for y in before.y])
            assert all(drawn.y.low <= y <= drawn.y.high for y in after.y)


def test_prices_of_small_charts_touch_neither_each_other_nor_the_axis(
    study: Records, optima: Optima
) -> None:
    prices = []
    for optimum in optima:
        standings = depth_standings(of_budget(study, optimum.budget), optimum)
        wide = [replace(known, standing=Standing.RULED_OUT) for known in standings]
        chart = strip_chart(wide, optimum)
        assert chart is not None
        for mark in chart.marks:
            if isinstance(mark, Labels):
                prices += [sorted(chart.x.place(x) for x in mark.x)]
    assert max(map(len, prices)) > 1
    for places in prices:
        assert 0.159 < places[0] <= places[-1] < 0.841
        assert all(after - before > 0.4 for before, after in pairwise(places))
