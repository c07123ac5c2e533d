"""What a plan warns of: `search/study/planning/advice.py`."""

from dataclasses import replace

from fathom.search.study.planning.advice import advised, plan_notes
from fathom.search.study.planning.plan import plan_study
from tests.support.dry_run import MACHINE, study


def test_a_plan_says_of_each_trial_that_does_not_fit_into_memory_what_helps() -> None:
    config, tight = study(), replace(MACHINE, memory=1.0, notes=("of the machine",))
    plans = plan_study(config, 256, tight)

    notes = plan_notes(config, plans, tight)

    assert "of the machine" in notes
    told = [note.split(", so the search can't run: ") for note in notes if "does not fit" in note]
    assert [said for said, _ in told] == [
        f"{plan.budget.label}: a trial does not fit into memory" for plan in plans
    ]
    assert all(remedy for _, remedy in told)
    assert advised(config, plans, tight).machine.notes == notes


def test_a_plan_whose_trials_fit_says_nothing_of_memory() -> None:
    notes = plan_notes(study(), plan_study(study(), 256, MACHINE), MACHINE)
    assert not any("does not fit" in note for note in notes)
