"""The best depth at equal operations, seconds or tokens, from planted laws of loss over depth and
tokens whose answers are known."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fathom.search.analysis.equal_spend import (
    Answer,
    Coin,
    EqualSpend,
    NotRead,
    Schedule,
    WhyNot,
    equal_spends,
    seconds_of_a_token,
)
from fathom.search.analysis.optimum import find_optimum
from fathom.search.records import Outcome, Stage, TrialRecord
from tests.support.optima import located
from tests.support.surfaces import DEPTHS, Surface

SCHEDULE = Schedule(warmup=0.02, cooldown=0.2)


def answers(
    records: Sequence[TrialRecord], schedule: Schedule | WhyNot = SCHEDULE
) -> dict[Coin, Answer]:
    known = find_optimum(records, seed=0)
    return {each.coin: each for each in equal_spends(records, known, schedule, seed=0)}


def read(records: Sequence[TrialRecord], coin: Coin) -> EqualSpend:
    found = answers(records)[coin]
    assert isinstance(found, EqualSpend), found
    return found


def not_read(
    records: Sequence[TrialRecord], coin: Coin, schedule: Schedule | WhyNot = SCHEDULE
) -> NotRead:
    found = answers(records, schedule)[coin]
    assert isinstance(found, NotRead), found
    return found


def test_the_best_depth_at_equal_flops_and_at_equal_seconds_is_that_of_the_planted_law() -> None:
    surface = Surface()
    records = surface.records()

    flops, seconds = read(records, Coin.FLOPS), read(records, Coin.SECONDS)

    assert located(find_optimum(records, seed=0)).optimal_depth == 5
    for found, price in ((flops, surface.flops), (seconds, surface.seconds)):
        low, high = located(found.optimum).interval
        assert low <= surface.best_at_equal(price) <= high
        assert located(found.optimum).optimal_depth == pytest.approx(
            surface.best_at_equal(price), abs=1
        )
    assert DEPTHS[0] < surface.best_at_equal(surface.seconds) < 5, "inside the tested depths"
    assert located(seconds.optimum).optimal_depth < 5, "deeper models pay by half a power of depth"


def test_the_intervals_at_equal_seconds_hold_the_planted_depth_at_least_as_often_as_they_say() -> (
    None
):
    surface = Surface(noise=0.006, uneven=0.03)
    truth = surface.best_at_equal(surface.seconds)
    held = 0
    for seed in range(20):
        optimum = located(read(surface.records(seed=seed), Coin.SECONDS).optimum)
        held += optimum.interval[0] <= truth <= optimum.interval[1]

    assert held >= 18


def test_a_shape_is_read_at_the_tokens_that_the_smallest_total_pays_for() -> None:
    surface = Surface(noise=0.0)
    found = read(surface.records(), Coin.SECONDS)

    cheapest = surface.seconds(2)
    assert found.amount == pytest.approx(cheapest * surface.world.horizon)
    assert dict(found.shares) == pytest.approx(
        {depth: cheapest / surface.seconds(depth) for depth in DEPTHS}
    )
    losses = {estimate.depth: estimate.loss for estimate in found.optimum.depths}
    for depth, share in found.shares:
        planted = surface.final(depth, share * surface.world.horizon)
        assert losses[depth] == pytest.approx(planted, abs=1e-3)


def test_a_loss_in_the_cool_down_is_not_taken_for_that_of_a_shorter_training() -> None:
    """Read off the curve itself, 0.9 of a training would have half of its cool-down."""
    surface = Surface(noise=0.0, fall=0.0, seconds=lambda depth: 1e-6 * (1 + (depth > 2) / 9))
    found = read(surface.records(), Coin.SECONDS)

    assert dict(found.shares)[6] == pytest.approx(0.9)
    losses = {estimate.depth: estimate.loss for estimate in found.optimum.depths}
    assert losses[6] == pytest.approx(surface.final(6, 0.9 * surface.world.horizon), abs=1e-3)


def test_where_a_token_costs_all_depths_the_same_the_answer_is_that_at_equal_tokens() -> None:
    records = Surface(seconds=lambda _: 1e-6).records()
    at_tokens = located(find_optimum(records, seed=0))
    found = located(read(records, Coin.SECONDS).optimum)

    assert (found.optimal_depth, found.interval, found.kind) == (
        at_tokens.optimal_depth,
        at_tokens.interval,
        at_tokens.kind,
    )


def test_trials_that_were_paused_count_as_far_as_they_came() -> None:
    records = Surface().records()
    deepest = [record for record in records if record.spec.shape.depth == 12]
    paused = [
        replace(
            record, outcome=Outcome.STOPPED, curve=record.curve[:4],
            spec=replace(record.spec, stage=Stage.EXPLORE),
        )
        for record in deepest
    ]  # fmt: skip
    rest = [record for record in records if record.spec.shape.depth != 12]

    found = read([*rest, *paused], Coin.SECONDS)

    assert found.optimum.trials["stopped"] == 3
    assert 12 not in dict(found.shares)
    assert located(found.optimum).interval[1] < 12


def test_a_study_of_equal_flops_is_read_at_equal_tokens() -> None:
    surface = Surface()
    records = [
        replace(record, spec=replace(record.spec, flops_to_spend=1e15))
        for record in surface.records()
    ]

    assert set(answers(records)) == {Coin.TOKENS, Coin.SECONDS}
    assert read(records, Coin.TOKENS).amount == surface.world.horizon


def test_the_error_of_what_is_read_widens_what_is_known_of_a_depth() -> None:
    records = Surface().records()
    before = {estimate.depth: estimate for estimate in find_optimum(records, seed=0).depths}
    after = {estimate.depth: estimate for estimate in read(records, Coin.SECONDS).optimum.depths}

    assert after[2].standard_error == pytest.approx(before[2].standard_error, rel=0.5)
    assert after[12].standard_error > 2 * before[12].standard_error


def test_a_schedule_without_a_constant_rate_is_refused() -> None:
    records = Surface().records()

    for schedule in (Schedule(warmup=0.02, cooldown=0.6), Schedule(warmup=0.5, cooldown=0.5)):
        found = not_read(records, Coin.SECONDS, schedule)
        assert found.why is WhyNot.NO_CONSTANT_RATE
    for why in (WhyNot.OTHER_SCHEDULE, WhyNot.PRETRAINING):
        assert not_read(records, Coin.FLOPS, why).why is why


def test_a_depth_that_would_be_read_before_a_quarter_of_its_training_is_refused() -> None:
    records = Surface(seconds=lambda depth: 1e-6 * depth).records()

    found = not_read(records, Coin.SECONDS)

    assert (found.why, found.depth) == (WhyNot.TOO_EARLY, 12)
    assert found.value == pytest.approx(2 / 12)


def test_trials_with_few_evaluations_are_refused() -> None:
    records = [
        replace(record, curve=(record.curve[3], record.curve[7], record.curve[-1]))
        for record in Surface().records()
    ]

    assert not_read(records, Coin.SECONDS).why is WhyNot.FEW_EVALUATIONS


def test_times_of_several_devices_of_one_trial_are_not_compared() -> None:
    records = Surface(device="one GPU + another GPU").records()

    assert not_read(records, Coin.SECONDS).why is WhyNot.NOT_TIMED


def test_seconds_are_those_of_the_device_that_timed_most_depths() -> None:
    records = Surface().records()
    other = [replace(record, device="another GPU") for record in records]
    of_two = [a if a.spec.seed or a.spec.shape.depth > 3 else b
              for a, b in zip(records, other, strict=True)]  # fmt: skip

    assert read(of_two, Coin.SECONDS).device == "one GPU"
    elsewhere = [b if a.spec.shape.depth == 12 else a for a, b in zip(records, other, strict=True)]
    found = not_read(elsewhere, Coin.SECONDS)
    assert (found.why, found.depth) == (WhyNot.NOT_TIMED, 12)


def test_times_that_differ_much_among_trials_of_a_depth_are_refused() -> None:
    even, uneven = Surface(uneven=0.05).records(), Surface(uneven=0.5).records()

    assert read(even, Coin.SECONDS).spread == pytest.approx(0.05, rel=0.5)
    assert not_read(uneven, Coin.SECONDS).why is WhyNot.UNEVEN_TIMES


def test_a_spread_of_times_is_not_known_with_one_trial_of_each_depth() -> None:
    assert read(Surface().records(seeds=1), Coin.SECONDS).spread is None


def test_seconds_of_a_token_are_the_median_between_evaluations() -> None:
    record = Surface(seconds=lambda _: 2e-6).records((4,), seeds=1)[0]
    slow = replace(record.curve[0], train_seconds=0.0)
    curve = (slow, *(replace(p, train_seconds=p.train_seconds + 60) for p in record.curve[1:]))

    assert seconds_of_a_token(replace(record, curve=curve)) == pytest.approx(2e-6)
    assert seconds_of_a_token(replace(record, curve=curve[:1])) is None


def test_fewer_than_three_finished_depths_have_no_answer() -> None:
    records = Surface().records((2, 4))

    assert not equal_spends(records, find_optimum(records, seed=0), SCHEDULE, seed=0)
