"""Objectives with generated data: their smallest settings, and evaluations apart from training."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from fathom.objectives.contract import IGNORED
from fathom.objectives.random_numbers import held_out_draws, mixed, training_draws
from fathom.papers.tasks.objective import solved
from tests.support.objectives import prepared


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "hop", "symbols": 3, "hops": 1, "context": 3},
        {"name": "hop", "hops": 16, "context": 6},
        {"name": "induction", "symbols": 3, "block": [2, 2], "gap": [0, 0], "context": 4},
        {"name": "induction", "context": 48},
        {"name": "connectivity", "diameter": 1},
        {"name": "connectivity", "diameter": 1, "edge_tokens": 2},
        {"name": "blocks", "blocks": 2, "train_lengths": [2, 2], "test_lengths": []},
    ],
    ids=str,
)
def test_the_smallest_settings_are_tasks_as_well(settings: dict[str, Any]) -> None:
    task = prepared(eval_examples=1, **settings)
    table = nn.Embedding(task.vocab_size, task.vocab_size)

    batch = task.batch(seed=0, step=0, batch_size=2)

    assert torch.isfinite(task.loss(table, batch))
    assert all(math.isfinite(value) for value in task.evaluate(table).values())
    assert ((batch.targets != IGNORED).sum(1) > 0).all()


@pytest.mark.parametrize("name", ["hop", "induction", "connectivity", "blocks"])
def test_the_evaluation_is_of_sequences_that_no_training_step_draws(name: str) -> None:
    objective = prepared(name, eval_examples=8)
    held_out = [objective.held_out(at)[0].inputs for at in objective.difficulties]
    seen = [tuple(row) for inputs in held_out for row in inputs.tolist()]

    drawn = [objective.batch(seed=0, step=step, batch_size=32).inputs for step in range(30)]
    trained = {tuple(row) for batch in drawn for row in batch.tolist()}
    # Short graphs and strings are so few that they come by chance as well.
    shared = sum(row in trained for row in seen)
    assert shared <= len(seen) // 10
    assert mixed(3, 4) != mixed(4, 3)
    first, second = held_out_draws(3), training_draws(seed=3, step=0)
    assert first.initial_seed() != second.initial_seed()


def test_a_solved_difficulty_needs_every_easier_one_solved() -> None:
    assert solved({1: 0.0, 2: 0.05, 3: 0.2, 4: 0.01}) == 2.0
    assert solved({0: 0.3, 1: 0.0, 2: 0.3}) == 1.0
    assert solved({1: 0.3}) == 0.0
