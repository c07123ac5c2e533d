"""The device's utilisation in a training, and the generation time of its model. Torch only."""

import time
from collections.abc import Callable
from functools import cache

import torch

from fathom.models.network.transformer import Transformer

TRIES = 3
"""Repetitions of a timing; the fastest counts, as slower ones were disturbed by other work."""


def utilisation(
    model: Transformer, *, tokens_per_second: float, bfloat16: bool
) -> dict[str, float]:
    """Metrics of speed at the end of a training.

    `flop_utilisation`: the training's operations per second, as a fraction of those of a large
    matrix product in the same precision on this device (Chowdhery et al. 2022).
    `generation_seconds`: the time of a forward pass over one sequence of a full context (with an
    encoder, also over a source of that length), which is the cost of the next token without a
    cache.
    """
    device = model.embedding.weight.device
    rate = tokens_per_second * model.shape.train_flops_per_token
    context_BT = torch.ones(1, model.shape.context, dtype=torch.int64, device=device)
    read = [context_BT] * (2 if model.shape.encoder_depth else 1)
    with torch.no_grad():
        generation = _fastest(lambda: model(*read), device)
    return {
        "flop_utilisation": rate / matrix_rate(device, bfloat16),
        "generation_seconds": generation,
    }


@cache
def matrix_rate(device: torch.device, bfloat16: bool) -> float:
    """Operations per second of this device in a product of square matrices, with the threads of
    this process."""
    size = 8192 if device.type == "cuda" else 768
    dtype = torch.bfloat16 if bfloat16 else torch.float32
    square = torch.ones(size, size, device=device, dtype=dtype)
    return 2 * size**3 / _fastest(lambda: square @ square, device)


def _fastest(run: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(TRIES):
        _wait(device)
        began = time.perf_counter()
        run()
        _wait(device)
        times.append(time.perf_counter() - began)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
