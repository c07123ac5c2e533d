"""Studies of two stacks: which depths a split has, budgets that are met, and what is refused."""

import json
from typing import Any

import pytest

from fathom.models.shape import Count, Shape
from fathom.search.record_json import shape_from_json, to_values
from fathom.search.study.file.study_file import dump, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import encoder_layers
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes


def study(**keys: Any) -> StudyConfig:
    values = {
        "study": "two-stacks",
        "objective": {"name": "tests.support.reversal:Reversal", "context": 8},
        "budgets": ["40k"],
        "tokens": "10k",
        "space": {"split": "1-1", "depth": [1, 12]},
    } | keys
    return parse(json.dumps(values))


@pytest.mark.parametrize("split", ["1-1", "3-1", "12-1", "1-2"])
def test_each_stack_is_within_half_a_layer_of_the_split(split: str) -> None:
    encoder, decoder = map(int, split.split("-"))
    for depth in range(1, 60):
        layers = encoder_layers(split, depth)
        exact = depth * encoder / (encoder + decoder)
        nearest = [layer for layer in range(1, depth) if abs(layer - exact) < 0.5]
        assert [layers] == (nearest or [0])


@pytest.mark.parametrize("count", [Count.TOTAL, Count.NON_EMBEDDING, Count.MATRICES, Count.FLOPS])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": {"tied_source": False, "embedding_rank": 6}},
        {"model": {"biases": True, "norm": "layer", "gated": True, "positions": "learned"}},
        {"space": {"split": "2-1", "depth": [2, 20]}},
        {"space": {"split": "1-2", "depth": [2, 9]}},
    ],
)
def test_every_shape_meets_the_budget_with_the_split(count: Count, options: dict[str, Any]) -> None:
    config = study(count=count.value, **options)
    [budget] = expand_budgets(config)
    shapes = feasible_shapes(config, budget, 10)
    assert {shape.depth for shape in shapes} <= set(config.space.depths)
    for shape in shapes:
        assert abs(shape.size(count) / 40_000 - 1) <= 0.005
        assert shape.encoder_depth == encoder_layers(str(config.space.split), shape.depth)
        assert shape.source_vocab_size == (0 if config.model.tied_source else 10)


def first_shape(**keys: Any) -> tuple[StudyConfig, Shape]:
    config = study(**keys)
    [budget] = expand_budgets(config)
    return config, feasible_shapes(config, budget, 10)[0]


def test_without_a_split_nothing_of_it_is_saved() -> None:
    config, shape = first_shape(space={})
    new = ("split", "tied_source", "dropout", "label_smoothing", "encoder_depth", "source_vocab")
    saved = dump(config) + json.dumps(to_values(shape))
    assert not [name for name in new if name in saved]
    assert shape_from_json(to_values(shape)) == shape


def test_with_a_split_the_study_and_its_shapes_are_read_back() -> None:
    train = {"dropout": 0.1, "label_smoothing": 0.2}
    config, shape = first_shape(model={"tied_source": False}, train=train)
    assert parse(dump(config)) == config
    assert shape_from_json(to_values(shape)) == shape
