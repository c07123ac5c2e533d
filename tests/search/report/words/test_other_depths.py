"""What other depths cost, in nats and compute, as text: `search/report/words/other_depths.py`."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.report.pages.card import card_text
from fathom.search.report.pages.page import page
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.report.words.other_depths import (
    COMPUTE,
    COST,
    compute_note,
    cost_cells,
    cost_note,
    other_depths,
)
from tests.support.optima import located, not_located, verdict
from tests.support.reporting import Records, conclusion_of, visible


@pytest.fixture(scope="module")
def found(study: Records) -> Conclusion:
    return conclusion_of(study)


def test_a_depth_is_told_in_nats_and_as_a_multiple_of_compute_with_the_numbers_of_the_law(
    found: Conclusion,
) -> None:
    optimum = located(found.optima[0])
    told = optimum.costs[0]
    multiple = found.compute_multiple(optimum, told)
    assert multiple is not None
    row = cost_cells(found, optimum, [told.depth])[told.depth]
    low, high = told.interval
    assert row[COST] == f"{told.nats:+.4f} [{low:+.4f} to {high:+.4f}]"
    low, high = multiple.interval
    assert row[COMPUTE] == f"{multiple.middle:.2f} [{low:.2f} to {high:.2f}]"


def test_the_best_depth_and_those_outside_the_tested_range_have_empty_cells(
    found: Conclusion,
) -> None:
    optimum = located(found.optima[0])
    other = optimum.costs[0].depth
    cells = cost_cells(found, optimum, [other, optimum.optimal_depth, 500])
    assert all(cells.pop(other).values())
    assert list(cells.values()) == [{COST: "", COMPUTE: ""}] * 2


def test_the_line_has_the_depths_nearest_to_half_and_to_twice_the_best(found: Conclusion) -> None:
    optimum = located(found.optima[1])
    line = other_depths(found, optimum)
    assert line.startswith(f"instead of depth {optimum.optimal_depth}: ")
    depths = [int(depth) for depth in re.findall(r"depth (\d+) costs", line)]
    best = optimum.optimal_depth
    assert depths == [best // 2, 2 * best]
    assert line.count(" times the compute [") == 2


def test_terminal_card_and_page_say_the_same(found: Conclusion) -> None:
    console = Console(file=StringIO(), width=400)
    print_answers(found, console)
    assert isinstance(console.file, StringIO)
    card, shown = card_text(found), visible(page(found, []))
    for optimum in found.optima:
        line = other_depths(found, optimum)
        assert line in console.file.getvalue()
        assert line in card
        assert compute_note(found, optimum) in card
        assert cost_note(optimum) in shown
        for row in cost_cells(found, optimum, [known.depth for known in optimum.depths]).values():
            assert all(text in shown for text in row.values())


def test_one_budget_has_no_multiples_of_compute(found: Conclusion) -> None:
    optimum = found.optima[0]
    alone = replace(found, optima=(optimum,))
    assert compute_note(alone, optimum) == ""
    assert list(cost_cells(alone, optimum, [1])[1]) == [COST]
    assert "compute" not in other_depths(alone, optimum)


def test_nothing_is_said_of_other_depths_where_no_depth_is_claimed(found: Conclusion) -> None:
    open_yet = replace(found.optima[0], verdict=verdict(Kind.INSUFFICIENT))
    assert other_depths(found, open_yet) == ""
    assert other_depths(found, not_located(open_yet, 3)) == ""
    assert cost_cells(found, not_located(open_yet, 3), [3]) == {3: {COST: ""}}
