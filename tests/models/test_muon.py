"""Muon's step for all matrices of a size at once: the one that PyTorch takes for each alone."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.models import muon
from fathom.models.muon import BatchedMuon, orthogonal

SIZES = ((24, 24), (24, 24), (60, 24), (24, 60), (60, 24), (24, 24))


def moved(optimizer_of: type[torch.optim.Muon], steps: int = 3) -> list[Tensor]:
    """Weights after steps along the same random gradients, at one rate for all sizes."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(size, generator=generator) for size in SIZES]
    # PyTorch's step multiplies the rate of a tall matrix.
    times = 1.0 if optimizer_of is BatchedMuon else math.sqrt(60 / 24)
    tall = {"lr": 0.02 / times, "weight_decay": 0.5 * times}
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight in weights if weight.shape != (60, 24)]},
        {"params": [weight for weight in weights if weight.shape == (60, 24)]} | tall,
    ]
    optimizer = optimizer_of(groups, lr=0.02, weight_decay=0.5)
    for _ in range(steps):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.step()  # type: ignore[no-untyped-call]
    return weights


def test_steps_are_those_of_pytorch_but_for_its_bfloat16() -> None:
    for ours, plain in zip(moved(BatchedMuon), moved(torch.optim.Muon), strict=True):
        start_to_start = 3 * 0.02 * math.sqrt(24)  # Frobenius norm of three orthogonal steps
        assert float((ours - plain).norm()) < 0.02 * start_to_start


def test_matrices_in_several_batches_move_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = moved(BatchedMuon)
    monkeypatch.setattr(muon, "MUON_AT_ONCE", 1)
    for parts, other in zip(moved(BatchedMuon), whole, strict=True):
        torch.testing.assert_close(parts, other)


def test_a_gradient_of_zero_leaves_no_nan() -> None:
    made = orthogonal(torch.zeros(2, 4, 6), (3.4445, -4.7750, 2.0315), 5, 1e-12)
    assert torch.equal(made, torch.zeros(2, 4, 6))
