"""The answers of a study on a terminal of any width."""

import io

import pytest
from rich.console import Console

from fathom.search.conclusion.conclude import Conclusion
from fathom.search.report.terminal.answer_tables import print_conclusion
from tests.support.reporting import BUDGETS, conclusion_of
from tests.support.simulated import simulated_study


@pytest.fixture(scope="module")
def conclusion() -> Conclusion:
    return conclusion_of(simulated_study(budgets=BUDGETS))


@pytest.mark.parametrize("width", [40, 50, 80, 120])
def test_sentences_are_broken_between_words_and_no_column_is_explained_that_is_not_there(
    conclusion: Conclusion, width: int
) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    print_conclusion(conclusion, console)

    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert "law: ln depth = " in words
    assert words.count("best shape") != 1, "its heading and what it means, or neither"


def test_the_sentences_of_each_budget_stand_apart(conclusion: Conclusion) -> None:
    file = io.StringIO()
    print_conclusion(conclusion, Console(file=file, width=200))
    said = file.getvalue().split("\n\n")
    first = [text for text in said if text.startswith(("300k: ", "1M: ", "3M: "))]
    assert len(first) == len(conclusion.optima)
