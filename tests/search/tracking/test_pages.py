"""Names and descriptions in MLflow: `search/tracking/pages.py`."""

import pytest

from fathom.search.tracking import pages
from tests.support.tracked import optimum


def test_a_description_keeps_whole_sections_only() -> None:
    note = pages.fitted(["a" * 50, "b" * 60, "", "c" * 40], limit=100)

    assert note == "a" * 50 + "\n\n" + "c" * 40


@pytest.mark.parametrize("budgets", [150, 900])
def test_a_study_of_many_budgets_has_a_description_that_mlflow_takes(budgets: int) -> None:
    many = [optimum(budget=1_000_000 * (n + 1)) for n in range(budgets)]
    note = pages.experiment_note(many, "#/runs/one", "1")
    assert len(note) <= pages.EXPERIMENT_NOTE_CHARACTERS
    assert "[table, figures and YAML](#/runs/one" in note
