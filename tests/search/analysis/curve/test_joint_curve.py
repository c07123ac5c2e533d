"""The curve through confirmed and explored depths: `search/analysis/curve/joint_curve.py`."""

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np
import pytest
from numpy.random import Generator

from benchmarks.worlds.planted import World, asymmetric, finished, symmetric
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.curve.curve_fit import fit, points_of
from fathom.search.analysis.curve.joint_curve import best_of, fit_joint_curve, incumbent_depth
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.records import CurvePoint, Outcome, Stage, TrialRecord
from tests.support.optima import located
from tests.support.simulated import cut

WORLD = World(curve=symmetric(6), noise=0.0, ratio_effect=0.0, params_slope=0.0)
Records = list[TrialRecord]
CONFIRMED = (2, 4, 8, 16)
EXPLORED = (1, 2, 3, 4, 5, 6, 8, 11, 16, 24)


def explored(
    world: World, depths: Sequence[int] = EXPLORED, generator: Generator | None = None
) -> Records:
    generator = generator or np.random.default_rng(0)
    return [world.record(world.spec(world.shape(d), seed=0), generator) for d in depths]


def paused(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Exploring trials, most of them paused at their first rung, as in a search."""
    return [cut(r, min(r.rungs)) if index % 5 else r for index, r in enumerate(records)]


def stopped(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Exploring trials, all of them paused at their first rung."""
    return [cut(record, min(record.rungs)) for record in records]


def confirmed(world: World, depths: Sequence[int] = CONFIRMED, noise: float = 0.0) -> Records:
    """Two confirmation trials of each depth, apart by twice the noise."""
    return [
        finished(
            world.spec(world.shape(depth), seed=1000 + seed, stage=Stage.CONFIRM),
            world.expected_loss(world.shape(depth)) + noise * (2 * seed - 1),
        )
        for depth in depths
        for seed in (0, 1)
    ]


def lowered(record: TrialRecord, by: float) -> TrialRecord:
    curve: tuple[CurvePoint, ...] = tuple(replace(p, loss=p.loss - by) for p in record.curve)
    return replace(record, curve=curve, rungs={t: value - by for t, value in record.rungs.items()})


def optimum(records: Sequence[TrialRecord]) -> float:
    curve = fit_joint_curve(records, estimate_depths(records))
    assert curve
    return curve.optimum


def test_the_best_depth_is_found_before_any_trial_has_finished() -> None:
    assert incumbent_depth(stopped(explored(WORLD, (1, 2, 4, 8, 16)))) in (5, 6, 7)


def test_two_depths_make_no_curve_and_the_better_one_is_the_incumbent() -> None:
    assert incumbent_depth(explored(WORLD, (2, 8))) == 8
    assert incumbent_depth([]) is None


def test_failed_trials_alone_give_no_answer() -> None:
    for outcome in (Outcome.DIVERGED, Outcome.FAILED, Outcome.OUT_OF_MEMORY):
        lost = [replace(record, outcome=outcome) for record in explored(WORLD)]
        assert incumbent_depth(lost) is None


@pytest.mark.parametrize(("p", "q"), [(2.0, 0.6), (0.6, 2.0), (1.0, 1.0)])
def test_explored_depths_improve_the_lowest_point(p: float, q: float) -> None:
    world = replace(WORLD, curve=asymmetric(5.0, p, q, 0.05), noise=0.006)
    off: list[tuple[float, float]] = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        sure = [world.record(record.spec, generator) for record in confirmed(world)]
        both = optimum([*sure, *paused(explored(world, generator=generator))])
        off.append((log(both / 5), log(fit(points_of(estimate_depths(sure))).optimum / 5)))
    joined, alone = np.sqrt(np.mean(np.square(off), axis=0))
    assert joined < 0.75 * alone


@pytest.mark.parametrize("level", [-0.02, 0.02])
def test_the_level_of_the_explored_losses_hardly_counts(level: float) -> None:
    sure, some = confirmed(WORLD, noise=0.003), paused(explored(WORLD))
    moved = [lowered(record, level) for record in some]
    assert optimum([*sure, *moved]) == pytest.approx(optimum([*sure, *some]), rel=0.1)


def test_an_explored_depth_is_uncertain_by_the_gain_of_untried_rates() -> None:
    gains = {2: 0.0, 4: 0.0, 8: 0.05, 16: 0.0}
    sure, some = confirmed(WORLD, noise=0.0005), stopped(explored(WORLD))
    first = [record for record in sure if record.spec.seed == 1000]
    better = [lowered(record, gains[record.spec.shape.depth]) for record in first]
    halved = [replace(r, spec=replace(r.spec, rate_scale=0.5)) for r in better]
    one_rate, two_rates = (
        fit_joint_curve(records, estimate_depths(records))
        for records in ([*sure, *some], [*sure, *halved, *some])
    )
    assert one_rate
    assert two_rates
    added = two_rates.points.errors[0] ** 2 - one_rate.points.errors[0] ** 2
    assert added == pytest.approx(0.05**2 / 4, rel=0.1)
    assert optimum([*sure, *halved, *some]) > 7


def test_forecasts_that_no_curve_fits_refute_none() -> None:
    """A paused depth that starts far more slowly than its neighbours is no second hump."""
    sure = confirmed(WORLD, (3, 4, 6, 8), noise=0.001)
    some = [
        lowered(record, -0.3 if record.spec.shape.depth == 11 else 0.0)
        for record in stopped(explored(WORLD, (2, 11, 16, 24)))
    ]
    found = find_optimum([*sure, *some], seed=0)
    assert isinstance(found, Located)
    assert found.optimal_depth == 6
    assert found.interval[1] < 8


def test_explored_depths_do_not_affect_the_misfit() -> None:
    sure = confirmed(WORLD, noise=0.003)
    loud = np.random.default_rng(1)
    some = stopped(explored(replace(WORLD, noise=0.03), generator=loud))
    curve = fit_joint_curve([*sure, *some], estimate_depths([*sure, *some]))
    assert curve
    assert curve.misfit.min() == 0.0


def test_confirmed_trials_correct_the_forecasts_of_explored_ones() -> None:
    """All but depth 1 fall steeply after their first rung; only depth 1 was explored further."""
    late = stopped([lowered(record, -0.15) for record in explored(WORLD, (2, 3, 4, 8, 12))])
    records = [*explored(WORLD, (1,)), *late]
    assert incumbent_depth(records) in (1, 2)
    assert incumbent_depth([*records, *confirmed(WORLD, (1, 2, 4, 8), 0.003)]) in (5, 6, 7)


def test_the_finished_depths_decide() -> None:
    deep = replace(WORLD, curve=symmetric(14))
    records = [*confirmed(WORLD, noise=0.0005), *stopped(explored(deep))]
    found = located(find_optimum(records, seed=0))
    low, high = found.curve_minimum_interval
    assert low <= 6 <= high < 10
    assert found.expected_depth == 6


def test_the_answer_is_the_tested_depth_that_is_lowest_on_the_curve() -> None:
    """At 4.7 of 4 and 6: nearest to 5, to which it is rounded, would be 6."""
    world = replace(WORLD, curve=symmetric(4.7, 0.2))
    found = located(find_optimum(confirmed(world, (2, 3, 4, 6, 9), noise=0.0005), seed=0))
    assert found.curve_minimum == pytest.approx(4.7, abs=0.1)
    assert found.expected_depth == 5
    assert found.shape
    assert found.optimal_depth == found.shape.depth == 4


def test_the_best_available_depth_is_the_lowest_on_the_curve() -> None:
    """Steep on the shallow side, 6.5 of 5 and 9 is nearer to 5, and 9 is better."""
    world = replace(WORLD, curve=asymmetric(6.5, 4.0, 0.5, 0.5))
    assert world.curve(9) < world.curve(5)
    records = [*confirmed(world, (3, 5, 9, 16), 0.0005), *paused(explored(world))]
    assert best_of(records, (3, 5, 9, 16)) == 9
