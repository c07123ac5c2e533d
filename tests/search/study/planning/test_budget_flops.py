"""Studies whose trainings may spend an amount of operations: `train_flops`."""

from dataclasses import replace

import pytest

from fathom.models.shape import Count, Shape
from fathom.search.records import CurvePoint, TrialRecord
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import (
    Budget,
    evaluation_steps,
    expand_budgets,
    rung_steps,
    rungs_by_step,
)
from fathom.search.study.planning.plan import expected_confirming, plan_study
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.assignment import standalone_spec
from tests.support.dry_run import MACHINE

VOCABULARY = 256


def study(flops: str = "1e12", rest: str = "") -> StudyConfig:
    return parse(
        f"study: s\nobjective: {{name: language, context: 64}}\nbudgets: [100k]\n"
        f"train_flops: {flops}\ntrain: {{batch_size: 8}}\n{rest}"
    )


def shapes_of(config: StudyConfig) -> tuple[Budget, tuple[Shape, ...]]:
    (budget,) = expand_budgets(config)
    return budget, feasible_shapes(config, budget, VOCABULARY)


def test_every_shape_spends_the_flops_but_for_less_than_a_step() -> None:
    budget, shapes = shapes_of(study())
    assert len({budget.of_shape(shape).steps for shape in shapes}) > 10
    for shape in shapes:
        own = budget.of_shape(shape)
        of_a_step = shape.train_flops_per_token * own.tokens_per_step
        assert 0 <= 1e12 - own.tokens * shape.train_flops_per_token < of_a_step


@pytest.mark.parametrize("count", [Count.TOTAL, Count.NON_EMBEDDING, Count.MATRICES, Count.FLOPS])
def test_a_shape_that_costs_less_sees_more_tokens(count: Count) -> None:
    budget, shapes = shapes_of(study(rest=f"count: {count.value}\n"))
    dearest, cheapest = (f(shapes, key=lambda s: s.train_flops_per_token) for f in (max, min))
    assert budget.of_shape(dearest).tokens <= budget.of_shape(cheapest).tokens


def test_a_study_of_tokens_names_its_rungs_by_them() -> None:
    config = parse("study: s\nobjective: language\nbudgets: [100k]\n")
    budget, shapes = shapes_of(config)
    assert {budget.of_shape(shape) for shape in shapes} == {budget}
    found = {step: step * budget.tokens_per_step for step in rung_steps(config, budget)}
    assert rungs_by_step(config, budget) == found


def test_an_evaluation_at_a_rung_counts_as_the_rung_and_the_last_as_the_whole() -> None:
    config = study()
    budget, shapes = shapes_of(config)
    for shape in (shapes[0], shapes[-1]):
        own = budget.of_shape(shape)
        rungs = rungs_by_step(config, own)
        points = tuple(
            CurvePoint(
                step=step, tokens=step * own.tokens_per_step, loss=1.0, train_loss=1.0,
                train_seconds=1.0, time=0.0,
            )
            for step in evaluation_steps(config, own)
        )  # fmt: skip
        record = TrialRecord(
            spec=standalone_spec("t", config, budget, shape), outcome=None, reason="",
            curve=points, rungs=dict.fromkeys(rungs.values(), 1.0), started=0.0, ended=None,
            setup_seconds=0.0, peak_memory_bytes=None,
        )  # fmt: skip
        counted = [record.shared(point) for point in points]
        assert counted == sorted(set(counted))
        assert counted[-1] == record.shared_tokens == budget.tokens
        at = {point.step: record.shared(point) for point in points}
        assert {step: at[step] for step in rungs} == rungs
        assert replace(record, rungs={}).shared(points[-1]) == budget.tokens


def test_a_plan_has_the_range_of_tokens_and_the_flops_of_a_training() -> None:
    config = study(rest="stopping: {enabled: false}\n")
    [plan] = plan_study(config, VOCABULARY, MACHINE)
    tokens = [plan.budget.of_shape(shape).tokens for shape in plan.shapes]
    assert plan.tokens_each == (min(tokens), max(tokens))
    assert plan.tokens_each[0] < plan.tokens_each[1]
    trials = plan.exploring + expected_confirming(config, plan.shapes)
    assert plan.flops == pytest.approx(trials * 1e12, rel=0.01)


def test_the_flops_are_the_same_at_every_budget() -> None:
    config = study().model_copy(update={"budgets": (100_000, 200_000)})
    small, large = plan_study(config, VOCABULARY, MACHINE)
    assert small.tokens_each[0] > large.tokens_each[1]


@pytest.mark.parametrize("flops", ["1e6", "1e9"])
def test_too_few_flops_are_refused_with_an_amount_that_suffices(flops: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_study(study(flops), VOCABULARY, MACHINE)
    message = str(caught.value)
    assert "\n" not in message
    enough = message.split("raise it to ")[1].split(" ")[0].rstrip(",")
    assert plan_study(study(enough), VOCABULARY, MACHINE)
