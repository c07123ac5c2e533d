"""The plan of a study of several horizons."""

from functools import partial

import pytest

from fathom.search.contract.plans import plan_reply
from fathom.search.report.terminal.plan_tables import print_plans
from fathom.search.study.file.study_file import parse
from fathom.search.study.planning.advice import plan_runs
from fathom.search.study.planning.plan import plan_study
from tests.support.dry_run import MACHINE
from tests.support.reporting import printed

STUDY = """
study: many
objective: {name: language, context: 128}
resources: {gpus_per_trial: 0}
budgets: [300k]
horizons: [5, 20, 80]
"""
VOCABULARY = 256


def test_each_horizon_is_planned_as_a_study_of_its_own() -> None:
    found = plan_runs(parse(STUDY), MACHINE)

    assert [run.config.tokens_per_parameter for run in found] == [5, 20, 80]
    assert [run.budgets for run in found] == [
        plan_study(run.config, VOCABULARY, MACHINE) for run in found
    ]


def test_without_stopping_tokens_are_in_the_ratio_of_the_horizons() -> None:
    config = parse(f"{STUDY}\nstopping: {{enabled: false}}")

    short, middle, long = plan_runs(config, MACHINE)

    assert middle.tokens / short.tokens == pytest.approx(4, rel=0.01)
    assert long.tokens / short.tokens == pytest.approx(16, rel=0.01)


def test_a_plan_has_the_sums_of_all_horizons_and_the_disk_of_the_largest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = plan_runs(parse(STUDY), MACHINE)
    reply = plan_reply(found, price=2.0, with_shapes=False, command="fathom run many.yaml")

    assert reply.plan is not None
    assert reply.plan.disk_bytes == max(run.disk for run in found)
    assert reply.plan.hours == sum(run.hours for run in found)
    assert reply.plan.cost == 2 * sum(run.device_hours for run in found)
    assert [budget.horizon for budget in reply.plan.budgets] == ["5", "20", "80"]
    text = printed(partial(print_plans, "many", found, price=None, with_shapes=True))
    shapes = capsys.readouterr().out
    assert shapes.count("feasible shapes") == 1, "they are the same at every horizon"
    assert "many: all horizons" in text


def test_a_study_of_one_horizon_has_one_plan_and_no_sums() -> None:
    found = plan_runs(parse(STUDY.replace("horizons: [5, 20, 80]", "tokens: 1M")), MACHINE)
    reply = plan_reply(found, price=None, with_shapes=False, command="fathom run many.yaml")

    assert reply.plan is not None
    assert [budget.horizon for budget in reply.plan.budgets] == [None]
    assert reply.plan.tokens is None
    text = printed(partial(print_plans, "many", found, price=None, with_shapes=False))
    assert "all horizons" not in text
