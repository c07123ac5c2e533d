"""The next training is the one that is expected to tell most."""

import numpy as np
import pytest

from benchmarks.worlds.planted import Curve, symmetric
from fathom.search.analysis.curve.posterior import Posterior, find_posterior
from fathom.search.analysis.curve_families import DepthPoints
from fathom.search.analysis.losses.noise import Repeats
from fathom.search.scheduling.telling import may_have_stalled, most_telling

NOISE = 0.004


def posterior_of(
    losses: dict[int, float], *, seeds: int = 1, between: float = 0.0, forecast: int = 0
) -> Posterior:
    """Means of so many seeds of each depth; shapes of a depth differ by `between`, and the last
    `forecast` depths have no training."""
    trained = np.array([index < len(losses) - forecast for index in range(len(losses))])
    by_seeds = np.diag(np.where(trained, 1 / seeds, 0.0))
    errors = NOISE**2 * by_seeds + np.diag(np.where(trained, between, 0.05) ** 2)
    points = DepthPoints(
        depths=np.array(list(losses)),
        losses=np.array(list(losses.values())),
        covariance=errors,
        noise=NOISE,
        by_seeds=by_seeds,
    )
    return find_posterior(points, Repeats(NOISE, 8), np.random.default_rng(0))


def on(curve: Curve, *depths: int) -> dict[int, float]:
    return {depth: 1.6 + curve(depth) for depth in depths}


def doubt(posterior: Posterior) -> np.ndarray:
    return np.log(posterior.lowest)


def test_a_new_depth_inside_a_wide_gap_tells_more_than_a_repeat_at_its_ends() -> None:
    posterior = posterior_of(on(symmetric(5, 0.05), 1, 2, 8, 16))
    (chosen,) = most_telling(posterior, doubt(posterior), [1, 2, 4, 8, 16], 1)
    assert chosen == 4


def test_nothing_is_chosen_where_no_training_is_worth_it() -> None:
    posterior = posterior_of(on(symmetric(5, 0.05), 2, 4, 5, 6, 12))
    unrelated = np.random.default_rng(1).normal(size=len(posterior.lowest))
    assert most_telling(posterior, unrelated, range(2, 13), 1) == []
    assert most_telling(posterior, doubt(posterior), [], 1) == []


def test_several_trainings_at_once_are_of_different_depths() -> None:
    posterior = posterior_of(on(symmetric(5, 0.02), 1, 2, 8, 16))
    chosen = most_telling(posterior, doubt(posterior), range(1, 17), 3)
    assert len(set(chosen)) == len(chosen) > 1


def test_a_repeat_says_nothing_of_how_its_shape_differs_from_others_of_its_depth() -> None:
    """Where shapes differ by far more than seeds, another seed is not worth a training."""
    losses = on(symmetric(5, 0.03), 1, 3, 6, 12)
    seeds_decide = posterior_of(losses, seeds=1)
    shapes_decide = posterior_of(losses, seeds=4, between=0.02)
    assert most_telling(seeds_decide, doubt(seeds_decide), list(losses), 1)
    assert not most_telling(shapes_decide, doubt(shapes_decide), list(losses), 1)


def test_a_forecast_depth_may_be_chosen_as_one_without_a_training() -> None:
    posterior = posterior_of({**on(symmetric(4, 0.05), 2, 3, 6), 12: 1.68}, forecast=1)
    assert most_telling(posterior, doubt(posterior), [12], 1) in ([12], [])


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("losses", "depth", "suspect"),
    [
        ({1: 1.75, 2: 1.64, 3: 1.607, 4: 1.66, 6: 1.62, 8: 1.66}, 4, True),
        ({1: 1.75, 2: 1.64, 3: 1.61, 4: 1.605, 6: 1.63, 8: 1.66}, 3, False),
        ({1: 1.75, 2: 1.64, 3: 1.61, 4: 1.605, 6: 1.63, 8: 1.66}, 1, False),
        ({2: 1.64, 3: 1.70, 4: 1.605}, 3, False),
    ],
    ids=["far above its neighbours", "as they say", "an end", "too few others"],
)
def test_a_loss_that_the_other_depths_make_unlikely_is_suspect(
    losses: dict[int, float], depth: int, suspect: bool, settled: bool
) -> None:
    assert may_have_stalled(posterior_of(losses), depth, settled=settled) is suspect


def test_a_misfit_far_from_the_best_depth_is_left_alone() -> None:
    losses = on(symmetric(3, 0.1), 1, 2, 3, 4, 6, 24)
    losses[12] = 1.6 + symmetric(3, 0.1)(12) + 0.1
    posterior = posterior_of(dict(sorted(losses.items())))
    assert not may_have_stalled(posterior, 12, settled=True)
    assert not may_have_stalled(posterior, 12, settled=False)
