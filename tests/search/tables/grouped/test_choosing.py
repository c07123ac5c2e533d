"""The best of several values, and its price."""

from dataclasses import replace

import numpy as np
import pytest

from fathom.search.tables.grouped.choosing import (
    EndedRun,
    choose,
    expected_gain,
    noise_of,
    swept_notes,
)
from fathom.search.tables.runs import Run
from tests.support.curves import run


def ended(loss: float | None, *, seed: int = 0, **settings: str) -> EndedRun:
    return EndedRun(replace(run(4, seed=seed), settings=settings), loss)


def test_the_best_value_of_a_shape_counts_by_the_mean_of_its_seeds() -> None:
    losses = [("a", 0, 3.00), ("a", 1, 3.10), ("b", 0, 3.03), ("b", 1, 3.05)]
    runs = [ended(loss, seed=seed, decay=value) for value, seed, loss in losses]
    chosen = choose(runs, rates=False, noise=0.01)

    assert [run.run.settings["decay"] for run in chosen] == ["b", "b"]
    assert all(0 < run.price < 0.01 for run in chosen)


def test_a_value_that_is_far_ahead_has_no_price_and_equals_have_most() -> None:
    errors = [0.01] * 4

    assert expected_gain([3.0, 3.1, 3.2, 3.3], errors) == pytest.approx(0, abs=1e-6)
    assert expected_gain([3.0] * 4, errors) == pytest.approx(1.0294 * 0.01, rel=1e-3)
    assert expected_gain([3.0], [0.01]) == 0


def test_losses_of_chosen_values_hold_the_true_best_within_the_price() -> None:
    """95 % intervals by the noise and the price, for values that differ by little or much."""
    generator = np.random.default_rng(0)
    for spread in (0.0, 0.5, 2.0):
        inside = 0
        for _ in range(200):
            truth = generator.normal(0, spread, 8)
            seen = truth + generator.normal(0, 1, 8)
            price = expected_gain(seen.tolist(), [1.0] * 8)
            inside += abs(seen.min() + price - truth.min()) < 1.96 * np.hypot(1, price)
        assert inside >= 180, spread


def test_a_best_learning_rate_at_the_end_of_its_sweep_is_told() -> None:
    def swept(depth: int, *losses: float | None) -> list[Run]:
        return [
            replace(
                run(depth), learning_rate=10.0**-power, diverged=loss is None,
                tokens=np.array([1e9]), losses=np.array([] if loss is None else [loss]),
            )
            for power, loss in enumerate(losses, 2)
        ]  # fmt: skip

    inside = [*swept(2, 3.2, 3.0, 3.1), *swept(4, None, 3.0, 3.1), *swept(6, 2.9)]
    assert list(swept_notes(inside)) == []
    [low, high] = swept_notes([*inside, *swept(8, 3.2, 3.1), *swept(12, 3.1, 3.2)])
    assert low.startswith("of the learning rates of depth 8 the lowest is best: a lower one may")
    assert high.startswith("of the learning rates of depth 12 the highest is best: a higher one")
    assert list(swept_notes(swept(2, None, None))) == []


def test_the_noise_is_what_differs_between_seeds_alone() -> None:
    settings = [ended(3.0, decay="1"), ended(3.5, decay="2"), ended(4.0, decay="3")]
    seeds = [ended(3.0 + 0.02 * seed, seed=seed) for seed in range(20)]

    assert noise_of(settings) == pytest.approx(0.006), "what is usual"
    assert noise_of(seeds) > 0.08


def test_a_run_without_a_loss_is_kept_only_where_all_of_its_shape_are() -> None:
    assert [run.loss for run in choose([ended(None), ended(3.0)], rates=True, noise=0.01)] == [3.0]
    assert [run.loss for run in choose([ended(None)], rates=True, noise=0.01)] == [None]
