"""What published tables of trainings show: `benchmarks/answers/tables/claims.py`."""

import pytest

from benchmarks.answers.tables.claims import QUESTIONS, answers_to, row
from benchmarks.pages import line_of, measured
from tests.support.places import ROOT, SHARED_DATA

PUBLISHED = SHARED_DATA / "published_ladders"


def test_the_page_has_each_command() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8").splitlines()
    assert set(QUESTIONS) <= set(page)


@pytest.mark.drill
@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published ladders")
def test_the_page_has_the_answers_that_the_commands_give_now() -> None:
    shown = [line_of(cells) for cells in measured("claims")["table"]["rows"]]
    command = QUESTIONS[3]
    for found in answers_to(command, PUBLISHED):
        assert line_of(row(command, found)) in shown
