"""`benchmarks/answers/laws/law.py`: laws of smaller classes beside best depths of larger ones."""

import pytest

from benchmarks.answers.laws.law import print_horizon
from tests.support.optima import BUDGETS, edge


def test_a_row_says_how_far_each_law_misses_larger_classes_and_where_an_edge_contradicts_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fitted = [edge(n, 0.05 * n ** (1 / 3), (1, 64), beyond=0.0) for n in BUDGETS[:3]]
    end = 0.05 * BUDGETS[3] ** (1 / 3)
    print_horizon("1B", fitted, [edge(BUDGETS[3], round(end / 1.5), (1, round(end / 1.5)))])
    rows = {
        cells[0]: cells
        for line in capsys.readouterr().out.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) > 4
    }
    assert {"power", "logarithmic", "cube root", "same depth"} <= rows.keys()
    assert rows["cube root"][-3:-1] == ["0.43", "0.00"], "too deep, which a deep edge permits"
    assert float(rows["same depth"][-2]) > 0
