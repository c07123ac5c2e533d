"""Losses of the targets that are asked: their values and gradients against PyTorch's own."""

import torch
import torch.nn.functional as F
from torch import nn

from fathom.objectives.contract import IGNORED, Batch
from fathom.objectives.token_loss import answers, masked_loss

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
