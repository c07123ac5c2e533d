"""The choice of a depth where it is served, from planted draws of the losses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fathom.search.analysis.curve.posterior import Posterior
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.noise import UNKNOWN
from fathom.search.analysis.spending.serving_choice import Limits, ServedDepth, choose_served

LOSSES = {2: 2.1, 3: 2.002, 4: 2.0, 5: 2.03}


def posterior(noise: float) -> Posterior:
    """Draws of the planted losses, with independent errors."""
    depths = np.array([*LOSSES])
    draws = np.random.default_rng(0).normal(0, noise, (4000, len(depths)))
    points: Any = DepthPoints
    return Posterior(
        depths=depths, losses=draws + np.array([*LOSSES.values()]), lowest=np.zeros(4000),
        noise=noise, points=points, repeats=UNKNOWN,
    )  # fmt: skip


def served(depth: int, **changes: Any) -> ServedDepth:
    each = ServedDepth(
        depth=depth, token_seconds=depth * 1e-3, token_error=1e-5, prefill_seconds=depth * 1e-2,
        prefill_error=1e-4, weight_bytes=4000, cache_bytes=100 * depth,
    )  # fmt: skip
    return replace(each, **changes)


ALL = [served(depth) for depth in (5, 2, 4, 3)]


def test_the_fastest_that_is_as_good_stands_beside_the_best() -> None:
    found = choose_served(posterior(0.0005), ALL)
    assert (found.best, found.fastest) == (4, 3)
    assert [each.depth for each in found.offered] == [2, 3, 4, 5]
    assert [each.on_front for each in found.offered] == [True, True, True, False]
    assert found.best_is_sure
    assert [each.cost_interval == (0, 0) for each in found.offered] == [False, False, True, False]
    low, high = found.offered[0].cost_interval
    assert low < 0.1 < high


def test_no_depth_is_named_where_the_losses_do_not_tell() -> None:
    found = choose_served(posterior(0.02), ALL)
    assert found.best is not None
    assert not found.best_is_sure
    assert found.fastest is None


@pytest.mark.parametrize(
    ("limits", "depths"),
    [
        (Limits(token_seconds=3.5e-3), [2, 3]),
        (Limits(prefill_seconds=0.045), [2, 3, 4]),
        (Limits(cache_bytes=300), [2, 3]),
        (Limits(weight_bytes=3999), []),
    ],
)
def test_depths_over_a_limit_are_not_on_offer(limits: Limits, depths: list[int]) -> None:
    found = choose_served(posterior(0.0005), ALL, limits)
    assert [each.depth for each in found.offered] == depths
    assert found.unsure == ()
    assert found.best == (min(depths, key=lambda d: LOSSES[d]) if depths else None)


def test_a_depth_whose_time_is_close_to_the_limit_is_neither_under_it_nor_over() -> None:
    found = choose_served(posterior(0.0005), ALL, Limits(token_seconds=3.01e-3))
    assert [each.depth for each in found.offered] == [2]
    assert found.unsure == (3,)
    assert found.best == 2
    assert not found.best_is_sure, "3 layers lose 0.1 nats less, and may be under the limit"
    assert found.fastest is None


def test_a_depth_that_may_be_over_a_limit_takes_no_certainty_where_it_is_no_better() -> None:
    depths = [served(2), served(3), served(5, token_error=1e-3)]
    found = choose_served(posterior(0.0005), depths, Limits(token_seconds=5e-3))
    assert found.unsure == (5,)
    assert (found.best, found.best_is_sure, found.fastest) == (3, True, 3)


def test_where_every_time_is_close_to_the_limit_no_depth_is_on_offer() -> None:
    close = [served(depth, token_error=1.0) for depth in LOSSES]
    found = choose_served(posterior(0.0005), close, Limits(token_seconds=1e-3))
    assert (found.offered, found.unsure, found.best) == ((), (2, 3, 4, 5), None)
