"""The contract that every objective keeps; a new one in the registry needs keys in `SMALL`."""

import itertools
import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fathom.objectives.contract import IGNORED, Objective
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.prepare import prepare
from fathom.objectives.registry import OBJECTIVES
from fathom.objectives.user_objective import UserObjectiveConfig
from tests.support.objectives import CPU, keys_of, uniform

USER = "examples.parity:Parity"


def language(folder: Path) -> ObjectiveConfig:
    (folder / "text.txt").write_text("".join(f"line {n} of {n * n}\n" for n in range(2000)))
    return keys_of("language", corpus=str(folder / "text.txt"), context=16, eval_tokens=512)


def tokens(folder: Path) -> ObjectiveConfig:
    ids = np.arange(20_000, dtype=np.uint16) * 7 % 101
    ids.astype("<u2").tofile(folder / "ids.bin")
    return keys_of(
        "tokens", train=str(folder / "ids.bin"), vocabulary=101, context=16, eval_tokens=128
    )


def transduction(folder: Path) -> ObjectiveConfig:
    words = ["ant", "bee", "cat", "dog"]
    rows = [f"{a} {b} {c}\t{c} {b} {a}" for a in words for b in words for c in words]
    (folder / "rows.tsv").write_text("\n".join(rows))
    return keys_of("transduction", data=str(folder / "rows.tsv"), context=12)


def pretrained(folder: Path) -> ObjectiveConfig:
    (folder / "text.txt").write_text("".join(f"An ant, a bee: {n}.\n" for n in range(200)))
    # Ten of the steps that this file trains for.
    text = {"corpus": str(folder / "text.txt"), "words": 8, "tokens": 10 * 16 * 12}
    rows = transduction(folder)
    return keys_of("transduction", **rows.settings() | {"pretraining": text})


def classification(folder: Path) -> ObjectiveConfig:
    rows = [f"{mood}\tit was {mood} day {n}" for n in range(40) for mood in ("good", "bad")]
    (folder / "texts.tsv").write_text("\n".join(rows))
    return keys_of("classification", data=str(folder / "texts.tsv"), label="first", context=5)


def translation(folder: Path) -> ObjectiveConfig:
    (folder / "pairs.tsv").write_text("".join(f"say {n}\tder Satz {n} ist um\n" for n in range(60)))
    return keys_of("translation", data=str(folder / "pairs.tsv"), tokenizer="words", context=6)


SMALL: dict[str, Callable[[Path], ObjectiveConfig]] = {
    "language": language,
    "tokens": tokens,
    "transduction": transduction,
    "transduction, pre-trained": pretrained,
    "translation": translation,
    "classification": classification,
    "hop": lambda _: keys_of("hop", symbols=4, hops=3, context=20, eval_examples=16),
    # With so few symbols, knowing the wrong answers is worth something.
    "induction": lambda _: keys_of(
        "induction", symbols=4, block=[2, 3], gap=[0, 2], context=12, eval_examples=16
    ),
    "connectivity": lambda _: keys_of("connectivity", diameter=3, eval_examples=16),
    "blocks": lambda _: keys_of(
        "blocks", train_lengths=[5, 9], test_lengths=[[10, 12]], eval_examples=16
    ),
    USER: lambda _: UserObjectiveConfig(name=USER, context=8, share_of_ones=0.2),
}
"""Keys of each objective, small enough to learn something within thirty steps."""


@pytest.fixture(params=sorted({*SMALL, *OBJECTIVES} - {"external"}))
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectiveConfig:
    assert request.param in SMALL, f"add keys of {request.param} to SMALL"
    return SMALL[request.param](tmp_path)


@pytest.fixture
def prepared(keys: ObjectiveConfig) -> Objective:
    return prepare(keys)


@pytest.fixture
def objective(prepared: Objective) -> Objective:
    return prepared.to(CPU)


class Table(nn.Embedding):
    """Smallest model that can learn: logits looked up by the last token, whatever the sources."""

    def forward(self, inputs: Tensor, *_sources: Tensor) -> Tensor:
        return super().forward(inputs)


def table(objective: Objective) -> Table:
    model = Table(objective.vocab_size, objective.vocab_size)
    nn.init.normal_(model.weight, std=0.01, generator=torch.Generator().manual_seed(0))
    return model


def test_keys_know_context_and_vocabulary(keys: ObjectiveConfig, prepared: Objective) -> None:
    probe = keys.for_probe(context=8, eval_tokens=64)
    assert keys.context == prepared.context >= probe.context
    assert keys.vocab_size() == prepared.vocab_size == prepare(probe).vocab_size


def test_a_batch_is_that_of_its_seed_and_step_whatever_came_before(objective: Objective) -> None:
    first = objective.batch(seed=5, step=7, batch_size=3)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    objective.batch(seed=5, step=8, batch_size=4)
    again = objective.batch(seed=5, step=7, batch_size=3)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert torch.equal(before, torch.get_rng_state()), "the global generator is left alone"


def test_other_steps_and_other_seeds_give_other_batches(objective: Objective) -> None:
    drawn = [
        objective.batch(seed=seed, step=step, batch_size=8).inputs
        for seed, step in ((0, 0), (0, 1), (1, 0), (1, 1), (2**31, 10**7))
    ]
    assert not any(torch.equal(batch, other) for batch, other in itertools.combinations(drawn, 2))


@pytest.mark.parametrize("batch_size", [1, 5])
def test_batches_have_the_promised_shape_and_ids(objective: Objective, batch_size: int) -> None:
    batch = objective.batch(seed=0, step=0, batch_size=batch_size)
    for tokens in (*batch.read, batch.targets):
        assert len(tokens) % batch_size == 0
        assert tokens.numel() <= batch_size * objective.context
        assert 1 <= tokens.shape[1] <= objective.context
        assert tokens.dtype == torch.int64
    inputs, targets, _ = batch
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
    batch = objective.batch(seed=0, step=0, batch_size=8)
    chance, model = pytest.approx(objective.chance_loss, rel=1e-4), uniform(objective)
    assert float(objective.loss(model, batch)) == chance
    assert objective.evaluate(model)["loss"] == chance


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


def test_a_prepared_objective_survives_a_pickle_and_being_placed(prepared: Objective) -> None:
    before = pickle.dumps(prepared)
    arrived = pickle.loads(pickle.dumps(prepared, protocol=5)).to(CPU)
    here = prepared.to(CPU)
    sent, kept = (task.batch(seed=1, step=1, batch_size=2).read for task in (arrived, here))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(sent, kept, strict=True))
    assert arrived.evaluate(table(here)) == here.evaluate(table(here))
    assert pickle.dumps(prepared) == before
