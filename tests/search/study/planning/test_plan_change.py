"""What the plan of a budget has after a change of its study, before that change is advised."""

import time

import pytest

from fathom.models.shape import Shape
from fathom.search.study.file.study_file import changed, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan_change import meetable_depths, plan_change
from fathom.search.study.planning.space.shapes import feasible_shapes


def study(rest: str = "", *, budget: str = "10k") -> tuple[StudyConfig, Shape]:
    """A study of one budget, and a shape of it."""
    config = parse(
        f"study: s\nobjective: language\nbudgets: [{budget}]\ncount: non_embedding\n{rest}"
    )
    return config, feasible_shapes(config, expand_budgets(config)[0], 256)[0]


def test_a_wider_range_has_the_depths_that_have_shapes_and_no_others() -> None:
    config, like = study("space: {depth: [1, 4]}")
    change = plan_change(config, 10_000, like, {"space.depth": [3, 24]})
    assert change is not None
    assert change.after is not None
    assert change.before.depths == (1, 2, 3, 4)
    assert change.new_depths == (6,), "no deeper shape has 10k parameters"
    assert change.adds


def test_a_wider_range_adds_nothing_where_the_old_one_holds_every_depth_that_has_shapes() -> None:
    config, like = study()
    change = plan_change(config, 10_000, like, {"space.depth": [1, 240]})
    assert change is not None
    assert change.after is not None
    assert change.new_depths == ()
    assert not change.adds
    assert meetable_depths(config, 10_000, like) == change.before.depths == (1, 2, 3, 4, 6)


def test_a_range_with_too_few_depths_is_refused_with_its_reason() -> None:
    config, like = study()
    change = plan_change(config, 10_000, like, {"space.depth": [6, 24]})
    assert change is not None
    assert change.after is None
    assert not change.adds
    assert change.refusal == "a budget needs 3 depths that have shapes, got 6"


@pytest.mark.parametrize(
    ("changes", "adds"),
    [
        ({"trials": 60}, False),  # the sampler tries no shape twice, and there are 5
        ({"confirm.depths": 60}, False),  # all 5 depths may be confirmed already
        ({"confirm.seeds": 5}, True),
        ({"tolerance": 0.05}, True),
    ],
)
def test_trials_beyond_the_shapes_that_there_are_add_nothing(
    changes: dict[str, object], adds: bool
) -> None:
    config, like = study()
    change = plan_change(config, 10_000, like, changes)
    assert change is not None
    assert change.adds is adds


def test_a_value_that_no_study_may_have_is_refused_with_the_rule() -> None:
    config, like = study()
    change = plan_change(config, 10_000, like, {"space.depth": [1, 2000]})
    assert change is not None
    assert change.after is None
    assert "`space.depth` must be at most 1000, got 2000" in change.refusal


def test_a_change_leaves_all_other_keys() -> None:
    config, _ = study("space: {depth: [1, 4], ff_ratio: [1, 6]}\nconfirm: {rates: [1]}")
    new = changed(config, {"space.depth": [2, 9], "trials": 5})
    assert new.space.depth == (2, 9)
    assert new.trials == 5
    assert new.space.ff_ratio == config.space.ff_ratio
    assert changed(new, {"space.depth": [1, 4], "trials": config.trials}) == config


def test_a_model_of_the_users_own_is_not_built_to_try_a_change() -> None:
    config, like = study()
    own = changed(config, {"model.build": "nowhere:build"})
    assert plan_change(own, 10_000, like, {"space.depth": [1, 9]}) is None
    assert meetable_depths(own, 10_000, like) is None


def test_a_change_of_a_large_budget_is_tried_in_a_fraction_of_a_second() -> None:
    config, like = study(budget="1B")
    began = time.process_time()
    assert plan_change(config, 10**9, like, {"space.depth": [16, 256]})
    assert time.process_time() - began < 2


def test_the_plan_of_a_budget_has_the_shapes_of_its_own_multiple() -> None:
    config = parse("study: s\nobjective: language\nbudgets: [300k, 3M]\n")
    for budget in expand_budgets(config):
        shapes = feasible_shapes(config, budget, 256)
        change = plan_change(config, budget.params, shapes[0], {"trials": 99})
        assert change is not None
        assert len(change.before.shapes) == len(shapes)
