"""The figure with a handle over sizes: `search/report/pages/sounding.py`."""

import json
import re
from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from fathom.models.shape import Count
from fathom.search.analysis.answer.optimum import Located
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.report.pages.page import page
from fathom.search.report.pages.sounding import BEYOND, SizeStop, SoundingValues, _between, sounding
from fathom.search.report.words.other_depths import COMPUTE, COST, cost_cells
from tests.support.latencies import kept, latency_of
from tests.support.optima import located, not_located
from tests.support.reporting import BUDGETS, Records, conclusion_of, visible

TEMPLATES = Path("search/report/pages/templates")
MOST_BYTES = 60_000


@pytest.fixture(scope="module")
def found(study: Records) -> Conclusion:
    return conclusion_of(study)


@pytest.fixture(scope="module")
def sounded(found: Conclusion) -> SoundingValues:
    return told(found)


def told(found: Conclusion) -> SoundingValues:
    values = sounding(found)
    assert values is not None
    return values


def at(sounded: SoundingValues, size: str) -> SizeStop:
    return next(stop for stop in sounded.stops if stop.size == size)


def test_at_a_budget_it_has_the_numbers_of_the_tables(
    found: Conclusion, sounded: SoundingValues
) -> None:
    for optimum, size in zip(found.optima, ("300k", "1M", "3M"), strict=True):
        stop = at(sounded, size)
        assert isinstance(optimum, Located)
        low, high = optimum.interval
        interval = f"{low}" if low == high else f"{low}-{high}"
        assert stop.best == f"{optimum.optimal_depth} [{interval}]"
        assert stop.basis == f"measured: {optimum.kind.value}"
        assert stop.depths[stop.best_index].depth == optimum.optimal_depth
        cells = cost_cells(found, optimum, [each.depth for each in stop.depths])
        for each in stop.depths:
            assert each.nats == cells[each.depth][COST]
            assert each.compute == cells[each.depth][COMPUTE]


def test_between_and_beyond_budgets_it_has_the_law_whose_interval_widens(
    found: Conclusion, sounded: SoundingValues
) -> None:
    laws, widths = found.weighed_laws, []
    assert laws
    for stop in sounded.stops:
        if stop.basis.startswith("by"):
            depth, low, high = map(float, re.findall(r"[\d.]+", stop.best))
            widths.append(high / low)
            size = sounded.chart.x.low * (sounded.chart.x.high / sounded.chart.x.low) ** stop.place
            assert depth == pytest.approx(laws.predict(size).depth, abs=0.06)
    assert widths[-1] > 1.2 * min(widths)
    last = sounded.stops[-1]
    assert last.size == "30M", f"{BEYOND} times the largest"
    assert last.basis == f"by the {laws.name} laws, beyond what was measured"


def test_where_the_law_has_the_best_depth_a_cost_rises_with_the_square_of_ln_depth(
    found: Conclusion, sounded: SoundingValues
) -> None:
    curvature = located(found.optima[-1]).curves.parabola.c2
    stop = sounded.stops[-1]
    assert found.weighed_laws
    best = found.weighed_laws.predict(BEYOND * BUDGETS[-1]).depth
    for each in stop.depths:
        if each.depth != stop.depths[stop.best_index].depth:
            expected = curvature * log(each.depth / best) ** 2
            assert each.nats.startswith(f"{expected:+.4f} [")
            assert each.compute


def test_the_handle_begins_at_the_largest_budget_and_goes_over_ascending_sizes(
    sounded: SoundingValues,
) -> None:
    places = [stop.place for stop in sounded.stops]
    assert places == sorted(set(places))
    assert sounded.stops[sounded.first].size == "3M"


def test_the_handle_stops_at_budgets_and_round_sizes(sounded: SoundingValues) -> None:
    sizes = [stop.size for stop in sounded.stops]
    assert sizes[:7] == ["300k", "400k", "500k", "600k", "800k", "1M", "1.5M"]
    assert sizes[-6:] == ["6M", "8M", "10M", "15M", "20M", "30M"]


def test_no_stop_reads_as_a_budget_does() -> None:
    assert _between([999_999, 3_000_000], 12e6)[:2] == [1.5e6, 2e6]


def test_without_a_law_there_are_the_budgets_alone_and_the_reason(found: Conclusion) -> None:
    two = replace(found, optima=found.optima[:2])
    alone = told(two)
    assert [stop.size for stop in alone.stops] == ["300k", "1M"]
    assert alone.note.startswith("No law between the sizes: it takes three budgets")
    assert {mark.name for mark in alone.chart.marks} >= {"best depth", "finished"}


def test_a_budget_with_two_depths_has_a_best_one_without_costs(found: Conclusion) -> None:
    two = replace(found, optima=(not_located(found.optima[0], 3),))
    [stop] = told(two).stops
    assert stop.best == "3"
    assert [(each.depth, each.nats) for each in stop.depths] == [(3, "")]


def test_there_is_none_without_a_best_depth_or_where_sizes_count_no_parameters(
    found: Conclusion,
) -> None:
    assert sounding(replace(found, optima=(not_located(found.optima[0], None),))) is None
    heads = found.config.model_copy(update={"count": Count.HEADS})
    assert sounding(replace(found, config=heads)) is None


def test_times_of_a_token_stand_beside_the_costs_where_they_were_measured(
    found: Conclusion, tmp_path: Path
) -> None:
    values = sounding(found, kept(found, tmp_path, latency_of(found, 1)))
    assert values is not None
    timed = {each.depth: each.milliseconds for each in at(values, "1M").depths}
    assert timed[4] == "3.66"
    assert not any(each.milliseconds for each in at(values, "3M").depths)


def test_the_page_has_it_in_less_than_60_kb_and_as_a_table_without_a_script(
    found: Conclusion, sounded: SoundingValues
) -> None:
    text = page(found, [])
    section = text[text.index('<section id="at-any-size">') :].split("</section>")[0]
    script = (TEMPLATES / "sounding.js").read_text()
    assert len(section) + len(script) < MOST_BYTES
    stops = re.search(r'class="stops">(.*?)</script>', section, flags=re.DOTALL)
    assert stops is not None
    assert json.loads(stops[1]) == json.loads(json.dumps(sounded.as_json))
    words = visible(section)
    for row in sounded.rows:
        assert row["best depth [95 %]"] in words
        assert row["other depths (nats)"] in words
    assert section.count('type="range"') == 2
    assert 'aria-live="polite"' in section
    assert '<div class="handle" hidden>' in section, "nothing to move without a script"


def test_a_page_without_a_best_depth_has_no_sounding(found: Conclusion) -> None:
    text = page(replace(found, optima=(), records=()), [])
    assert "at-any-size" not in text
    assert "sounding" not in text
