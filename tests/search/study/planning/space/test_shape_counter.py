"""A user's own model in a study: its shapes, its plan, and what is said when it can't be used."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.models.building import build_model
from fathom.models.shape import Count, Shape
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import dump, study_of
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan import expected_confirming, plan_study, study_notes
from fathom.search.study.planning.space.shape_counter import (
    MOST_BUILDS,
    counter_of,
    recipe_of,
    try_own_model,
)
from fathom.search.study.planning.space.shape_space import ShapeLimits
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.command_line import assert_refused, here
from tests.support.refusals import refused

VOCABULARY = 31
MODELS = "tests.support.own_models"


def study(function: str, **changes: Any) -> StudyConfig:
    values: dict[str, Any] = {
        "study": "mine",
        "objective": {"name": "language", "context": 12},
        "budgets": ["20k", "60k"],
        "tokens": "50k",
        "space": {"depth": [1, 8]},
        "model": {"build": f"{MODELS}:{function}"},
    }
    return study_of(values | changes)


def shapes_of(config: StudyConfig) -> list[Shape]:
    budgets = expand_budgets(config)
    return [shape for budget in budgets for shape in feasible_shapes(config, budget, VOCABULARY)]


def parameters(config: StudyConfig, shape: Shape) -> int:
    model = build_model(shape, recipe_of(config.model), seed=0, device=torch.device("cpu"))
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("function", ["build", "anything", "with_heads"])
def test_every_shape_has_the_parameters_that_were_counted(function: str) -> None:
    config = study(function)

    shapes = shapes_of(config)

    assert len({shape.depth for shape in shapes}) > 3
    assert all(parameters(config, shape) == shape.params_total for shape in shapes)
    for budget in expand_budgets(config):
        of_budget = feasible_shapes(config, budget, VOCABULARY)
        assert all(abs(budget.count_error(shape)) <= config.tolerance for shape in of_budget)


def test_what_follows_the_vocabulary_is_not_counted_without_embeddings() -> None:
    config = study("build", count="non_embedding")

    for shape in shapes_of(config):
        embedding = shape.params_total - shape.size(Count.NON_EMBEDDING)
        assert embedding == VOCABULARY * shape.d_model, "tied: once"


def test_few_models_are_built() -> None:
    config = study("build", budgets=["20k", "60k", "1M", "10M"], space={"depth": [1, 32]})

    counter = counter_of(config.model, config.space)
    assert counter is not None
    before = len(counter._built)

    shapes = shapes_of(config)

    assert len({shape.d_model for shape in shapes}) > 15
    assert 0 < len(counter._built) - before <= MOST_BUILDS


def test_too_many_widths_are_refused() -> None:
    space = {"feed_forward": False, "depth": [1, 64], "head_dim": 1}
    with pytest.raises(PlanError, match=f"at most {MOST_BUILDS} models.*d_model_multiple"):
        shapes_of(study("no_feed_forward", budgets=["20M"], space=space))


def test_a_model_without_feed_forward_has_the_widths_that_meet_the_budget() -> None:
    space = {"feed_forward": False, "head_dim": 4, "depth": [1, 12]}
    config = study("no_feed_forward", budgets=["20k"], space=space, tolerance=0.05)

    shapes = shapes_of(config)

    assert {shape.d_ff for shape in shapes} == {0}
    assert all(parameters(config, shape) == shape.params_total for shape in shapes)


def test_a_function_of_any_arguments_may_do_without_feed_forward() -> None:
    space = {"feed_forward": False, "head_dim": 4, "depth": [1, 12]}
    config = study("idle_anything", budgets=["20k"], space=space, tolerance=0.05)

    assert {shape.d_ff for shape in shapes_of(config)} == {0}


@pytest.mark.parametrize(
    ("function", "changes", "words"),
    [
        ("biuld", {}, ("place of a function", "no biuld", "did you mean 'build'?")),
        ("number", {}, ("place of a function", "number, a int")),
        ("no_width", {}, ("must take depth, d_model, vocab_size", "does not take d_model")),
        ("foreign", {}, ("must take", "it asks for rope")),
        ("scaled", {}, ("asks for scales",)),
        ("a_list", {}, ("must return a torch.nn.Module, got a list",)),
        ("raising", {}, ("must build a model of depth 1", "KeyError: 'hidden", "own_models.py")),
        ("exiting", {}, ("must build a model of depth 1", "SystemExit: no GPU", "own_models.py")),
        ("stopping", {}, ("must build a model of depth 1", "Halt: no GPU", "own_models.py")),
        ("frozen", {}, ("must have trained parameters",)),
        ("lazy", {}, ("must have their sizes when it returns", "nn.LazyLinear")),
        ("looped", {"space": {"feed_forward": False}}, ("must grow with depth", "of its own")),
        (
            "quadratic",
            {},
            ("must grow by the same number with each layer", "where", "follow from smaller ones"),
        ),
        (
            "deep_is_more",
            {},
            ("must grow by the same number with each layer", "follow from smaller ones"),
        ),
        ("rounding", {}, ("with each unit of d_ff", "space.d_ff_multiple")),
        ("no_feed_forward", {}, ("`space.feed_forward` must be false", "does not take d_ff")),
        (
            "idle_d_ff",
            {},
            ("`space.feed_forward` must be false", "do not depend on d_ff", "take d_ff out of"),
        ),
        ("idle_anything", {}, ("do not depend on d_ff", "; set `space.feed_forward: false`")),
        ("build", {"space": {"feed_forward": False}}, ("must be true", "takes d_ff")),
        ("scaled", {"roles": {"*.weight": "norm"}}, ("pattern for every weight", "up.0.bias")),
        ("build", {"roles": {"*": "norm"}}, ("must take `scales`", "scheme: completep")),
    ],
)
def test_a_model_that_can_not_be_counted_is_refused_in_one_line(
    function: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    model = {"build": f"{MODELS}:{function}"}
    if "roles" in changes:
        changes = {"model": model | changes}

    with refused(*words, error=PlanError):
        shapes_of(study(function, **changes))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("seeded", ("other weights for another seed", "leave out torch.manual_seed")),
        ("narrow_logits", ("(batch, time, vocabulary)", "[2, 12, 31], got [2, 12, 30]")),
        ("a_pair", ("must return logits", "got a tuple")),
        ("not_a_number", ("must start with finite logits",)),
        ("half", ("must be float32", "torch.bfloat16", "tokens.weight")),
        ("on_meta", ("not on the meta device",)),
        ("unseeded", ("same weights from the same seed",)),
        ("idle", ("every trained weight", "spare gets no gradient")),
        ("foreseeing", ("predict from earlier tokens alone", "causal mask")),
        ("fragile", ("must map ids [2, 12] to logits", "RuntimeError: no kernel")),
        ("stubborn", ("must give gradients", "RuntimeError: no backward", "own_models.py")),
    ],
)
def test_a_model_that_can_not_be_trained_is_refused_in_one_line(
    function: str, words: tuple[str, ...]
) -> None:
    config = study(function)

    with refused(*words, error=PlanError):
        try_own_model(config, ShapeLimits.of(config, VOCABULARY).smallest())


def test_a_width_without_a_feed_forward_width_is_passed_over() -> None:
    config = study("build", budgets=["200k"], space={"depth": [1, 8], "d_ff_multiple": 64})
    assert {shape.d_ff % 64 for shape in shapes_of(config)} == {0}


def test_a_model_that_sees_both_sides_may_classify() -> None:
    config = study("foreseeing", objective={"name": "my.task:Task", "context": 12})

    try_own_model(config, ShapeLimits.of(config, VOCABULARY).smallest())


def test_a_module_that_is_not_there_is_named_with_the_folder() -> None:
    config = study("build", model={"build": "nowhere.models:build"})

    with pytest.raises(PlanError, match=r"must be importable from .*No module named 'nowhere'"):
        recipe_of(config.model)


def test_a_plan_says_that_its_time_and_memory_are_estimates() -> None:
    config = study(
        "build", objective={"name": "hop", "context": 24}, model={"build": f"{MODELS}:build"}
    )
    (plan, _) = plan_study(
        config, config.objective.vocab_size(), this_machine(config.resources, config.train)
    )

    assert plan.flops > 0
    assert plan.step.memory > 16 * max(shape.params_total for shape in plan.shapes)
    assert not plan.step.recomputes
    assert "estimates for tests.support.own_models:build" in "".join(study_notes(config))


def test_without_roles_the_rates_of_all_depths_are_expected_to_be_bracketed() -> None:
    model = {"build": f"{MODELS}:scaled", "roles": {"*": "embedding"}}
    plain, with_roles = study("build"), study("scaled", model=model)
    shapes = shapes_of(plain)

    assert plain.model.plain_rates
    assert not with_roles.model.plain_rates
    assert expected_confirming(plain, shapes) > expected_confirming(with_roles, shapes)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("foreseeing", ("mine.yaml:", "predict from earlier tokens alone", "causal mask")),
        ("seeded", ("mine.yaml:", "leave out torch.manual_seed")),
    ],
)
def test_a_plan_tries_the_model(function: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """Long before `fathom run` has started Ray."""
    (tmp_path / "mine.yaml").write_text(dump(study(function)))

    assert_refused(here("plan", "mine.yaml", cwd=tmp_path), *words)
