"""Losses of the targets that are asked: their values and gradients against PyTorch's own."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fathom.models.network.transformer import Transformer
from fathom.objectives import keys
from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.token_loss import answers, masked_loss, mean_loss
from fathom.search.training.compile_policy import possible
from tests.support.training import PARAMETRIZATION, SHAPE

DRAWS = torch.Generator().manual_seed(0)
INPUTS = torch.randint(9, (4, 7), generator=DRAWS)
TARGETS = torch.randint(9, (4, 7), generator=DRAWS).where(INPUTS % 3 > 0, IGNORED)
BATCH = Batch(INPUTS, TARGETS)


def table() -> nn.Embedding:
    model = nn.Embedding(9, 9)
    nn.init.normal_(model.weight, generator=torch.Generator().manual_seed(1))
    return model


def test_the_mean_and_its_gradient_are_over_the_targets_that_are_not_ignored() -> None:
    ours, theirs = table(), table()

    loss = masked_loss(ours, BATCH)
    expected = F.cross_entropy(
        theirs(INPUTS).flatten(0, 1), TARGETS.flatten(), ignore_index=IGNORED
    )
    loss.backward()  # type: ignore[no-untyped-call]
    expected.backward()  # type: ignore[no-untyped-call]

    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_answers_are_returned_for_each_position() -> None:
    model = table()
    with torch.no_grad():
        losses_BT, asked_BT, right_BT = answers(model, BATCH)
        loss = masked_loss(model, BATCH)

    assert torch.equal(asked_BT, TARGETS != IGNORED)
    assert torch.equal(right_BT, (model(INPUTS).argmax(-1) == TARGETS) & asked_BT)
    assert bool((losses_BT[~asked_BT] == 0).all())
    torch.testing.assert_close(losses_BT.sum() / asked_BT.sum(), loss)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, in compiling
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("loss_of", [mean_loss, masked_loss])
def test_a_large_vocabulary_takes_chunks_to_the_same_loss(
    loss_of: Callable[[Model, Batch], Tensor], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not possible():
        pytest.skip("no compiler here")
    batch = BATCH if loss_of is masked_loss else Batch(INPUTS, INPUTS)
    found = []
    for at_once in (keys.LOGITS_AT_ONCE, 9 * 11):
        monkeypatch.setattr(keys, "LOGITS_AT_ONCE", at_once)
        model = Transformer(replace(SHAPE, vocab_size=9, context=7), PARAMETRIZATION)
        model.initialise(torch.Generator().manual_seed(0))
        torch.compiler.reset()
        step = torch.compile(loss_of, dynamic=False) if compiled else loss_of
        loss = step(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        found.append((loss, *(one.grad for one in model.parameters())))
    torch.testing.assert_close(found[0], found[1])
