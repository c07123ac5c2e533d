"""The trials that settle a budget: `search/scheduling/confirmation.py`."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.worlds.planted import World, finished, flat, symmetric
from fathom.models.shape import Count, Shape
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.scheduling.confirmation import (
    CURVE_DEPTHS,
    OTHER_RATIO,
)
from fathom.search.scheduling.offers import offers
from fathom.search.scheduling.trained_depths import FRESH_SEEDS_FROM, Choice, TrainingLimits
from fathom.search.study.keys.groups import ConfirmConfig
from fathom.search.study.planning.space.near_shapes import nearest_shape
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.simulated import cut

Shapes = tuple[Shape, ...]
Explored = tuple[Shapes, list[TrialRecord]]


def next_confirmations(
    config: ConfirmConfig,
    shapes: Shapes,
    records: Sequence[TrialRecord],
    *,
    plain_rates: bool = False,
    ladder: bool = False,
) -> tuple[Choice, ...]:
    limits = TrainingLimits(confirm=config, shapes=shapes, plain_rates=plain_rates, ladder=ladder)
    return tuple(offer.training for offer in offers(records, limits))


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Explored:
    """Shapes and exploring trials of a budget that is best at depth 4, when exploring has ended."""
    simulated = scheduler(study(trials=9), tmp_path_factory.mktemp("run"))
    chosen, workers = simulated.budgets[20_000], Simulation(simulated)
    while not chosen.explored:
        workers.run(events=1)
    records = [*chosen.ended, *simulated.live.values()]
    paused = [replace(r, outcome=r.outcome or Outcome.STOPPED) for r in records]
    explored_records = [
        r for r in paused if r.spec.budget == 20_000 and r.spec.stage is Stage.EXPLORE
    ]
    return chosen.shapes, explored_records


@pytest.fixture
def shapes(search: Explored) -> Shapes:
    return search[0]


@pytest.fixture
def explored(search: Explored) -> Explored:
    """The exploring records of the module's search, as a list that a test may change."""
    shapes, records = search
    return shapes, list(records)


def test_the_best_paused_depth_and_its_neighbours_are_resumed_first(explored: Explored) -> None:
    shapes, records = explored
    paused = {
        Choice(r.spec.shape, r.spec.seed, 1.0) for r in records if r.outcome is Outcome.STOPPED
    }
    batch = next_confirmations(ConfirmConfig(), shapes, records)
    assert set(batch) <= paused, "none begins anew"
    ended = {r.spec.shape.depth for r in records if r.loss is not None}
    depths = sorted(ended | {choice.shape.depth for choice in batch})
    assert 4 in depths
    assert len(depths) <= CURVE_DEPTHS + len(ended)


def test_one_lucky_trial_does_not_misdirect_the_confirmation(explored: Explored) -> None:
    shapes, records = explored
    shallow = min(records, key=lambda record: record.spec.shape.depth)
    best = min(record.rungs[min(record.rungs)] for record in records)
    lucky = dict.fromkeys(shallow.rungs, best - 0.002)
    records[records.index(shallow)] = replace(shallow, rungs=lucky)
    depths = [choice.shape.depth for choice in next_confirmations(ConfirmConfig(), shapes, records)]
    assert max(depths) >= 4


@pytest.mark.parametrize(("depths", "resumed"), [(3, 1), (2, 0)])
def test_a_paused_depth_of_another_ratio_is_resumed_while_a_curve_lacks_depths(
    explored: Explored, depths: int, resumed: int
) -> None:
    shapes, _ = explored
    records = confirmed(shapes, {2: 1.62, 4: 1.60}, seeds=2, noise=0.001)
    world = World(curve=flat, budget=20_000, count=Count.NON_EMBEDDING, horizon=64_000)
    others = [shape for shape in shapes if shape.depth not in (2, 4)]
    odd = max(others, key=lambda shape: shape.off_ratio(4))
    assert odd.off_ratio(4) > 2 * OTHER_RATIO, "not comparable with the finished ones"
    paused = cut(finished(world.spec(odd, seed=0), 1.63), world.rung_tokens[0])
    config = ConfirmConfig(depths=depths, seeds=2, rates=(1.0,))
    batch = next_confirmations(config, shapes, [*records, paused])
    assert batch.count(Choice(odd, 0, 1.0)) == resumed


def confirmed(
    shapes: tuple[Shape, ...],
    losses: dict[int, float],
    *,
    seeds: int,
    noise: float,
    outcome: Outcome = Outcome.FINISHED,
) -> list[TrialRecord]:
    """Confirming trials at these depths, `noise` apart from seed to seed."""
    world = World(curve=flat, budget=20_000, count=Count.NON_EMBEDDING, horizon=64_000)
    records = []
    for depth, loss in losses.items():
        shape = nearest_shape(shapes, depth=depth, ff_ratio=4)
        for seed in range(seeds):
            spec = world.spec(shape, seed=FRESH_SEEDS_FROM + seed, stage=Stage.CONFIRM)
            # Symmetric about the mean, so that the depths' means are exactly the given losses.
            run = finished(spec, loss + noise * (seed - (seeds - 1) / 2))
            records.append(run if outcome is Outcome.FINISHED else replace(run, outcome=outcome))
    return records


ONE_RATE = ConfirmConfig(depths=8, seeds=4, rates=(1.0,))
BOWL = {2: 1.64, 4: 1.60, 8: 1.64}


FALLING = {1: 1.70, 2: 1.66, 4: 1.62}
FULL = ConfirmConfig(depths=3, seeds=2, rates=(1.0,))
WIDE = {1: 1.72, 2: 1.63, 4: 1.60, 8: 1.63, 12: 1.66}
SHARP = {depth: 1.6 + symmetric(4, 0.3)(depth) for depth in (1, 2, 3, 4, 5, 8, 12)}
GAP = {1: 1.9, 2: 1.7, 3: 1.60, 8: 1.61, 12: 1.7}
GAP_AFTER_WORSE = {1: 1.66, 2: 1.62, 3: 1.60, 4: 1.62, 5: 1.66, 12: 1.9}


@pytest.mark.parametrize(
    ("config", "losses", "noise", "wanted"),
    [
        pytest.param(ONE_RATE, FALLING, 0.001, range(5, 99), id="outwards"),
        pytest.param(FULL, FALLING, 0.001, (), id="no more than allowed"),
        pytest.param(ONE_RATE, {2: 1.601, 4: 1.60, 8: 1.66}, 0.004, (1,), id="end may be best"),
        pytest.param(ONE_RATE, SHARP, 1e-4, (), id="narrow interval"),
        pytest.param(ONE_RATE, WIDE, 0.004, range(2, 12), id="wide interval"),
        pytest.param(ONE_RATE, GAP, 1e-4, range(4, 8), id="wide gap beside the best"),
        pytest.param(ONE_RATE, GAP_AFTER_WORSE, 1e-4, (), id="wide gap after worse depths"),
    ],
)
def test_a_depth_is_added_where_it_settles_most(
    shapes: Shapes,
    config: ConfirmConfig,
    losses: dict[int, float],
    noise: float,
    wanted: Sequence[int],
) -> None:
    """At most one new depth, which is among those wanted."""
    batch = next_confirmations(config, shapes, confirmed(shapes, losses, seeds=2, noise=noise))
    assert len(batch) == bool(wanted)
    assert all(choice.shape.depth in wanted for choice in batch)
    if losses is FALLING:
        assert all(choice.seed == FRESH_SEEDS_FROM for choice in batch)


def test_depths_between_are_added_once_they_enclose_the_optimum(shapes: Shapes) -> None:
    risen = confirmed(shapes, {**FALLING, 8: 1.80}, seeds=2, noise=0.001)
    depths = {choice.shape.depth for choice in next_confirmations(ONE_RATE, shapes, risen)}
    assert depths <= {3, 4, 5, 6, 7}


@pytest.mark.parametrize(("depths", "wanted"), [(8, [5]), (7, [])])
def test_an_untrained_depth_of_the_interval_is_trained_before_the_answer_stands(
    shapes: Shapes, depths: int, wanted: list[int]
) -> None:
    """The best depth is 4 [4-5]; no curve through the others shows what is special about 5."""
    config = ConfirmConfig(depths=depths, seeds=2, rates=(1.0,))
    losses = {depth: 1.6 + symmetric(4.4, 0.05)(depth) for depth in (1, 2, 3, 4, 6, 8, 12)}
    batch = next_confirmations(config, shapes, confirmed(shapes, losses, seeds=2, noise=0.001))
    assert [choice.shape.depth for choice in batch] == wanted


FOUR_DEPTHS = {1: 1.80, 2: 1.66, 4: 1.60, 8: 1.66}


def at_rates(records: list[TrialRecord], gains: dict[int, float]) -> list[TrialRecord]:
    """Trials of the first seed at twice and half of the rate; twice gains so much at a depth."""
    return [
        replace(
            record,
            spec=replace(record.spec, rate_scale=rate, trial=f"{record.spec.trial}-{rate}"),
            curve=(replace(record.curve[-1], loss=record.curve[-1].loss - gain),),
        )
        for record in records
        if record.spec.seed == FRESH_SEEDS_FROM and record.spec.shape.depth in gains
        for rate, gain in (
            (0.5, -gains[record.spec.shape.depth]),
            (2.0, gains[record.spec.shape.depth]),
        )
    ]


def test_rates_are_bracketed_at_the_outermost_depths_first(shapes: Shapes) -> None:
    records = confirmed(shapes, FOUR_DEPTHS, seeds=2, noise=0.001)
    batch = next_confirmations(ConfirmConfig(), shapes, records)
    assert {(what.shape.depth, what.rate_scale) for what in batch} == {
        *((2, 0.5), (2, 2.0), (8, 0.5), (8, 2.0)),
    }
    assert {what.seed for what in batch} == {FRESH_SEEDS_FROM}, "beside the same seed at rate 1"


def test_decays_are_bracketed_at_the_outermost_depths_as_rates_are(shapes: Shapes) -> None:
    records = confirmed(shapes, FOUR_DEPTHS, seeds=2, noise=0.001)
    config = ConfirmConfig(rates=(1.0,), decays=(0.25, 1.0, 4.0))
    batch = next_confirmations(config, shapes, records, plain_rates=True)
    assert {(what.shape.depth, what.rate_scale, what.decay_scale) for what in batch} == {
        (depth, 1.0, decay) for depth in (2, 8) for decay in (0.25, 4.0)
    }
    both = next_confirmations(ConfirmConfig(decays=config.decays), shapes, records)
    assert len(both) == 2 * 2 + 2 * 2, "each factor with the study's own other one"


def test_plain_rates_are_bracketed_at_all_depths_in_question(shapes: Shapes) -> None:
    records = confirmed(shapes, FOUR_DEPTHS, seeds=2, noise=0.001)
    batch = next_confirmations(ConfirmConfig(), shapes, records, plain_rates=True)
    assert {(what.shape.depth, what.rate_scale) for what in batch} == {
        (depth, rate) for depth in (2, 4, 8) for rate in (0.5, 2.0)
    }


def test_rates_between_are_bracketed_only_if_the_outermost_differ(shapes: Shapes) -> None:
    records = confirmed(shapes, FOUR_DEPTHS, seeds=2, noise=0.001)

    def rates_after(gains: dict[int, float]) -> set[int]:
        batch = next_confirmations(ConfirmConfig(), shapes, records + at_rates(records, gains))
        return {what.shape.depth for what in batch if what.rate_scale != 1}

    assert rates_after({2: 0.02, 8: 0.02}) == set()
    assert rates_after({2: 0.02, 8: -0.02}) == {4}


def test_a_depth_that_is_certainly_worse_encloses_the_optimum(shapes: Shapes) -> None:
    rising = confirmed(shapes, {2: 1.60, 4: 1.62, 8: 1.70}, seeds=2, noise=0.001)
    (record,) = confirmed(shapes, {1: 1.8}, seeds=1, noise=0)
    single = replace(record, spec=replace(record.spec, stage=Stage.EXPLORE, seed=0))
    assert {what.shape.depth for what in next_confirmations(ONE_RATE, shapes, rising)} == {1}
    enclosed = next_confirmations(ONE_RATE, shapes, [*rising, single])
    assert 1 not in {what.shape.depth for what in enclosed}


def test_no_depth_is_tried_beyond_one_that_diverged_or_beyond_the_space(shapes: Shapes) -> None:
    end = max(shape.depth for shape in shapes)
    falling = confirmed(shapes, FALLING, seeds=2, noise=0.001)
    lost = confirmed(shapes, {8: 1.6}, seeds=2, noise=0, outcome=Outcome.DIVERGED)
    assert all(
        what.shape.depth < 8 for what in next_confirmations(ONE_RATE, shapes, falling + lost)
    )
    to_the_end = confirmed(shapes, {3: 1.90, 6: 1.80, end: 1.62}, seeds=2, noise=0.001)
    assert all(what.shape.depth <= end for what in next_confirmations(ONE_RATE, shapes, to_the_end))


def test_the_best_depth_is_repeated_once_so_that_the_noise_is_measured(shapes: Shapes) -> None:
    single = confirmed(shapes, {1: 1.9, **BOWL, 12: 1.9}, seeds=1, noise=0)
    (choice,) = next_confirmations(ONE_RATE, shapes, single)
    assert (choice.shape.depth, choice.seed) == (4, FRESH_SEEDS_FROM + 1)


STALLED = {1: 1.75, 2: 1.64, 3: 1.70, 4: 1.605, 6: 1.63, 8: 1.66}
"""Depth 3 lies far above what its neighbours say of it."""


def test_a_depth_that_one_unusual_training_rules_out_is_trained_again(shapes: Shapes) -> None:
    smooth = {depth: loss for depth, loss in STALLED.items() if depth != 3}
    others = confirmed(shapes, smooth, seeds=2, noise=0.004)
    (stalled,) = confirmed(shapes, {3: STALLED[3]}, seeds=1, noise=0)
    (choice,) = next_confirmations(ONE_RATE, shapes, [*others, stalled])
    assert (choice.shape.depth, choice.seed) == (3, FRESH_SEEDS_FROM + 1)
    usual = replace(stalled, curve=(replace(stalled.curve[-1], loss=1.61),))
    batch = next_confirmations(ONE_RATE, shapes, [*others, usual])
    assert 3 not in {choice.shape.depth for choice in batch}


def test_a_training_that_stalled_is_replaced_beyond_the_seeds_of_the_study(shapes: Shapes) -> None:
    config = ConfirmConfig(depths=8, seeds=2, rates=(1.0,))
    records = confirmed(shapes, {2: 1.64, 4: 1.60, 5: 1.601, 8: 1.66}, seeds=2, noise=0.003)
    (stalled,) = confirmed(shapes, {5: 1.75}, seeds=1, noise=0)
    spec = replace(stalled.spec, seed=FRESH_SEEDS_FROM + 2, trial="stalled")
    first = next(r for r in records if r.spec.shape.depth == 5)
    left = [record for record in records if record is not first]
    assert next_confirmations(config, shapes, records) != (), "4 and 5 are as good"
    wanted = next_confirmations(config, shapes, [*left, replace(stalled, spec=spec)])
    assert all(choice.seed > FRESH_SEEDS_FROM + 2 for choice in wanted if choice.shape.depth == 5)


def test_where_no_shape_has_the_usual_ratio_no_depth_beyond_the_trained_ones_is_named(
    shapes: Shapes,
) -> None:
    """Of depths 7 and 8 only narrow shapes exist: the one most like the others has 9 layers."""
    usual = [nearest_shape(shapes, depth=depth, ff_ratio=4) for depth in (2, 3, 4, 7, 8, 9)]
    limited = [replace(s, d_ff=s.d_ff // 9) if s.depth in (7, 8) else s for s in usual]
    records = confirmed(tuple(limited), {2: 1.601, 3: 1.6, 4: 1.6, 8: 1.602}, seeds=2, noise=0.004)
    batch = next_confirmations(ONE_RATE, tuple(limited), records)
    assert {choice.shape.depth for choice in batch} <= {2, 3, 4, 8}


def test_two_humps_ask_for_the_depths_that_tell_them_apart(shapes: Shapes) -> None:
    humps = {1: 1.9, 2: 1.6, 3: 1.8, 4: 1.9, 6: 1.8, 8: 1.6, 12: 1.9}
    batch = next_confirmations(
        ConfirmConfig(depths=12, rates=(1.0,)),
        shapes,
        confirmed(shapes, humps, seeds=2, noise=1e-3),
    )
    assert batch
    assert not {what.shape.depth for what in batch} & set(humps)


@pytest.mark.parametrize("decays", [(1.0,), (0.25, 1.0, 4.0)])
def test_no_trial_is_asked_for_twice_and_the_stage_comes_to_an_end(
    explored: Explored, decays: tuple[float, ...]
) -> None:
    shapes, records = explored
    known = list(records)
    while batch := next_confirmations(ConfirmConfig(decays=decays), shapes, known):
        ran = {identity(record) for record in known if record.outcome is not Outcome.STOPPED}
        assert not set(batch) & ran
        known = [record for record in known if identity(record) not in batch]
        known += [ended(choice) for choice in batch]
    assert len(known) < 40
    assert {record.spec.decay_scale for record in known} == set(decays)


def identity(record: TrialRecord) -> Choice:
    return Choice(record.spec.shape, record.spec.seed, *record.spec.scale)


def ended(choice: Choice) -> TrialRecord:
    """The record of a planned trial that finished; lowest at depth 4."""
    world = World(curve=flat, budget=20_000, count=Count.NON_EMBEDDING, horizon=64_000)
    spec = world.spec(
        choice.shape, seed=choice.seed, stage=Stage.CONFIRM, rate_scale=choice.rate_scale
    )
    spec = replace(spec, decay_scale=choice.decay_scale)
    return finished(spec, 1.6 + 0.02 * abs(choice.shape.depth - 4) + 1e-3 * (choice.seed % 3))


def test_nothing_is_confirmed_when_every_trial_was_lost(explored: Explored) -> None:
    shapes, records = explored
    lost = [replace(record, outcome=Outcome.DIVERGED) for record in records]
    assert next_confirmations(ConfirmConfig(), shapes, lost) == ()


def test_a_ladder_confirms_all_its_depths_at_once(explored: Explored) -> None:
    _, records = explored
    depths = {record.spec.shape.depth for record in records if record.loss is not None}
    config = ConfirmConfig(depths=99, seeds=2, rates=(1.0,))
    batch = next_confirmations(config, (), records, ladder=True)
    assert depths <= {what.shape.depth for what in batch}
    assert len(batch) == len(set(batch)) == 2 * len({what.shape for what in batch})
    config = ConfirmConfig(depths=99, seeds=2, rates=(1.0,), decays=(1.0, 4.0))
    more = next_confirmations(config, (), records, ladder=True)
    assert {c.shape for c in more if c.decay_scale == 4} == {c.shape for c in batch}


NO_FOUR = {depth: loss for depth, loss in SHARP.items() if depth != 4}


@pytest.mark.parametrize(("depths", "wanted"), [(8, [4]), (7, [4]), (6, [])])
def test_the_answer_is_trained_before_the_stage_ends_while_depths_are_left(
    shapes: Shapes, depths: int, wanted: list[int]
) -> None:
    config = ConfirmConfig(depths=depths, seeds=2, rates=(1.0,))
    records = confirmed(shapes, NO_FOUR, seeds=2, noise=1e-4)
    batch = next_confirmations(config, shapes, records)
    assert [choice.shape.depth for choice in batch] == wanted
    whole = [*records, *confirmed(shapes, {4: SHARP[4]}, seeds=2, noise=1e-4)]
    assert not next_confirmations(config, shapes, whole), "and then it ends"


def test_an_answer_that_was_tried_in_vain_is_not_tried_again(shapes: Shapes) -> None:
    config = ConfirmConfig(depths=8, seeds=2, rates=(1.0,))
    records = confirmed(shapes, NO_FOUR, seeds=2, noise=1e-4)
    [wanted] = next_confirmations(config, shapes, records)
    lost = confirmed(shapes, {4: SHARP[4]}, seeds=1, noise=0.0, outcome=Outcome.DIVERGED)
    assert lost[0].spec.shape == wanted.shape
    again = [replace(record, spec=replace(record.spec, seed=wanted.seed)) for record in lost]
    assert wanted not in next_confirmations(config, shapes, [*records, *again])
