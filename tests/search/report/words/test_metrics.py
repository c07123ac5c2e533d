"""Metrics by depth, such as exact match and BLEU, as the report and a terminal say."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from fathom.search.records import CurvePoint, TrialRecord
from fathom.search.report.pages.writer import make_charts
from tests.support.papers import DEV, GEN, lines_on, matched_records
from tests.support.reporting import Records, conclusion_of, page_on, publish, visible

PETTY = matched_records(beyond=0.1, depths=(2, 4, 8))


def measured(
    records: Sequence[TrialRecord], metric: Callable[[CurvePoint, TrialRecord], dict[str, float]]
) -> Records:
    """The records with other metrics at each evaluation."""
    return [
        replace(r, curve=tuple(replace(p, metrics=metric(p, r)) for p in r.curve)) for r in records
    ]


def test_the_page_has_exact_match_by_depth_as_table_and_figure(tmp_path: Path) -> None:
    words = visible(publish(tmp_path, PETTY))
    lines = "\n".join(lines_on(PETTY))

    assert "Exact match by depth depthtrialsdevgen" in words
    for depth, at in ((2, "depth 2"), (4, "4"), (8, "8")):
        mean = fmean(r.curve[-1].metrics[GEN] for r in PETTY if r.spec.shape.depth == depth)
        assert f"{mean:.3f} [" in words
        assert f"{mean:.3f} at {at}" in lines
    assert (tmp_path / "figures" / "exact-match-against-depth-1000000.svg").exists()


def test_exact_match_of_zero_everywhere_is_nothing_learned() -> None:
    zero = measured(PETTY, lambda *_: {DEV: 0.0, GEN: 0.0})
    words, lines = visible(page_on(zero)), "\n".join(lines_on(zero))

    assert "Exact match on gen is 0 at every depth: nothing learned" in words
    assert "1M: exact match on gen: 0 at every depth, nothing learned" in lines
    assert "0.000 at" not in lines
    assert "at equal" not in lines
    assert not [chart for chart in make_charts(conclusion_of(zero)) if "match" in chart.key]


def test_bleu_is_said_from_0_to_100_by_its_way_of_decoding() -> None:
    translated = measured(PETTY, lambda _, trial: {"bleu/beam": 30.0 + trial.spec.shape.depth})
    (chart,) = [found for found in make_charts(conclusion_of(translated)) if "bleu" in found.key]

    line = "1M: BLEU by beam: 32.0 at depth 2, 34.0 at 4, 38.0 at 8"
    assert line in lines_on(translated)
    assert "BLEU by depth depthtrialsbeam" in visible(page_on(translated))
    assert chart.y.label == "BLEU (0 to 100)"
    assert chart.y.high > 38


def test_the_name_of_a_metric_cannot_become_part_of_the_page() -> None:
    hostile = "exact_match/<img src=x onerror=alert(2)>"
    page = page_on(measured(PETTY, lambda point, _: {hostile: point.metrics[GEN]}))
    assert "<img" not in page
    assert hostile in visible(page)
