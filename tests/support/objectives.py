"""Objectives as tests prepare them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fathom.objectives.contract import Batch, Model, Objective
from fathom.objectives.errors import ObjectiveError
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.prepare import prepare
from fathom.objectives.registry import OBJECTIVES

CPU = torch.device("cpu")


def keys_of(name: str, **settings: Any) -> ObjectiveConfig:
    """The keys of a registered objective; those not given have their defaults."""
    return OBJECTIVES[name].keys(name=name, **settings)


def prepared(name: str, **settings: Any) -> Any:
    """A registered objective on the CPU."""
    return prepare(keys_of(name, **settings)).to(CPU)


def perfect(objective: Objective, batches: list[Batch]) -> Model:
    """A model that knows the answers to these batches, which it tells apart by their inputs."""
    answers = {
        tuple(inputs.tolist()): targets
        for batch in batches
        for inputs, targets in zip(batch.inputs, batch.targets, strict=True)
    }

    def model(inputs: Tensor) -> Tensor:
        found = torch.stack([answers[tuple(row.tolist())] for row in inputs]).clamp(min=0)
        return 30.0 * nn.functional.one_hot(found, objective.vocab_size)

    return model


def constant(objective: Objective, token: int) -> Model:
    """A model that is certain of one token everywhere."""

    def model(inputs: Tensor) -> Tensor:
        return 30.0 * nn.functional.one_hot(torch.full_like(inputs, token), objective.vocab_size)

    return model


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """Context that must end in an `ObjectiveError` of one line with all of these words."""
    with pytest.raises(ObjectiveError) as caught:
        yield
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert "\n" not in said


def uniform(objective: Objective, sizes: list[tuple[int, ...]] | None = None) -> Model:
    """A model that knows nothing; `sizes` gets those of the inputs of each call."""

    def model(inputs: Tensor, *_sources: Tensor) -> Tensor:
        if sizes is not None:
            sizes.append(tuple(inputs.shape))
        return torch.zeros(*inputs.shape, objective.vocab_size)

    return model


def assert_requested_rows(objective: Any, requested: int, rows: int) -> None:
    """Asserts that an evaluation uses as many rows as requested, and the final one all."""
    for measure, expected in ((objective.evaluate, requested), (objective.final_metrics, rows)):
        sizes: list[tuple[int, ...]] = []
        measure(uniform(objective, sizes))
        assert sum(size[0] for size in sizes) == expected
