"""Planted truths: what is planted must be found, with the doubt that the noise leaves."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from benchmarks.worlds.planted import (
    Curve,
    World,
    asymmetric,
    deeper_is_better,
    finished,
    flat,
    shallower_is_better,
    symmetric,
    two_humps,
)
from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.judging import Location, judge
from fathom.search.analysis.answer.optimum import Located, NotLocated, Optimum
from fathom.search.analysis.answer.verdict import (
    Advice,
    BestAtEnd,
    Cause,
    Depths,
    Kind,
    Larger,
    MayCostMore,
    MoreTokens,
    NoneFinishedBeyond,
    NothingShallower,
    Remedy,
    Seeds,
    TheseDepths,
    Verdict,
)
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.analysis.losses.noise import USUAL_NOISE
from fathom.search.records import Outcome, Stage
from fathom.search.report.words.text import interval
from fathom.search.words import cause_text, study_reason
from tests.support.optima import located
from tests.support.simulated import confirm, cut, simulated_study

DEPTHS = (1, 2, 3, 4, 6, 8)


def confirmed(
    curve: Curve, depths: tuple[int, ...] = DEPTHS, noise: float = 0.003, *, trained: bool = True
) -> Optimum:
    records = confirm(World(curve=curve, noise=noise), depths, np.random.default_rng(1))
    return find_optimum(records, seed=0, trained=trained)


@pytest.mark.parametrize("curve", [symmetric(3.2), asymmetric(3.2), asymmetric(3.2, 0.6, 2.0)])
def test_a_planted_optimum_is_identified(curve: Curve) -> None:
    found = located(confirmed(curve))
    assert found.kind is Kind.IDENTIFIED
    assert found.optimal_depth == 3
    assert found.interval[0] <= 3 <= found.interval[1]
    assert 3 in found.plateau
    assert found.curve_minimum == pytest.approx(3.2, rel=0.15)
    assert found.loss == pytest.approx(1.6 + curve(3), abs=0.005)
    assert found.shape is not None
    assert found.shape.depth == 3


@pytest.mark.drill
def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Whole depths cover a little more than 95 %, since they round outwards."""
    generator = np.random.default_rng(0)
    covered = []
    for trial in range(120):
        truth = float(np.exp(generator.uniform(log(2), log(5))))
        curve = (symmetric(truth), asymmetric(truth))[trial % 2]
        world = World(curve=curve, noise=0.006)
        found = find_optimum(confirm(world, DEPTHS, generator), seed=trial, draws=1000)
        if isinstance(found, Located):
            best = min(range(1, 9), key=curve)
            covered.append(found.interval[0] <= best <= found.interval[1])
    assert len(covered) >= 114, "the test of fit refuses few curves with one hump"
    assert np.mean(covered) >= 0.93


def test_more_noise_widens_the_interval() -> None:
    quiet, loud = (located(confirmed(symmetric(3.5, 0.03), noise=n)) for n in (0.001, 0.01))
    assert loud.interval[1] - loud.interval[0] > quiet.interval[1] - quiet.interval[0]
    assert len(loud.plateau) > len(quiet.plateau)


def test_a_minimum_between_tested_depths_is_not_the_answer_but_asked_for() -> None:
    found = located(confirmed(symmetric(5.0, 0.2), depths=(2, 3, 4, 6, 8), noise=0.001))
    assert found.interval == (5, 5)
    assert found.expected_depth == 5
    assert found.optimal_depth in (4, 6), "the best that was trained"
    assert found.kind is Kind.INSUFFICIENT, "which is clearly worse"
    assert isinstance(found.verdict.cause, MayCostMore)
    assert found.verdict.cause.depth == found.optimal_depth
    assert found.verdict.remedy == TheseDepths((5,), (2, 3, 4, 6, 8))


def test_where_nothing_can_be_trained_the_minimum_may_lie_between_tested_depths() -> None:
    depths = (2, 3, 4, 6, 8)
    found = located(confirmed(symmetric(5.0, 0.2), depths, noise=0.001, trained=False))
    assert found.kind is Kind.IDENTIFIED
    assert found.optimal_depth == found.expected_depth == 5
    assert found.shape is not None
    assert found.shape.depth in (4, 6)


def test_the_best_tested_depth_of_the_plateau_is_the_answer() -> None:
    found = located(confirmed(symmetric(5.0, 0.03), depths=(2, 3, 4, 6, 8, 12), noise=0.002))
    assert found.kind is Kind.IDENTIFIED
    assert found.expected_depth == 5
    assert {4, 5, 6} <= set(found.plateau)
    assert found.shape is not None
    assert found.optimal_depth == found.shape.depth in (4, 6)
    assert found.better is not None
    assert found.expected_loss == found.loss + found.better.nats < found.loss


def test_a_minimum_far_from_every_tested_depth_is_not_identified() -> None:
    found = located(confirmed(symmetric(10.0, 0.2), depths=(2, 3, 4, 24, 32), noise=0.001))
    assert found.kind is Kind.INSUFFICIENT
    assert 4 < found.interval[0] <= found.interval[1] < 24
    assert found.verdict.remedy == TheseDepths((found.expected_depth,), (2, 3, 4, 24, 32))
    assert found.optimal_depth in (4, 24)


def test_a_flat_curve_is_a_plateau_and_the_reason_says_which_depth_to_train() -> None:
    found = located(confirmed(flat))
    assert found.kind is Kind.PLATEAU
    assert len(set(DEPTHS) - set(found.plateau)) <= 1
    reason = cause_text(found.verdict.cause)
    assert f"train depth {found.optimal_depth}, which is expected to cost least" in reason
    assert "the shallowest, 1, is the cheapest to serve" in reason
    highest = max(cost.interval[1] for cost in found.costs if cost.depth in found.plateau)
    table = f"none of them costs more than {highest:.4f} nats instead of depth"
    assert f"{table} {found.optimal_depth} (95 % intervals)" in reason


def test_one_repeat_hides_no_depth_that_lies_far_beyond_the_usual_noise() -> None:
    world = World(curve=flat)
    losses = [(1, 2.0267), (1, 2.0311), (2, 2.0357), (3, 2.0529), (4, 2.1124)]
    records = [
        finished(world.spec(world.shape(depth), seed=seed, stage=Stage.CONFIRM), loss)
        for seed, (depth, loss) in enumerate(losses)
    ]
    assert find_optimum(records, seed=0).verdict.cause == NothingShallower(1)


def test_noise_that_hides_every_difference_is_not_called_a_plateau() -> None:
    found = confirmed(symmetric(3.5, 0.02), noise=0.05)
    assert found.kind is Kind.INSUFFICIENT
    assert isinstance(found.verdict.remedy, MoreTokens), "hundreds of seeds are no advice"


@pytest.mark.parametrize(
    ("curve", "depths", "best", "cause", "remedy"),
    [
        (deeper_is_better(), DEPTHS, 8, BestAtEnd(8, deeper=True), Depths(4, 32)),
        (shallower_is_better(), (4, 6, 8, 12, 16), 4, BestAtEnd(4, deeper=False), Depths(1, 8)),
        (shallower_is_better(), DEPTHS, 1, NothingShallower(1), Larger(Coin.TOKENS)),
    ],
)
def test_an_optimum_at_an_end_asks_for_models_beyond_it(
    curve: Curve, depths: tuple[int, ...], best: int, cause: Cause, remedy: Remedy
) -> None:
    found = confirmed(curve, depths=depths)
    assert found.verdict == Verdict(Kind.EDGE, cause, remedy)
    assert found.optimal_depth == best


def test_where_nothing_is_shallower_more_is_to_be_spent_of_what_the_trials_spend() -> None:
    world = World(curve=shallower_is_better(), noise=0.003)
    records = [
        replace(record, spec=replace(record.spec, shared_spend=Spend(1e13, Coin.FLOPS)))
        for record in confirm(world, DEPTHS, np.random.default_rng(1))
    ]
    verdict = find_optimum(records, seed=0).verdict
    assert verdict.remedy == Larger(Coin.FLOPS)
    assert Larger(Coin.FLOPS).name == "larger_or_more_flops"
    assert study_reason(verdict).endswith("; raise `budgets` or `train_flops`")


def test_an_encoder_and_a_decoder_of_a_layer_each_have_nothing_shallower_to_try() -> None:
    world = World(curve=shallower_is_better(), noise=0.003)
    records = [
        replace(
            record, spec=replace(record.spec, shape=replace(shape, encoder_depth=shape.depth // 2))
        )
        for record in confirm(world, (2, 4, 6, 8, 12), np.random.default_rng(1))
        for shape in (record.spec.shape,)
    ]
    found = find_optimum(records, seed=0)
    assert found.optimal_depth == 2
    assert found.verdict == Verdict(Kind.EDGE, NothingShallower(2), Larger(Coin.TOKENS))
    assert "shallower" not in interval(found)


@pytest.mark.parametrize(
    ("outcome", "remedy"),
    [(Outcome.STOPPED, Advice.TRAIN_TO_THE_END), (Outcome.DIVERGED, Advice.LOWER_LEARNING_RATE)],
)
def test_deeper_trials_that_did_not_finish_count_as_tried(outcome: Outcome, remedy: Advice) -> None:
    generator = np.random.default_rng(0)
    world = World(curve=deeper_is_better())
    deeper = [cut(run, world.rung_tokens[0], outcome) for run in confirm(world, (16,), generator)]
    found = find_optimum(confirm(world, DEPTHS, generator) + deeper, seed=0)
    assert found.verdict == Verdict(Kind.EDGE, NoneFinishedBeyond(8, ((outcome, 5),)), remedy)


def test_two_depths_are_insufficient_but_the_better_one_is_named() -> None:
    found = confirmed(symmetric(2.0), depths=(2, 6))
    assert found.kind is Kind.INSUFFICIENT
    assert found.optimal_depth == 2
    assert isinstance(found, NotLocated)
    assert found.curves is None
    assert found.verdict.remedy is Advice.MORE_DEPTHS


def test_nothing_finished_is_insufficient_without_a_depth() -> None:
    world = World(curve=flat)
    runs = confirm(world, DEPTHS, np.random.default_rng(0))
    found = find_optimum([cut(run, world.rung_tokens[0]) for run in runs], seed=0)
    assert found.kind is Kind.INSUFFICIENT
    assert (found.optimal_depth, found.shape, found.loss) == (None, None, None)
    assert (found.plateau, found.depths) == ((), ())
    assert found.trials["stopped"] == len(runs)


def test_without_a_repeated_trial_flat_cannot_be_told_from_noise() -> None:
    world = World(curve=flat)
    runs = confirm(world, DEPTHS, np.random.default_rng(0), seeds=1, rates=(1.0,))
    found = find_optimum(runs, seed=0)
    assert found.kind is Kind.INSUFFICIENT
    assert found.noise == pytest.approx(USUAL_NOISE[0])
    assert found.verdict.remedy == Seeds(3)


def test_the_same_seed_gives_the_same_answer_and_order_does_not_matter() -> None:
    records = simulated_study(budgets=(1_000_000,))
    found, turned = find_optimum(records, seed=3), find_optimum(records[::-1], seed=3)
    assert find_optimum(records, seed=3) == found
    assert located(turned).interval == located(found).interval


@pytest.mark.parametrize(
    "curve", [two_humps(3.0, 14.0, gap=0.002), two_humps(14.0, 3.0, gap=0.002)]
)
def test_two_depths_that_may_each_be_the_best_are_named_with_their_probabilities(
    curve: Curve,
) -> None:
    found = located(confirmed(curve, depths=(1, 2, 4, 6, 9, 14, 20), noise=0.004))
    assert found.kind is Kind.INSUFFICIENT
    cause = found.verdict.cause
    assert isinstance(cause, MayCostMore)
    assert cause.depth == found.optimal_depth
    assert cause.chance == found.chance_of_cost > 0.05
    assert cause.rivals
    assert cause.depth not in cause.rivals
    shares = [share for _, share in found.probabilities]
    assert shares == sorted(shares, reverse=True)
    assert 0.9 < sum(shares) <= 1


def valley(depth: float) -> float:
    """Within 0.002 nats of the best from 2.5 to 20 layers, and a wall on either side."""
    off = abs(log(depth / 7)) / (log(8) / 2)
    return 0.002 * min(1.0, off**2) + 0.2 * max(0.0, off - 1)


def test_a_flat_valley_between_walls_is_a_plateau_whose_depth_costs_little() -> None:
    found = located(confirmed(valley, depths=(1, 2, 3, 5, 7, 10, 20, 32)))
    assert found.kind is Kind.PLATEAU
    assert found.chance_of_cost < 0.3
    assert 3 <= found.optimal_depth <= 20


def test_a_plateau_is_not_told_from_depths_that_are_close_together() -> None:
    found = located(confirmed(deeper_is_better(0.02), depths=(12, 14, 16), noise=0.003))
    assert found.kind is Kind.EDGE
    assert found.verdict.cause == BestAtEnd(16, deeper=True)


def test_records_of_two_budgets_or_none_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"got budgets \[300000, 1000000, 3000000\]"):
        find_optimum(simulated_study(), seed=0)
    with pytest.raises(ValueError, match="run the study first"):
        find_optimum([], seed=0)


@pytest.mark.parametrize(
    ("interval", "difference", "kind"),
    [
        ((1, 2), 0.1, Kind.IDENTIFIED),  # no model is shallower than 1
        ((2, 4), 0.1, Kind.IDENTIFIED),
        ((2, 6), 0.1, Kind.INSUFFICIENT),
        ((2, 6), 0.02, Kind.PLATEAU),
        ((1, 3), 0.02, Kind.PLATEAU),
        ((6, 8), 0.02, Kind.EDGE),
        ((2, 8), 0.1, Kind.EDGE),
        ((2, 8), 0.02, Kind.PLATEAU),
        ((1, 8), 0.02, Kind.PLATEAU),
        ((1, 8), 0.1, Kind.INSUFFICIENT),
    ],
)
def test_the_width_of_the_interval_decides_the_kind(
    interval: tuple[int, int], difference: float, kind: Kind
) -> None:
    records = confirm(World(curve=symmetric(3.2), noise=0.003), DEPTHS, np.random.default_rng(1))
    location = Location(
        depth=min(interval[0] + 1, 7), answer=3, shallowest=3, interval=interval, plateau=(3,),
        shallow_share=0.0, deep_share=0.1, difference=difference, interval_difference=difference,
        chance_of_cost=0.01, answer_cost=0.0, chance_for_answer=0.01, rivals=(4,), tested=DEPTHS,
    )  # fmt: skip
    assert judge(records, estimate_depths(records), location).kind is kind


@pytest.mark.parametrize(
    ("chance", "difference", "kind"),
    [
        (0.04, 0.1, Kind.IDENTIFIED),
        (0.06, 0.02, Kind.PLATEAU),
        (0.06, 0.1, Kind.INSUFFICIENT),
    ],
)
def test_a_depth_that_may_cost_more_is_not_identified(
    chance: float, difference: float, kind: Kind
) -> None:
    records = confirm(World(curve=symmetric(3.2), noise=0.003), DEPTHS, np.random.default_rng(1))
    location = Location(
        depth=3, answer=3, shallowest=2, interval=(2, 4), plateau=(2, 3), shallow_share=0.0,
        deep_share=0.0, difference=difference, interval_difference=difference,
        chance_of_cost=chance, answer_cost=0.0, chance_for_answer=chance, rivals=(2,),
        tested=DEPTHS,
    )  # fmt: skip
    assert judge(records, estimate_depths(records), location).kind is kind


def test_a_range_cut_by_the_tested_depths_asks_for_depths_beyond() -> None:
    found = located(confirmed(symmetric(6.0, 0.02), noise=0.004))
    assert found.kind is Kind.EDGE
    assert found.interval[1] == 8
    assert found.verdict.cause == BestAtEnd(8, deeper=True)
