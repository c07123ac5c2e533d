"""What published tables of trainings show: `benchmarks/answers/tables/claims.py`."""

from typing import Any

import pytest

from benchmarks.answers.tables.claims import QUESTIONS, answers_to, half_as_deep, row
from benchmarks.pages import line_of, measured
from tests.support.places import ROOT, SHARED_DATA

PUBLISHED = SHARED_DATA / "published_ladders"


def answer(**changed: Any) -> dict[str, Any]:
    return {
        "question": {"budget": 124_000_000, "horizon": {"amount": 2.5e9}},
        "answer": {"depth": 16, "interval": [12, 24], "not_ruled_out": [12, 13, 16]},
        "evidence": {"depths": [{"depth": 8}, {"depth": 16}]},
        "verdict": {"kind": "edge"},
        "costs": [
            {"depth": 4, "nats": 0.3, "nats_interval": [0.2, 0.4], "compute": None},
            {
                "depth": 8,
                "nats": 0.02,
                "nats_interval": [0.01, 0.04],
                "compute": 1.06,
                "compute_interval": [1.03, 1.1],
            },
            {"depth": 24, "nats": 0.1, "nats_interval": [0.0, 0.2], "compute": None},
        ],
    } | changed


def test_a_row_has_what_was_held_the_answer_and_the_cost_of_half_its_depth() -> None:
    cells = row("fathom analyse a/runs.csv --where batch=8 --params 124M", answer())
    assert cells == (
        *("a", "batch=8", "124M", "2.5B", "8, 16", "16 [12-24]", "12-13, 16", "edge"),
        *("0.020 [0.010 to 0.040]", "1.06 [1.03 to 1.10]"),
    )


def test_a_cost_that_is_not_known_is_a_dash() -> None:
    assert half_as_deep(answer(costs=[])) == ("-", "-")
    only = answer(costs=answer()["costs"][:1])
    assert half_as_deep(only) == ("0.300 [0.200 to 0.400]", "-")


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
