"""Planted truths: what is planted must be found, with the doubt that the noise leaves."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from search.curve import Parabola, Points, fit, whole_depth
from search.evidence import NOISE_FLOOR, best_rate_weights, gather, seed_noise
from search.optimum import Optimum, decide, find_optima, find_optimum
from search.records import Outcome, Stage, TrialRecord
from search.verdict import Verdict
from tests.search.simulated import (
    Curve,
    World,
    asymmetric,
    confirm,
    cut,
    deeper_is_better,
    finished,
    flat,
    planted_depth,
    shallower_is_better,
    simulated_study,
    symmetric,
)

DEPTHS = (1, 2, 3, 4, 6, 8)


def confirmed(curve: Curve, depths: tuple[int, ...] = DEPTHS, noise: float = 0.003) -> Optimum:
    world = World(curve=curve, noise=noise)
    return find_optimum(confirm(world, depths, np.random.default_rng(1)), seed=0)


def losses_at(losses: dict[int, float], error: float = 0.003) -> Points:
    return Points(
        depths=np.array(list(losses)),
        losses=np.array(list(losses.values())),
        covariance=np.eye(len(losses)) * error**2,
    )


@pytest.mark.parametrize("curve", [symmetric(3.2), asymmetric(3.2), asymmetric(3.2, 0.6, 2.0)])
def test_a_planted_optimum_is_identified(curve: Curve) -> None:
    found = confirmed(curve)
    assert found.verdict is Verdict.IDENTIFIED
    assert found.optimal_depth == 3
    assert found.interval is not None
    assert found.interval[0] <= 3 <= found.interval[1]
    assert 3 in found.plateau
    assert found.vertex == pytest.approx(3.2, rel=0.15)
    assert found.loss == pytest.approx(1.6 + curve(3), abs=0.005)
    assert found.shape is not None
    assert found.shape.depth == 3


def test_every_budget_of_a_study_gets_its_planted_depth() -> None:
    optima = find_optima(simulated_study(), seed=0)
    assert [own.budget for own in optima] == [300_000, 1_000_000, 3_000_000]
    for own in optima:
        assert own.verdict is Verdict.IDENTIFIED
        assert own.optimal_depth == pytest.approx(planted_depth(own.budget), abs=1)
        assert set(own.trials) == {outcome.value for outcome in Outcome}
        assert own.trials["diverged"] == own.trials["out_of_memory"] == 1
        assert own.tokens == 20 * own.budget


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Whole depths cover a little more than 95 %, since they round outwards."""
    generator = np.random.default_rng(0)
    covered = []
    for trial in range(120):
        truth = float(np.exp(generator.uniform(log(2), log(5))))
        curve = (symmetric(truth), asymmetric(truth))[trial % 2]
        world = World(curve=curve, noise=0.006)
        found = find_optimum(confirm(world, DEPTHS, generator), seed=trial, draws=1000)
        assert found.interval is not None
        best = min(range(1, 9), key=curve)
        covered.append(found.interval[0] <= best <= found.interval[1])
    assert np.mean(covered) >= 0.93


def test_more_noise_widens_the_interval() -> None:
    quiet, loud = (confirmed(symmetric(3.5, 0.03), noise=noise) for noise in (0.001, 0.01))
    assert quiet.interval is not None
    assert loud.interval is not None
    assert loud.interval[1] - loud.interval[0] > quiet.interval[1] - quiet.interval[0]
    assert len(loud.plateau) > len(quiet.plateau)


def test_a_poor_depth_far_away_does_not_drag_the_optimum() -> None:
    measured = losses_at({1: 1.77, 2: 1.59, 3: 1.58, 4: 1.59, 6: 1.62, 8: 1.66})
    assert decide(measured, fit(measured)) == 3
    assert fit(measured).optimum == pytest.approx(2.9, abs=0.2)
    far = losses_at({1: 3.5, 2: 1.59, 3: 1.58, 4: 1.59, 6: 1.62, 8: 1.66, 64: 4.0})
    assert decide(far, fit(far)) == 3


def test_a_depth_clearly_better_than_its_neighbours_decides() -> None:
    measured = losses_at({1: 1.60, 2: 1.60, 3: 1.57, 4: 1.60, 6: 1.601, 8: 1.602, 12: 1.603})
    assert decide(measured, fit(measured)) == 3


def test_the_vertex_may_fall_between_tested_depths() -> None:
    found = confirmed(symmetric(5.0, 0.2), depths=(2, 3, 4, 6, 8), noise=0.001)
    assert found.optimal_depth == 5
    assert found.shape is not None
    assert found.shape.depth in (4, 6)


@pytest.mark.parametrize(
    ("vertex", "depth"), [(0.3, 1), (1.41, 1), (1.42, 2), (2.44, 2), (2.46, 3)]
)
def test_a_vertex_rounds_to_the_whole_depth_where_the_parabola_is_lower(
    vertex: float, depth: int
) -> None:
    curve = Parabola(c0=1 + log(vertex) ** 2, c1=-2 * log(vertex), c2=1)
    assert curve.vertex_depth == pytest.approx(vertex)
    assert whole_depth(vertex) == depth == min(range(1, 9), key=curve)


def test_a_flat_curve_is_a_plateau_and_the_reason_names_its_shallowest_depth() -> None:
    found = confirmed(flat)
    assert found.verdict is Verdict.PLATEAU
    assert set(DEPTHS) - set(found.plateau) == set()
    assert "the shallowest, 1," in found.reason


def test_noise_that_hides_every_difference_is_not_called_a_plateau() -> None:
    found = confirmed(symmetric(3.5, 0.02), noise=0.05)
    assert found.verdict is Verdict.INSUFFICIENT
    assert "raise `tokens`" in found.reason, "hundreds of seeds are no advice"


def test_an_optimum_at_the_deep_end_asks_for_deeper_models() -> None:
    found = confirmed(deeper_is_better())
    assert found.verdict is Verdict.EDGE
    assert found.optimal_depth == 8
    assert found.reason.endswith("set `space.depth: [4, 32]`")


def test_an_optimum_at_the_shallow_end_asks_for_shallower_models() -> None:
    found = confirmed(shallower_is_better(), depths=(4, 6, 8, 12, 16))
    assert found.verdict is Verdict.EDGE
    assert found.reason.endswith("set `space.depth: [1, 8]`")


def test_depth_one_has_nothing_shallower_to_try() -> None:
    found = confirmed(shallower_is_better())
    assert found.verdict is Verdict.EDGE
    assert found.optimal_depth == 1
    assert "no shallower model exists; raise `budgets` or `tokens`" in found.reason


@pytest.mark.parametrize(
    ("outcome", "remedy"),
    [(Outcome.STOPPED, "`confirm.depths`"), (Outcome.DIVERGED, "`train.learning_rate`")],
)
def test_deeper_trials_that_did_not_finish_are_not_mistaken_for_untried(
    outcome: Outcome, remedy: str
) -> None:
    generator = np.random.default_rng(0)
    world = World(curve=deeper_is_better())
    deeper = [cut(run, world.rung_tokens[0], outcome) for run in confirm(world, (16,), generator)]
    found = find_optimum(confirm(world, DEPTHS, generator) + deeper, seed=0)
    assert found.verdict is Verdict.EDGE
    assert f"5 {outcome}" in found.reason
    assert remedy in found.reason


def test_two_depths_are_insufficient_but_the_better_one_is_named() -> None:
    found = confirmed(symmetric(2.0), depths=(2, 6))
    assert found.verdict is Verdict.INSUFFICIENT
    assert found.optimal_depth == 2
    assert found.interval is None
    assert (found.power, found.parabola) == (None, None)
    assert "`confirm.depths`" in found.reason


def test_nothing_finished_is_insufficient_without_a_depth() -> None:
    world = World(curve=flat)
    runs = confirm(world, DEPTHS, np.random.default_rng(0))
    found = find_optimum([cut(run, world.rung_tokens[0]) for run in runs], seed=0)
    assert found.verdict is Verdict.INSUFFICIENT
    assert (found.optimal_depth, found.shape, found.loss) == (None, None, None)
    assert (found.plateau, found.depths) == ((), ())
    assert found.trials["stopped"] == len(runs)


def test_without_a_repeated_trial_flat_cannot_be_told_from_noise() -> None:
    world = World(curve=flat)
    runs = confirm(world, DEPTHS, np.random.default_rng(0), seeds=1, rates=(1.0,))
    found = find_optimum(runs, seed=0)
    assert found.verdict is Verdict.INSUFFICIENT
    assert found.noise == NOISE_FLOOR
    assert found.reason.endswith("set `confirm.seeds: 3`")


def test_the_same_seed_gives_the_same_answer_and_order_does_not_matter() -> None:
    records = simulated_study(budgets=(1_000_000,))
    assert find_optimum(records, seed=3) == find_optimum(records, seed=3)
    turned = find_optimum(records[::-1], seed=3)
    assert turned.interval == find_optimum(records, seed=3).interval


def test_records_of_two_budgets_or_none_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"got budgets \[300000, 1000000, 3000000\]"):
        find_optimum(simulated_study(), seed=0)
    with pytest.raises(ValueError, match="run the study first"):
        find_optimum([], seed=0)


# The evidence on one depth.


def trials(
    world: World, losses: dict[tuple[float, int, float], float], stage: Stage = Stage.CONFIRM
) -> list[TrialRecord]:
    """Losses by (ff_ratio, seed, rate), all at depth 3."""
    return [
        finished(world.spec(world.shape(3, ratio), seed=seed, stage=stage, rate_scale=rate), loss)
        for (ratio, seed, rate), loss in losses.items()
    ]


def test_a_larger_model_is_charged_for_its_parameters() -> None:
    world = World(curve=flat, params_slope=-0.3)
    exact = world.shape(3)
    large = replace(exact, d_ff=exact.d_ff + 400)
    step = log(large.params_total / exact.params_total)
    runs = [
        finished(world.spec(shape, seed=seed, stage=Stage.EXPLORE), loss)
        for seed in range(3)
        for shape, loss in ((exact, 1.6), (large, 1.6 - 0.3 * step))
    ]
    found = gather(runs)
    assert found.params_slope == pytest.approx(-0.3, abs=0.1)
    # The ratio grew along with the size, so the two share what the larger model gained.
    assert found.depths[0].loss == pytest.approx(1.6, abs=0.005)


def test_three_rates_give_the_lowest_point_of_their_parabola() -> None:
    rates = (0.5, 1.0, 2.0)
    losses = {rate: 1.5 + 0.03 * log(rate / 1.3) ** 2 for rate in rates}
    weights = best_rate_weights(losses)
    assert sum(weights.values()) == pytest.approx(1)
    assert sum(weights[rate] * losses[rate] for rate in rates) == pytest.approx(1.5)


def test_a_best_rate_beyond_the_bracket_stays_at_its_end() -> None:
    losses = {rate: 0.03 * log(rate / 20) ** 2 for rate in (0.5, 1.0, 2.0)}
    assert best_rate_weights(losses) == pytest.approx({0.5: 0, 1: 0, 2: 1}, abs=1e-9)
    bent = {0.5: 1.2, 1.0: 1.5, 2.0: 1.3}
    assert best_rate_weights(bent) == pytest.approx({0.5: 1, 1: 0, 2: 0}, abs=1e-9)
    assert best_rate_weights({1.0: 1.5, 2.0: 1.4}) == {1.0: 0.0, 2.0: 1.0}


def test_the_gain_of_the_best_rate_is_granted_to_the_other_seeds() -> None:
    world = World(curve=flat, params_slope=0)
    runs = trials(
        world, {(4, 0, 1.0): 1.60, (4, 0, 2.0): 1.58, (4, 1, 1.0): 1.61, (4, 2, 1.0): 1.62}
    )
    (own,) = gather(runs).depths
    assert own.loss == pytest.approx((1.58 + 1.59 + 1.60) / 3, abs=2e-4)
    assert own.trials == 4


def test_a_gain_measured_on_one_seed_leaves_more_doubt_than_seeds_of_their_own() -> None:
    world = World(curve=flat)
    plain = trials(world, {(4, seed, 1.0): 1.6 for seed in range(3)})
    bracket = plain + trials(world, {(4, 0, 2.0): 1.5})
    errors = [gather(runs).depths[0].standard_error for runs in (plain, bracket)]
    noise = [gather(runs).noise for runs in (plain, bracket)]
    assert noise[0] == noise[1]
    assert errors[0] == pytest.approx(noise[0] / np.sqrt(3), rel=1e-3)
    assert errors[1] > errors[0]


def test_confirming_trials_replace_the_exploring_ones_that_chose_them() -> None:
    world = World(curve=flat)
    lucky = trials(world, {(4, 0, 1.0): 1.50}, Stage.EXPLORE)
    fresh = trials(world, {(4, 1000, 1.0): 1.60, (4, 1001, 1.0): 1.61})
    (own,) = gather(lucky + fresh).depths
    assert own.loss == pytest.approx(1.605, abs=2e-4)
    assert own.trials == 2


def test_a_poor_ratio_does_not_make_a_depth_look_bad() -> None:
    world = World(curve=flat)
    runs = trials(world, {(4, 0, 1.0): 1.60, (8, 1, 1.0): 1.75, (1.5, 2, 1.0): 1.72}, Stage.EXPLORE)
    (own,) = gather(runs).depths
    assert own.loss == pytest.approx(1.60, abs=1e-2), "the mean of the three is 1.69"
    assert own.shape == world.shape(3, 4)


def test_the_luckiest_of_many_equal_shapes_is_not_believed() -> None:
    generator = np.random.default_rng(0)
    world = World(curve=flat, ratio_effect=0, params_slope=0, noise=0.004)
    believed, lowest = [], []
    for _ in range(60):
        losses = {(1.5 + i, i, 1.0): 1.6 + 0.004 * generator.normal() for i in range(8)}
        believed.append(gather(trials(world, losses, Stage.EXPLORE)).depths[0].loss)
        lowest.append(min(losses.values()))
    assert 1.6 - np.mean(lowest) > 0.005
    assert 1.6 - np.mean(believed) < 0.002


def test_noise_is_pooled_within_shapes_and_floored_only_while_unknown() -> None:
    world = World(curve=symmetric(3), noise=0.01)
    runs = confirm(world, DEPTHS, np.random.default_rng(0), seeds=20, rates=(1.0,))
    noise, degrees_of_freedom = seed_noise(runs)
    assert degrees_of_freedom == 19 * len(DEPTHS)
    assert noise == pytest.approx(0.01, rel=0.2)
    quiet = trials(world, {(4, seed, 1.0): 1.6 + 1e-4 * seed for seed in range(4)})
    assert seed_noise(quiet)[0] < NOISE_FLOOR
    assert seed_noise(quiet[:3]) == (NOISE_FLOOR, 2)
