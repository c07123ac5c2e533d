"""Crossings, depth needed and matched comparisons, as the report, its tables and a terminal say."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from fathom.papers.analyses.crossings.find import CrossingLaw
from fathom.papers.analyses.crossings.show import crossing_law_text
from fathom.papers.analyses.matched_loss.find import Estimate, LossLevel, MatchedComparison
from fathom.papers.analyses.matched_loss.show import verdict
from fathom.papers.analyses.required_depth.find import DifficultyDepth
from fathom.papers.analyses.required_depth.show import need_text
from fathom.search.conclusion.published import PaperFindings, find_papers
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.pages.data import save_tables, tables
from fathom.search.report.terminal.answer_tables import print_papers
from tests.support.papers import crossing_records, hop_records, lines_on, matched_records
from tests.support.reporting import Records, conclusion_of, page_on, rows, visible
from tests.support.simulated import simulated_study

LEVINE = crossing_records(seeds=2)
HOPS = hop_records()
PETTY = matched_records(beyond=0.1, depths=(2, 4, 8))
HEADINGS = {
    "crossings": "Where deeper begins to win",
    "needed": "Depth needed",
    "matched": "Depth at equal loss",
}


def found_in(records: Sequence[TrialRecord]) -> PaperFindings:
    return find_papers(records, seed=0)


def said_of(records: Sequence[TrialRecord]) -> str:
    return visible(page_on(records))


@pytest.mark.parametrize(("records", "section"), [(LEVINE, 0), (HOPS, 1), (PETTY, 2), ([], None)])
def test_a_section_appears_only_with_findings(records: Records, section: int | None) -> None:
    page = page_on(records)
    for number, (anchor, heading) in enumerate(HEADINGS.items()):
        there = (heading in visible(page), f'<a href="#{anchor}">' in page)
        assert (*there, f'<section id="{anchor}">' in page) == (number == section,) * 3


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


def test_lines_in_a_terminal_are_the_short_form() -> None:
    lines = [line for study in (LEVINE, HOPS, PETTY) for line in lines_on(study)]

    assert lines[0].startswith("crossing: depth 3 begins to beat depth 2 at ")
    text = "\n".join(lines)
    assert "\ncrossings: through 4 crossings" in text
    assert "\n100k: error/k at most 0.05" in text
    assert "\n1M: exact_match/gen/all at equal validation loss, depth 2 to 4 better" in text
    out = io.StringIO()
    print_papers(conclusion_of(HOPS), Console(file=out, width=300))
    assert out.getvalue().splitlines() == lines_on(HOPS)
    assert lines_on([]) == []


def test_the_tables_hold_every_number_that_is_said(tmp_path: Path) -> None:
    records = [*LEVINE, *HOPS, *PETTY]
    papers = found_in(records)
    (tmp_path / "tables").mkdir()
    save_tables(tmp_path / "tables", tables(conclusion_of(records)))

    assert papers["crossings"]
    found = rows(tmp_path, "crossings")
    assert [float(row["params"]) for row in found if row["params"]] == [
        pair.params for pair in papers["crossings"].pairs if pair.params
    ]
    [law] = rows(tmp_path, "crossing_law")
    assert (float(law["a"]), float(law["b"])) == (
        papers["crossings"].law.a,
        papers["crossings"].law.b,
    )
    needed = rows(tmp_path, "required_depth")
    assert [int(row["depth"]) for row in needed] == [
        need.depth for required in papers["required_depths"] for need in required.needs
    ]
    compared = rows(tmp_path, "matched")
    assert [float(row["difference"]) for row in compared] == [
        level.difference.mean for comparison in papers["matched"] for level in comparison.levels
    ]


def test_paper_findings_depend_on_the_finished_trials_alone() -> None:
    study = simulated_study()
    finished = [record for record in study if record.outcome is Outcome.FINISHED]
    assert found_in(study) == found_in(finished)


def test_a_metric_that_stayed_at_zero_is_called_nothing_learned() -> None:
    zero = Estimate(mean=0.0, interval=(0.0, 0.0))
    level = LossLevel(level=1.0, shallow=zero, deep=zero, difference=zero)
    pair = MatchedComparison(
        budget=1, metric="exact_match/gen", yardstick="loss", shallow=1, deep=2, trials=(2, 2),
        levels=(level,),
    )  # fmt: skip
    assert verdict(pair) == "nothing learned (0 for both)"
