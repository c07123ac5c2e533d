"""Crossings, depth needed and matched comparisons, as the report, its tables and a terminal say."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from rich.console import Console

from fathom.search.analysis.papers.crossings import CrossingLaw
from fathom.search.analysis.papers.findings import PaperFindings, find_paper_findings
from fathom.search.analysis.papers.matched_loss import Estimate, LossLevel, MatchedComparison
from fathom.search.analysis.papers.required_depth import DifficultyDepth
from fathom.search.records import CurvePoint, Outcome, TrialRecord
from fathom.search.report.pages.data import save_tables, tables
from fathom.search.report.pages.writer import make_charts
from fathom.search.report.terminal.answer_tables import print_papers
from fathom.search.report.words.papers import (
    HEADINGS,
    crossing_law_text,
    need_text,
    papers_lines,
    verdict,
)
from tests.support.papers import DEV, GEN, crossing_records, hop_records, matched_records
from tests.support.reporting import Records, conclusion_of, page_on, publish, rows, visible
from tests.support.simulated import simulated_study

LEVINE = crossing_records(seeds=2)
HOPS = hop_records()
PETTY = matched_records(beyond=0.1, depths=(2, 4, 8))


def found_in(records: Sequence[TrialRecord]) -> PaperFindings:
    return find_paper_findings(records, seed=0)


def measured(
    records: Sequence[TrialRecord], metric: Callable[[CurvePoint, TrialRecord], dict[str, float]]
) -> Records:
    """The records with other metrics at each evaluation."""
    return [
        replace(r, curve=tuple(replace(p, metrics=metric(p, r)) for p in r.curve)) for r in records
    ]


def said_of(records: Sequence[TrialRecord]) -> str:
    return visible(page_on(records))


def test_the_page_has_exact_match_by_depth_as_table_and_figure(tmp_path: Path) -> None:
    words = visible(publish(tmp_path, PETTY))
    lines = "\n".join(papers_lines(found_in(PETTY)))

    assert "Exact match by depth depthtrialsdevgen" in words
    for depth, at in ((2, "depth 2"), (4, "4"), (8, "8")):
        mean = fmean(r.curve[-1].metrics[GEN] for r in PETTY if r.spec.shape.depth == depth)
        assert f"{mean:.3f} [" in words
        assert f"{mean:.3f} at {at}" in lines
    assert (tmp_path / "figures" / "exact-match-against-depth-1000000.svg").exists()


def test_exact_match_of_zero_everywhere_is_nothing_learned() -> None:
    zero = measured(PETTY, lambda *_: {DEV: 0.0, GEN: 0.0})
    words, lines = said_of(zero), "\n".join(papers_lines(found_in(zero)))

    assert "Exact match on gen is 0 at every depth: nothing learned" in words
    assert "1M: exact match on gen: 0 at every depth, nothing learned" in lines
    assert "0.000 at" not in lines
    assert "at equal" not in lines
    assert not [chart for chart in make_charts(conclusion_of(zero)) if "match" in chart.key]


def test_bleu_is_said_from_0_to_100_by_its_way_of_decoding() -> None:
    translated = measured(PETTY, lambda _, trial: {"bleu/beam": 30.0 + trial.spec.shape.depth})
    (chart,) = [found for found in make_charts(conclusion_of(translated)) if "bleu" in found.key]

    line = "1M: BLEU by beam: 32.0 at depth 2, 34.0 at 4, 38.0 at 8"
    assert line in papers_lines(found_in(translated))
    assert "BLEU by depth depthtrialsbeam" in said_of(translated)
    assert chart.y.label == "BLEU (0 to 100)"
    assert chart.y.high > 38


@pytest.mark.parametrize(("records", "section"), [(LEVINE, 0), (HOPS, 1), (PETTY, 2), ([], None)])
def test_a_section_appears_only_with_findings(records: Records, section: int | None) -> None:
    page = page_on(records)
    for number, (anchor, heading) in enumerate(HEADINGS.items()):
        there = (heading in visible(page), f'<a href="#{anchor}">' in page)
        assert (*there, f'<section id="{anchor}">' in page) == (number == section,) * 3


def test_the_page_says_crossings_and_their_law_with_intervals() -> None:
    papers = found_in(LEVINE)
    assert papers.crossings
    law = papers.crossings.law
    assert law.a_interval
    words = said_of(LEVINE)

    assert f"a = {law.a:.3f} [{law.a_interval[0]:.3f} to {law.a_interval[1]:.3f}]" in words
    assert "Through 4 crossings of neighbouring depths goes ln d_model" in words
    assert "depth 3 begins to beat depth 2" in words
    assert "a parabola through 5 budgets" in words


def test_a_study_without_a_law_says_so_plainly() -> None:
    flat = crossing_records(lambda _: lambda _: 0.0)
    words = said_of(flat)
    assert "No law of width against depth; a law needs 3 crossings" in words
    assert "depth 3 and depth 2 are not told apart at any size" in words
    doubtful = CrossingLaw(
        crossings=3, supported=False, reason="b may be 0", a=5.0, b=0.01,
        a_interval=(4.0, 6.0), b_interval=(-0.01, 0.03),
    )  # fmt: skip
    assert crossing_law_text(doubtful) == (
        "the data do not support a law through 3 crossings of neighbouring depths; b may be 0 "
        "(a = 5.000 [4.000 to 6.000], b = 0.0100 [-0.0100 to 0.0300])"
    )


def test_the_page_says_depth_needed_and_what_a_layer_gains() -> None:
    words = said_of(HOPS)
    [required] = found_in(HOPS).required_depths
    assert required.gained_interval
    assert "100k: error/k at most 0.05 in the mean of 3 trials or more of a depth" in words
    assert f"gains {required.gained:.2f} [{required.gained_interval[0]:.2f} to" in words
    assert "doublings of the difficulty" in words


@pytest.mark.parametrize(
    ("depths", "words"),
    [
        ((3, 3, 3), "3"),
        ((3, 2, 4), "3 [2 to 4]"),
        ((3, 3, None), "3 [3 to deeper than tried]"),
        ((None, None, None), "none tried"),
        ((None, 4, None), "none tried (a trial passes at 4)"),
    ],
)
def test_a_required_depth_has_the_range_of_single_trials(
    depths: tuple[int | None, int | None, int | None], words: str
) -> None:
    depth, soonest, surest = depths
    need = DifficultyDepth(difficulty=8, depth=depth, soonest=soonest, surest=surest)
    assert need_text(need) == words


def test_the_page_says_whether_depth_helps_beyond_the_loss() -> None:
    words = said_of(PETTY)
    assert "1M: exact_match/gen/all at equal validation loss" in words
    assert "1M: exact_match/gen/all at equal exact_match/dev/all" in words
    assert "better (+0.0" in words
    assert "not told apart" in said_of(matched_records(beyond=0.0))


def test_lines_in_a_terminal_are_the_short_form() -> None:
    lines = [line for study in (LEVINE, HOPS, PETTY) for line in papers_lines(found_in(study))]

    assert lines[0].startswith("crossing: depth 3 begins to beat depth 2 at ")
    text = "\n".join(lines)
    assert "\ncrossings: through 4 crossings" in text
    assert "\n100k: error/k at most 0.05" in text
    assert "\n1M: exact_match/gen/all at equal validation loss, depth 2 to 4 better" in text
    out = io.StringIO()
    print_papers(found_in(HOPS), Console(file=out, width=300))
    assert out.getvalue().splitlines() == papers_lines(found_in(HOPS))
    assert papers_lines(found_in([])) == []


def test_the_tables_hold_every_number_that_is_said(tmp_path: Path) -> None:
    records = [*LEVINE, *HOPS, *PETTY]
    papers = found_in(records)
    (tmp_path / "tables").mkdir()
    save_tables(tmp_path / "tables", tables(conclusion_of(records)))

    assert papers.crossings
    found = rows(tmp_path, "crossings")
    assert [float(row["params"]) for row in found if row["params"]] == [
        pair.params for pair in papers.crossings.pairs if pair.params
    ]
    [law] = rows(tmp_path, "crossing_law")
    assert (float(law["a"]), float(law["b"])) == (papers.crossings.law.a, papers.crossings.law.b)
    needed = rows(tmp_path, "required_depth")
    assert [int(row["depth"]) for row in needed] == [
        need.depth for required in papers.required_depths for need in required.needs
    ]
    compared = rows(tmp_path, "matched")
    assert [float(row["difference"]) for row in compared] == [
        level.difference.mean for comparison in papers.matched for level in comparison.levels
    ]


def test_paper_findings_depend_on_the_finished_trials_alone() -> None:
    study = simulated_study()
    finished = [record for record in study if record.outcome is Outcome.FINISHED]
    assert found_in(study) == found_in(finished)


def test_the_name_of_a_metric_cannot_become_part_of_the_page() -> None:
    hostile = "exact_match/<img src=x onerror=alert(2)>"
    page = page_on(measured(PETTY, lambda point, _: {hostile: point.metrics[GEN]}))
    assert "<img" not in page
    assert hostile in visible(page)


def test_a_metric_that_stayed_at_zero_is_called_nothing_learned() -> None:
    zero = Estimate(mean=0.0, interval=(0.0, 0.0))
    level = LossLevel(level=1.0, shallow=zero, deep=zero, difference=zero)
    pair = MatchedComparison(
        budget=1, metric="exact_match/gen", yardstick="loss", shallow=1, deep=2, trials=(2, 2),
        levels=(level,),
    )  # fmt: skip
    assert verdict(pair) == "nothing learned (0 for both)"
