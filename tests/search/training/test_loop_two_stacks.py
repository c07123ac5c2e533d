"""Training with sources: it learns, a batch in parts is the same, and regularisation is exact."""

import copy
from dataclasses import replace

import pytest
import torch

from fathom.models.options import Residual
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.objectives.contract import IGNORED
from fathom.objectives.token_loss import masked_loss
from fathom.search.training.loop import train
from fathom.search.training.micro_batches import weighted_micro_batches
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.state import Training, TrainPlan
from tests.support.reversal import CPU, Reversal
from tests.support.training import PARAMETRIZATION, PLAN

SHAPE = Shape(
    depth=2, encoder_depth=1, d_model=32, d_ff=64, n_heads=2, head_dim=16, vocab_size=10, context=8
)
TASK = Reversal()


def training_of(plan: TrainPlan = PLAN, shape: Shape = SHAPE) -> Training:
    scheme = Scheme.STANDARD if shape.residual is not Residual.PRE else Scheme.COMPLETEP
    return Training(shape, replace(PARAMETRIZATION, scheme=scheme), plan, seed=0, device=CPU)


@pytest.mark.parametrize("residual", [Residual.PRE, Residual.POST, Residual.ADMIN])
def test_two_stacks_learn_what_only_the_source_tells(residual: Residual) -> None:
    plan = replace(PLAN, steps=300, batch_size=32, evaluation_steps=(1, 300), grad_clip=0.5)
    first, last = train(training_of(plan, replace(SHAPE, residual=residual)), TASK)
    assert first.loss > 1.9
    assert last.loss < 1.0
    assert last.metrics["right"] > 0.6


def test_parts_of_a_batch_keep_their_sources() -> None:
    batch = TASK.batch(seed=0, step=0, batch_size=8)
    parts = [
        part for rank in range(2) for part, _ in weighted_micro_batches(batch, Ranks(rank, 2), 2)
    ]
    assert [len(part.inputs) for part in parts] == [2] * 4
    sources = [part.sources for part in parts if part.sources is not None]
    assert batch.sources is not None
    assert torch.equal(torch.cat(sources), batch.sources)


def test_micro_batches_give_the_gradient_of_the_whole_batch() -> None:
    plan = replace(PLAN, steps=6, evaluation_steps=(6,), batch_size=8)
    single, four = training_of(plan), training_of(replace(plan, micro_batches=4))
    [whole], [parts] = list(train(single, TASK)), list(train(four, TASK))
    assert parts.loss == pytest.approx(whole.loss, abs=1e-4)


def test_dropout_is_the_same_after_an_interruption() -> None:
    plan = replace(PLAN, steps=6, evaluation_steps=(3, 6), dropout=0.2)
    whole = [point.train_loss for point in train(training_of(plan), TASK)]
    first = training_of(plan)
    next(train(first, TASK))
    second = training_of(plan)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    torch.manual_seed(99)
    assert [point.train_loss for point in train(second, TASK)] == whole[1:]
    assert whole != [
        point.train_loss for point in train(training_of(replace(plan, dropout=0.0)), TASK)
    ]


@pytest.mark.parametrize("chunked", [False, True])
def test_label_smoothing_is_in_the_training_loss_alone(
    chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chunked:
        monkeypatch.setattr("fathom.objectives.token_loss.logit_tokens", lambda size: 7)
    training = training_of(replace(PLAN, label_smoothing=0.1))
    model, batch = training.model, TASK.batch(seed=0, step=0, batch_size=16)
    model.zero_grad()
    loss = masked_loss(model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    weight = model.get_parameter("embedding.weight")
    assert weight.grad is not None
    gradient = weight.grad.clone()
    model.zero_grad()
    logits = model(*batch.read).flatten(0, 1)
    wanted = torch.nn.functional.cross_entropy(
        logits, batch.targets.flatten(), ignore_index=IGNORED, label_smoothing=0.1
    )
    wanted.backward()  # type: ignore[no-untyped-call]
    assert torch.isclose(loss, wanted, atol=1e-5)
    assert torch.allclose(gradient, weight.grad, atol=1e-6)
    model.eval()
    plain = torch.nn.functional.cross_entropy(logits, batch.targets.flatten(), ignore_index=IGNORED)
    assert torch.isclose(masked_loss(model, batch), plain, atol=1e-5)
