"""What a plan warns of: `search/study/planning/advice.py`."""

from dataclasses import replace

from fathom.search.study.keys.config import parse
from fathom.search.study.planning.advice import advised, plan_notes
from fathom.search.study.planning.plan import plan_study
from tests.support.dry_run import MACHINE

STUDY = """
study: s
objective: {name: language, context: 4096}
budgets: [1M, 30M]
tokens: 1B
space: {depth: [2, 4]}
"""


def test_a_plan_says_that_a_trial_does_not_fit_and_what_helps() -> None:
    config = parse(STUDY)
    tight = replace(MACHINE, memory=1e9, notes=("of the machine",))
    plans = plan_study(config, 256, tight)
    fits = [plan.step.enough for plan in plans]
    assert fits == [True, False]

    notes = plan_notes(config, plans, tight)

    assert "of the machine" in notes
    [told] = [note for note in notes if "does not fit" in note]
    assert told.startswith("30M: a trial does not fit into memory, so the search can't run: set `")
    assert advised(config, plans, tight)[1].notes == notes


def test_a_plan_whose_trials_fit_says_nothing_of_memory() -> None:
    config = parse(STUDY)
    notes = plan_notes(config, plan_study(config, 256, MACHINE), MACHINE)
    assert not any("does not fit" in note for note in notes)
