"""What every objective must do; a new one is added to `PREPARED` and meets the same tests."""

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fathom.objectives.contract import IGNORED, Objective
from fathom.objectives.registry import OBJECTIVES, prepare
from fathom.search.study.config import parse

CPU = torch.device("cpu")
WINDOWS = {"context": 16, "eval_tokens": 512}


def language(folder: Path) -> Objective:
    (folder / "text.txt").write_text("".join(f"line {n} of {n * n}\n" for n in range(2000)))
    corpus = str(folder / "text.txt")
    return prepare("language", {"corpus": corpus, "tokenizer": "bytes"} | WINDOWS)


def transduction(folder: Path, **more: Any) -> Objective:
    words = ["ant", "bee", "cat", "dog"]
    rows = [f"{a} {b} {c}\t{c} {b} {a}" for a in words for b in words for c in words]
    (folder / "rows.tsv").write_text("\n".join(rows))
    own = {"data": str(folder / "rows.tsv"), "context": 12}
    return prepare("transduction", own | more)


def pretrained(folder: Path) -> Objective:
    (folder / "text.txt").write_text("".join(f"An ant, a bee: {n}.\n" for n in range(200)))
    corpus = str(folder / "text.txt")
    # Ten of the steps that this file trains for.
    pretraining = {"corpus": corpus, "words": 8, "tokens": 10 * 16 * 12}
    return transduction(folder, pretraining=pretraining)


def classification(folder: Path) -> Objective:
    rows = [f"{mood}\tit was {mood} day {n}" for n in range(40) for mood in ("good", "bad")]
    (folder / "texts.tsv").write_text("\n".join(rows))
    own = {"data": str(folder / "texts.tsv"), "label": "first", "context": 5}
    defaults = parse("study: s\nobjective: classification\nbudgets: [1k]").objective.settings()
    return prepare("classification", defaults | own)


SMALL: dict[str, dict[str, Any]] = {
    "hop": {"symbols": 4, "hops": 3, "context": 20},
    # So few symbols that knowing what is no answer is worth something.
    "induction": {"symbols": 4, "block": [2, 3], "gap": [0, 2], "context": 12},
    "connectivity": {"diameter": 3, "edge_tokens": 1},
    "blocks": {"blocks": 3, "train_lengths": [5, 9], "test_lengths": [[10, 12]]},
}
"""Settings of the objectives that draw their data."""


def drawn(name: str) -> Callable[[Path], Objective]:
    return lambda _: prepare(name, SMALL[name] | {"eval_examples": 16})


OWN = "examples.parity:Parity"


def own(_folder: Path) -> Objective:
    return prepare(OWN, {"context": 8, "share_of_ones": 0.2})


PREPARED: dict[str, Callable[[Path], Objective]] = {
    "language": language,
    "transduction": transduction,
    "transduction, pre-trained": pretrained,
    "classification": classification,
    **{name: drawn(name) for name in SMALL},
    OWN: own,
}


@pytest.fixture(params=sorted(PREPARED))
def prepared(request: pytest.FixtureRequest, tmp_path: Path) -> Objective:
    return PREPARED[request.param](tmp_path)


@pytest.fixture
def objective(prepared: Objective) -> Objective:
    return prepared.to(CPU)


def table(objective: Objective) -> nn.Embedding:
    """Smallest model that can learn: logits looked up by the last token."""
    model = nn.Embedding(objective.vocab_size, objective.vocab_size)
    nn.init.normal_(model.weight, std=0.01, generator=torch.Generator().manual_seed(0))
    return model


def test_every_objective_is_tested_here() -> None:
    assert {name.partition(",")[0] for name in PREPARED} == {*OBJECTIVES, OWN}


def test_the_same_seed_and_step_give_the_same_batch_whatever_came_before(
    objective: Objective,
) -> None:
    first = objective.batch(seed=5, step=7, batch_size=3)
    torch.manual_seed(99)
    objective.batch(seed=5, step=8, batch_size=4)
    again = objective.batch(seed=5, step=7, batch_size=3)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)


def test_drawing_a_batch_leaves_the_global_generator_alone(objective: Objective) -> None:
    before = torch.get_rng_state()
    objective.batch(seed=5, step=7, batch_size=3)
    assert torch.equal(before, torch.get_rng_state())


def test_other_steps_and_other_seeds_give_other_batches(objective: Objective) -> None:
    drawn = [
        objective.batch(seed=seed, step=step, batch_size=8).inputs
        for seed, step in ((0, 0), (0, 1), (1, 0), (1, 1), (2**31, 10**7))
    ]
    assert not any(
        torch.equal(one, other) for i, one in enumerate(drawn) for other in drawn[i + 1 :]
    )


@pytest.mark.parametrize("batch_size", [1, 5])
def test_batches_have_the_promised_shape_and_only_ids_of_the_vocabulary(
    objective: Objective, batch_size: int
) -> None:
    for tokens in objective.batch(seed=0, step=0, batch_size=batch_size):
        assert tokens.shape[0] == batch_size
        assert 1 <= tokens.shape[1] <= objective.context
        assert tokens.dtype == torch.int64
    inputs, targets = objective.batch(seed=0, step=0, batch_size=batch_size)
    asked = targets[targets != IGNORED]
    assert inputs.shape == targets.shape
    assert len(asked) > 0
    for ids in (inputs, asked):
        assert 0 <= int(ids.min()) <= int(ids.max()) < objective.vocab_size


def test_an_evaluation_is_repeatable_and_in_floats(objective: Objective) -> None:
    model = table(objective)
    first = objective.evaluate(model)
    objective.batch(seed=0, step=0, batch_size=2)
    assert objective.evaluate(model) == first
    assert "loss" in first
    first |= objective.final_metrics(model)
    assert all(type(value) is float and math.isfinite(value) for value in first.values())


def test_chance_is_what_the_uniform_model_reaches(objective: Objective) -> None:
    def uniform(inputs: Tensor) -> Tensor:
        return torch.zeros(*inputs.shape, objective.vocab_size)

    batch = objective.batch(seed=0, step=0, batch_size=8)
    assert float(objective.loss(uniform, batch)) == pytest.approx(objective.chance_loss, rel=1e-4)
    assert objective.evaluate(uniform)["loss"] == pytest.approx(objective.chance_loss, rel=1e-4)


def test_a_few_steps_of_training_beat_chance_on_the_held_out_split(objective: Objective) -> None:
    model = table(objective)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for step in range(30):
        optimizer.zero_grad()
        loss = objective.loss(model, objective.batch(seed=0, step=step, batch_size=16))
        assert loss.shape == ()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert objective.evaluate(model)["loss"] < 0.9 * objective.chance_loss


def test_a_prepared_objective_survives_a_pickle(prepared: Objective) -> None:
    arrived = pickle.loads(pickle.dumps(prepared, protocol=5)).to(CPU)
    here = prepared.to(CPU)
    for one, other in zip(
        arrived.batch(seed=1, step=1, batch_size=2),
        here.batch(seed=1, step=1, batch_size=2),
        strict=True,
    ):
        assert torch.equal(one, other)
    assert arrived.evaluate(table(here)) == here.evaluate(table(here))


def test_placing_leaves_what_was_prepared_as_it_was(prepared: Objective) -> None:
    before = pickle.dumps(prepared)
    prepared.to(CPU).evaluate(table(prepared))
    assert pickle.dumps(prepared) == before
