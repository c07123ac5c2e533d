"""The plan of a study of several horizons: what it costs with and without trunks."""

import pytest

from fathom.search.study.keys.config import parse
from fathom.search.study.planning.horizon_plan import horizons_disk, plan_horizons
from fathom.search.study.planning.plan import plan_study
from tests.support.dry_run import MACHINE

STUDY = """
study: many
objective: {name: language, context: 128}
budgets: [300k]
horizons: [5, 20, 80]
"""
VOCABULARY = 256


def test_without_stopping_each_trial_takes_over_all_before_the_cool_down_of_the_shorter() -> None:
    config = parse(f"{STUDY}\nstopping: {{enabled: false}}")

    found = plan_horizons(config, VOCABULARY, MACHINE)

    trials = found[0].plans[0].ends[0][0]
    assert [plan.taken[0] / trials / 300_000 for plan in found] == pytest.approx(
        [0, 0.8 * 5, 0.8 * 20], rel=0.01
    )
    assert [plan.tokens / trials / 300_000 for plan in found] == pytest.approx(
        [5, 20, 80], rel=0.01
    )


def test_a_paused_trial_takes_over_no_more_than_it_needs_and_no_more_than_there_is() -> None:
    for plan in plan_horizons(parse(STUDY), VOCABULARY, MACHINE):
        assert 0 <= plan.new_tokens <= plan.tokens
        assert 0 < plan.new_hours(MACHINE) <= plan.hours(MACHINE)


def test_each_horizon_alone_is_planned_as_a_study_of_its_own() -> None:
    found = plan_horizons(parse(STUDY), VOCABULARY, MACHINE)

    assert [plan.plans for plan in found] == [
        plan_study(plan.config, VOCABULARY, MACHINE) for plan in found
    ]


def test_horizons_that_share_nothing_cost_what_separate_searches_cost() -> None:
    config = parse(f"{STUDY}\nstopping: {{enabled: false}}\ntrain: {{patience: 3}}")

    found = plan_horizons(config, VOCABULARY, MACHINE)

    assert [plan.new_tokens for plan in found] == [plan.tokens for plan in found]


def test_trunks_take_disk_until_the_longest_horizon_is_searched() -> None:
    config = parse(STUDY)
    apart = parse(f"{STUDY}\nstopping: {{enabled: false}}\ntrain: {{patience: 3}}")
    shared, separate = (
        horizons_disk(plan_horizons(each, VOCABULARY, MACHINE), slots=2) for each in (config, apart)
    )

    assert shared > separate
