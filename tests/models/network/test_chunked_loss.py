"""The loss in chunks against that of all logits at once: values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fathom.models.network import chunked_loss as module
from fathom.models.network.chunked_loss import chunked_loss, rows_in_products

N, D, V = 23, 8, 50
DRAWS = torch.Generator().manual_seed(0)
TARGETS = torch.randint(V, (N,), generator=DRAWS)
WEIGHTS = torch.rand(N, generator=DRAWS)


def parts() -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    x_ND, head_VD = (torch.randn(count, D, generator=draws) for count in (N, V))
    return x_ND.requires_grad_(), head_VD.requires_grad_()


def whole(x_ND: Tensor, head_VD: Tensor) -> Tensor:
    losses = F.cross_entropy(F.linear(x_ND, head_VD).float(), TARGETS, reduction="none")
    return (losses * WEIGHTS).sum()


@pytest.mark.parametrize("chunk", [1, 7, N])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_chunks_change_neither_the_loss_nor_its_gradients(chunk: int, bfloat16: bool) -> None:
    ours, others = parts(), parts()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        loss, expected = chunked_loss(*ours, TARGETS, WEIGHTS, chunk), whole(*others)
    (3 * loss).backward()  # type: ignore[no-untyped-call]
    (3 * expected).backward()  # type: ignore[no-untyped-call]
    close = 2e-2 if bfloat16 else 1e-5
    torch.testing.assert_close(loss, expected)
    for our, theirs in zip(ours, others, strict=True):
        torch.testing.assert_close(our.grad, theirs.grad, rtol=close, atol=close)


def test_a_token_without_weight_counts_for_nothing() -> None:
    targets, weights = TARGETS.clone(), WEIGHTS.clone()
    targets[5], weights[5] = -100, 0.0
    rest = torch.arange(N) != 5
    x_ND, head_VD = parts()
    loss = chunked_loss(x_ND, head_VD, targets, weights, 4)
    expected = chunked_loss(x_ND[rest], head_VD, targets[rest], weights[rest], N)
    torch.testing.assert_close(loss, expected)


def test_without_gradients_only_the_loss_is_computed() -> None:
    with torch.no_grad():
        loss = chunked_loss(*parts(), TARGETS, WEIGHTS, 4)
        torch.testing.assert_close(loss, whole(*parts()))
    assert not loss.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_rows_that_are_added_to_the_head_change_neither_the_loss_nor_its_gradients(
    bfloat16: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured() -> list[Tensor]:
        x_ND, head_VD = parts()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
            loss = chunked_loss(x_ND, head_VD, TARGETS, WEIGHTS, 7, smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        assert x_ND.grad is not None
        assert head_VD.grad is not None
        return [loss.detach(), x_ND.grad, head_VD.grad]

    without = measured()
    monkeypatch.setitem(module.ROWS, "cpu", 64)
    monkeypatch.setattr(module, "FEWEST_ROWS", 1)
    assert rows_in_products(V, "cpu") == 64
    close = 1e-2 if bfloat16 else 1e-6
    for ours, theirs in zip(measured(), without, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=close, atol=close)


def test_only_large_vocabularies_on_a_gpu_get_rows() -> None:
    assert rows_in_products(50_257, "cuda") == 50_304
    assert rows_in_products(50_304, "cuda") == 50_304
    assert rows_in_products(65, "cuda") == 65
    assert rows_in_products(50_257, "cpu") == 50_257
