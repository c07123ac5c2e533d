"""Studies whose trainings may spend a number of seconds: `train_seconds`."""

from dataclasses import replace

import pytest

from fathom.models.shape import Count, Shape
from fathom.models.spend import Coin, Spend
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import (
    Budget,
    constant_until,
    evaluation_steps,
    expand_budgets,
    rungs_by_step,
    warmup_steps,
)
from fathom.search.study.planning.plan import (
    TRIAL_SECONDS,
    BudgetPlan,
    expected_confirming,
    plan_study,
    study_notes,
    with_step_times,
)
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import Speed
from fathom.search.training.assignment import best_assignment
from tests.support.dry_run import MACHINE
from tests.support.timed import measured, seconds_of

VOCABULARY = 256
SECONDS = 20.0


def study(seconds: float = SECONDS, rest: str = "") -> StudyConfig:
    return parse(
        f"study: s\nobjective: {{name: language, context: 64}}\nbudgets: [100k]\n"
        f"train_seconds: {seconds:g}\ntrain: {{batch_size: 8}}\n{rest}"
    )


def timed(config: StudyConfig) -> BudgetPlan:
    plans = plan_study(config, VOCABULARY, MACHINE)
    [plan] = with_step_times(config, plans, measured(plans).times, MACHINE)
    return plan


def shapes_of(config: StudyConfig) -> tuple[Budget, tuple[Shape, ...]]:
    plan = timed(config)
    return plan.budget, plan.shapes


def test_every_shape_takes_the_steps_nearest_to_its_seconds() -> None:
    budget, shapes = shapes_of(study())
    assert len({budget.of_shape(shape).steps for shape in shapes}) > 10
    for shape in shapes:
        own = budget.of_shape(shape)
        assert own.tokens == own.steps * 8 * 64
        assert own.steps * budget.step_cost(shape) == pytest.approx(
            SECONDS, abs=0.5 * budget.step_cost(shape)
        )
        assert own.steps == pytest.approx(SECONDS / seconds_of(shape), rel=0.02)


def test_the_size_of_a_shape_is_that_of_its_budget_as_in_a_study_of_tokens() -> None:
    tokens = parse(
        "study: s\nobjective: {name: language, context: 64}\nbudgets: [100k]\ntokens: 1M\n"
    )
    (budget,) = expand_budgets(tokens)
    assert shapes_of(study())[1] == feasible_shapes(tokens, budget, VOCABULARY)


def test_a_rung_comes_after_the_same_share_of_every_training_and_has_one_name() -> None:
    config = study()
    budget, shapes = shapes_of(config)
    names = set(rungs_by_step(config, budget).values())
    assert names
    for shape in shapes:
        own = budget.of_shape(shape)
        rungs = rungs_by_step(config, own)
        assert set(rungs.values()) == names
        assert set(rungs) <= set(evaluation_steps(config, own))
        assert max(rungs) <= constant_until(config.train, own)
        assert warmup_steps(config, own) == max(1, round(0.02 * own.steps))
        for step, name in rungs.items():
            assert 0 <= name / budget.tokens - step / own.steps < 1 / own.steps


def test_the_amount_and_its_unit_are_those_of_the_study() -> None:
    (budget,) = expand_budgets(study())
    assert budget.spend == Spend(SECONDS, Coin.SECONDS)
    (tokens,) = expand_budgets(parse("study: s\nobjective: language\nbudgets: [1M]\ntokens: 1M\n"))
    assert tokens.spend == Spend(tokens.tokens, Coin.TOKENS)


def test_budgets_that_count_no_parameters_need_no_tokens() -> None:
    config = study(rest="count: width\nspace: {ff_ratio: [4, 4]}\n").model_copy(
        update={"budgets": (32,)}
    )
    (budget,) = expand_budgets(config)
    assert budget.count is Count.WIDTH
    assert budget.spend == Spend(SECONDS, Coin.SECONDS)


def test_a_training_outside_the_search_has_the_seconds_and_its_own_steps() -> None:
    config = study()
    budget, shapes = shapes_of(config)
    given = best_assignment(config, budget, shapes[-1], checkpoint="x.pt")
    assert given.budget.steps == budget.of_shape(shapes[-1]).steps != budget.steps
    assert given.spec.horizon_tokens == given.budget.tokens
    assert given.spec.spend == Spend(SECONDS, Coin.SECONDS)


def test_a_plan_estimates_tokens_by_the_speed_of_its_machine_and_says_so() -> None:
    config = study(rest="stopping: {enabled: false}\nconfirm: {rates: [1]}\n")
    [plan] = plan_study(config, VOCABULARY, MACHINE)
    [fast] = plan_study(config, VOCABULARY, replace(MACHINE, speed=Speed(1e11)))
    assert plan.tokens_each[1] < fast.tokens_each[0]
    trials = plan.exploring + expected_confirming(config, plan.shapes)
    training = plan.hours * 3600 * MACHINE.slots
    assert training > trials * SECONDS * 0.95, "each trial takes its seconds, and evaluations more"
    assert any("tokens are estimates" in note for note in study_notes(config))


def test_a_plan_with_measured_steps_has_their_tokens() -> None:
    plan = timed(study())
    tokens = [plan.budget.of_shape(shape).tokens for shape in plan.shapes]
    assert plan.tokens_each == (min(tokens), max(tokens))


def test_measured_steps_take_their_time_whatever_the_machine_is_estimated_at() -> None:
    config = study(rest="stopping: {enabled: false}\nconfirm: {rates: [1]}\n")
    plans = plan_study(config, VOCABULARY, MACHINE)
    fast = replace(MACHINE, speed=Speed(1e30))
    [plan] = with_step_times(config, plans, measured(plans).times, fast)
    trials = plan.exploring + expected_confirming(config, plan.shapes)
    took = plan.hours * 3600 * fast.slots
    assert took == pytest.approx(trials * (SECONDS + TRIAL_SECONDS), rel=0.05)


def test_estimated_seconds_refuse_nothing_and_measured_ones_say_what_suffices() -> None:
    short = study(1)
    slow = replace(MACHINE, speed=Speed(1e6))
    assert plan_study(short, VOCABULARY, slow), "an estimate may be several times off"
    deep = study(1, "space: {depth: [30, 64]}\n")
    with pytest.raises(PlanError) as caught:
        timed(deep)
    message = str(caught.value)
    assert message.startswith("`train_seconds` must pay for 20 steps of every shape")
    assert "\n" not in message
    enough = float(message.split("raise it to ")[1].split(" ")[0].rstrip(","))
    assert timed(deep.model_copy(update={"train_seconds": enough}))
