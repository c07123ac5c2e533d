"""The plan of a study of several horizons."""

import pytest

from fathom.search.study.keys.config import parse
from fathom.search.study.planning.horizon_plan import horizons_disk, plan_horizons
from fathom.search.study.planning.plan import plan_study, search_disk
from tests.support.dry_run import MACHINE

STUDY = """
study: many
objective: {name: language, context: 128}
budgets: [300k]
horizons: [5, 20, 80]
"""
VOCABULARY = 256


def test_each_horizon_is_planned_as_a_study_of_its_own() -> None:
    found = plan_horizons(parse(STUDY), VOCABULARY, MACHINE)

    assert [plan.plans for plan in found] == [
        plan_study(plan.config, VOCABULARY, MACHINE) for plan in found
    ]


def test_without_stopping_tokens_are_in_the_ratio_of_the_horizons() -> None:
    config = parse(f"{STUDY}\nstopping: {{enabled: false}}")

    short, middle, long = plan_horizons(config, VOCABULARY, MACHINE)

    assert middle.tokens / short.tokens == pytest.approx(4, rel=0.01)
    assert long.tokens / short.tokens == pytest.approx(16, rel=0.01)


def test_checkpoints_take_the_disk_of_the_horizon_that_takes_most() -> None:
    found = plan_horizons(parse(STUDY), VOCABULARY, MACHINE)
    alone = [search_disk(plan.config, plan.plans, 2) for plan in found]

    assert horizons_disk(found, slots=2) == max(alone)
