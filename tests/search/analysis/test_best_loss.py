"""The best loss of a search: its interval holds the lowest of the true losses."""

from math import sqrt

import numpy as np
import pytest

from fathom.models.shape import Shape
from fathom.search.analysis.depth_estimates import (
    BestLoss,
    DepthEstimate,
    DepthEstimates,
    best_loss,
    loss_difference,
)

SHAPE = Shape(depth=1, d_model=8, d_ff=8, n_heads=1, head_dim=8, vocab_size=8, context=8)
SEEDS, NOISE = 2, 0.01


def estimates(true: list[float], generator: np.random.Generator) -> DepthEstimates:
    """Means of two seeds of each depth, and the noise as measured from them all."""
    losses = np.array(true)[:, None] + NOISE * generator.standard_normal((len(true), SEEDS))
    freedom = len(true) * (SEEDS - 1)
    noise = sqrt(float(((losses - losses.mean(1, keepdims=True)) ** 2).sum()) / freedom)
    depths = tuple(
        DepthEstimate(
            depth=depth,
            loss=float(loss.mean()),
            standard_error=noise / sqrt(SEEDS),
            trials=SEEDS,
            shape=SHAPE,
        )
        for depth, loss in enumerate(losses, 1)
    )
    return DepthEstimates(noise=noise, degrees_of_freedom=freedom, depths=depths)


@pytest.mark.parametrize("true", [[1.0] * 6, [1.0, 1.02, 1.04, 1.08], [1.2, 1.0, 1.2]])
def test_the_interval_of_a_difference_holds_the_true_one_in_95_of_100(true: list[float]) -> None:
    generator, held, settled = np.random.default_rng(0), 0, 0
    for _ in range(400):
        first, other = (best_loss(estimates(true, generator)) for _ in range(2))
        assert first is not None
        assert other is not None
        found = loss_difference(first, other)
        held += found.low <= 0 <= found.high
        settled += found.is_settled
    assert held / 400 >= 0.95
    assert settled == 400 - held


def test_a_difference_of_many_standard_errors_is_settled() -> None:
    generator = np.random.default_rng(0)
    first = best_loss(estimates([1.1, 1.0, 1.1, 1.2], generator))
    other = best_loss(estimates([1.2, 1.1, 1.2, 1.3], generator))
    assert first is not None
    assert other is not None
    found = loss_difference(first, other)
    assert found.is_settled
    assert found.low < -0.1 < found.high < 0


def test_more_confidence_is_a_wider_interval_and_no_training_is_none() -> None:
    measured = estimates([1.1, 1.0, 1.1], np.random.default_rng(0))
    usual, sure = best_loss(measured), best_loss(measured, confidence=0.999)
    assert isinstance(usual, BestLoss)
    assert isinstance(sure, BestLoss)
    assert sure.low < usual.low < usual.loss < usual.high < sure.high
    assert best_loss(DepthEstimates(noise=0.01, degrees_of_freedom=0)) is None
