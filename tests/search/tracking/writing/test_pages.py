"""Names and descriptions in MLflow: `search/tracking/writing/pages.py`."""

from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.tracking.writing import pages
from tests.support.optima import verdict
from tests.support.tracked import optimum


def test_a_description_keeps_whole_sections_only() -> None:
    note = pages.fitted(["a" * 50, "b" * 60, "", "c" * 40], limit=100)

    assert note == "a" * 50 + "\n\n" + "c" * 40


def test_a_run_is_named_by_its_depth_only_if_the_verdict_has_decided_on_one() -> None:
    found = optimum(budget=1_000_000)
    unsure = replace(found, verdict=verdict(Kind.INSUFFICIENT))
    beyond = replace(found, verdict=verdict(Kind.EDGE))
    assert pages.budget_name(found) == f"1M → depth {found.optimal_depth}"
    assert pages.budget_name(unsure) == "1M → insufficient"
    assert pages.budget_name(beyond) == "1M → edge"
    assert pages.experiment_note([unsure], "#/runs/one", "1").startswith("1M → insufficient: [")


@pytest.mark.parametrize("budgets", [150, 900])
def test_a_study_of_many_budgets_has_a_description_that_mlflow_takes(budgets: int) -> None:
    many = [optimum(budget=1_000_000 * (n + 1)) for n in range(budgets)]
    note = pages.experiment_note(many, "#/runs/one", "1")
    assert len(note) <= pages.EXPERIMENT_NOTE_CHARACTERS
    assert "[table, figures and YAML](#/runs/one" in note


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("best.yaml", "best.yaml"),
        ("figures/answer.png", "answer.png"),
        ("figures/loss-against-depth-20000.png", "figures/20k/loss-against-depth-20000.png"),
        ("figures/depth-against-budget.svg", "figures/depth-against-budget.svg"),
    ],
)
def test_figures_of_a_budget_are_in_its_folder_and_the_answer_is_at_the_top(
    file: str, name: str
) -> None:
    assert pages.artifact(Path("runs/demo") / file) == name
