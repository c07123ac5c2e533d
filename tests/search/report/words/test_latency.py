"""The times of depths beside their losses in the report, as `fathom latency` found them last."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.conclusion.conclude import Conclusion
from fathom.search.report.charts.token_time import loss_against_token_time
from fathom.search.report.pages.page import page
from fathom.search.report.pages.writer import make_charts, write_report
from fathom.search.report.words.latency import kept_latency
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.serving.latency_file import write_latency
from tests.support.latencies import kept, latency_of
from tests.support.reporting import BUDGETS, Records, conclusion_of, visible


@pytest.fixture(scope="module")
def found(study: Records) -> Conclusion:
    return conclusion_of(study)


def test_a_budget_that_was_timed_has_a_table_a_choice_and_a_chart(
    found: Conclusion, tmp_path: Path
) -> None:
    latencies = kept(found, tmp_path, latency_of(found, 1))
    words = visible(page(found, make_charts(found, latencies), latencies=latencies))
    assert words.count("Time of an answer") == 1, "one budget of three"
    assert "A prompt of 32 tokens and an answer of 32; a GPU, of which little is known." in words
    assert "Best: 4 layers (3.66 ms a token)" in words
    assert "~3.66" in words
    assert "Loss against the time of a token" in words


def test_a_report_reads_what_the_command_has_written(found: Conclusion, tmp_path: Path) -> None:
    write_latency(RunFolder(tmp_path), {}, [latency_of(found, 0)])
    assert "Time of an answer" in visible(write_report(found, tmp_path).read_text())
    assert (tmp_path / "figures" / f"loss-against-token-time-{BUDGETS[0]}.svg").exists()


def test_times_of_shapes_that_are_the_best_no_more_are_said_to_be_and_not_shown(
    found: Conclusion, tmp_path: Path
) -> None:
    latency = latency_of(found, 0)
    [stale] = kept(found, tmp_path, replace(latency, times=latency.times[1:]))
    assert not stale.is_current
    charts = make_charts(found, [stale])
    assert not any(chart.key.startswith("loss-against-token-time") for chart in charts)
    words = visible(page(found, charts, latencies=[stale]))
    assert "latency.json has times of other shapes" in words
    assert "ms a token" not in words


def test_the_chart_tells_measured_times_from_others_and_joins_the_front(
    found: Conclusion, tmp_path: Path
) -> None:
    [timed] = kept(found, tmp_path, latency_of(found, 1))
    drawn = loss_against_token_time(timed)
    assert drawn is not None
    marks = {mark.name: mark for mark in drawn.marks}
    optimum = found.optima[1]
    assert len(marks["measured"].x) == 1
    assert len(marks["estimated"].x) == len(optimum.depths) - 1
    front = marks["best for its time"]
    lowest = min(optimum.depths, key=lambda estimate: estimate.loss)
    times = {t.shape.depth: 1000 * t.token.seconds for t in timed.latency.times}
    assert front.x[-1] == pytest.approx(times[lowest.depth])


def test_a_damaged_file_of_times_is_refused_with_the_remedy(
    found: Conclusion, tmp_path: Path
) -> None:
    (tmp_path / "latency.json").write_text(json.dumps({"budgets": [{}]}))
    with pytest.raises(RunFolderError, match="delete it, and `fathom latency` makes it again"):
        kept_latency(found, RunFolder(tmp_path))
