"""The trials that settle a budget: `search/scheduling/confirmation.py`."""

import itertools
from dataclasses import replace

import pytest

from benchmarks.worlds.planted import World, finished, flat
from fathom.models.shape import Count, Shape
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.scheduling.confirmation import (
    FIRST_DEPTHS,
    FIRST_SEEDS,
    FRESH_SEEDS_FROM,
    enough_seeds,
    ladder_confirmations,
    leading_shapes,
    next_confirmations,
)
from fathom.search.study.groups import ConfirmConfig
from fathom.search.study.shapes import nearest_shape
from tests.support.dry_run import Simulation, scheduler, study

Explored = tuple[tuple[Shape, ...], list[TrialRecord]]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Explored:
    """Shapes and exploring trials of a budget that is best at depth 4."""
    simulated = scheduler(study(trials=16), tmp_path_factory.mktemp("run"))
    Simulation(simulated).run()
    chosen = simulated.budgets[20_000]
    return chosen.shapes, [r for r in chosen.ended if r.spec.stage is Stage.EXPLORE]


@pytest.fixture
def explored(search: Explored) -> Explored:
    """The exploring records of the module's search, as a list that a test may change."""
    shapes, records = search
    return shapes, list(records)


def test_the_planted_depth_is_confirmed_with_a_neighbour_on_either_side(explored: Explored) -> None:
    shapes, records = explored
    depths = [shape.depth for shape in leading_shapes(3, shapes, records)]
    assert len(depths) == 3
    assert depths[0] < 4 < depths[2]


def test_one_lucky_trial_does_not_misdirect_the_confirmation(explored: Explored) -> None:
    shapes, records = explored
    shallow = min(records, key=lambda record: record.spec.shape.depth)
    best = min(record.rungs[min(record.rungs)] for record in records)
    lucky = dict.fromkeys(shallow.rungs, best - 0.002)
    records[records.index(shallow)] = replace(shallow, rungs=lucky)
    assert shallow.spec.shape.depth <= 2
    depths = [shape.depth for shape in leading_shapes(3, shapes, records)]
    assert depths[0] < 4 <= depths[2]


def test_confirmed_depths_are_far_enough_apart_to_be_told_apart(explored: Explored) -> None:
    shapes, records = explored
    depths = [shape.depth for shape in leading_shapes(6, shapes, records)]
    assert all(b / a >= 1.2 for a, b in itertools.pairwise(depths))
    three = [shape.depth for shape in leading_shapes(3, shapes, records)]
    assert all(1.5 <= b / a <= 2.5 for a, b in itertools.pairwise(three))


def test_the_first_batch_has_fresh_seeds_that_all_depths_share(explored: Explored) -> None:
    shapes, records = explored
    batch = next_confirmations(ConfirmConfig(), shapes, records)
    assert not {record.spec.seed for record in records} & {what.seed for what in batch}
    tried = {what.shape for what in batch}
    assert len(tried) == FIRST_DEPTHS
    for shape in tried:
        repeats = [(what.seed, what.rate_scale) for what in batch if what.shape == shape]
        assert repeats == [(FRESH_SEEDS_FROM, 1.0), (FRESH_SEEDS_FROM + 1, 1.0)]


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


ONE_RATE = ConfirmConfig(depths=6, seeds=4, rates=(1.0,))
BOWL = {2: 1.64, 4: 1.60, 8: 1.64}


def test_depths_are_added_outwards_until_they_enclose_the_optimum(explored: Explored) -> None:
    shapes, _ = explored
    falling = {1: 1.70, 2: 1.66, 4: 1.62}
    (one, two) = next_confirmations(
        ONE_RATE, shapes, confirmed(shapes, falling, seeds=2, noise=0.001)
    )
    assert one.shape == two.shape
    assert one.shape.depth == 8
    assert (one.seed, two.seed) == (FRESH_SEEDS_FROM, FRESH_SEEDS_FROM + 1)
    risen = confirmed(shapes, {**falling, 8: 1.66}, seeds=2, noise=0.001)
    assert next_confirmations(ONE_RATE, shapes, risen) == ()


def test_an_end_that_may_still_be_the_best_does_not_enclose_it(explored: Explored) -> None:
    shapes, _ = explored
    level = confirmed(shapes, {2: 1.601, 4: 1.60, 8: 1.66}, seeds=2, noise=0.004)
    assert {what.shape.depth for what in next_confirmations(ONE_RATE, shapes, level)} == {1}


def test_rates_are_bracketed_once_the_optimum_is_enclosed_where_it_may_lie(
    explored: Explored,
) -> None:
    shapes, _ = explored
    losses = {1: 1.80, 2: 1.66, 4: 1.60, 8: 1.66}
    records = confirmed(shapes, losses, seeds=2, noise=0.001)
    batch = next_confirmations(ConfirmConfig(), shapes, records)
    assert {what.shape.depth for what in batch} == {2, 4, 8}, "the best and its neighbours"
    assert {(what.seed, what.rate_scale) for what in batch} == {
        (FRESH_SEEDS_FROM, 0.5),
        (FRESH_SEEDS_FROM, 2.0),
    }
    at_rates = [
        replace(record, spec=replace(record.spec, rate_scale=rate, trial=f"{index}-{rate}"))
        for index, record in enumerate(records)
        for rate in (0.5, 2.0)
        if record.spec.seed == FRESH_SEEDS_FROM and record.spec.shape.depth > 1
    ]
    assert next_confirmations(ConfirmConfig(), shapes, [*records, *at_rates]) == ()


def test_an_explored_depth_that_is_certainly_worse_encloses_the_optimum_as_well(
    explored: Explored,
) -> None:
    shapes, _ = explored
    rising = confirmed(shapes, {2: 1.60, 4: 1.62, 8: 1.70}, seeds=2, noise=0.001)
    (one,) = confirmed(shapes, {1: 1.8}, seeds=1, noise=0)
    single = replace(one, spec=replace(one.spec, stage=Stage.EXPLORE, seed=0))
    assert {what.shape.depth for what in next_confirmations(ONE_RATE, shapes, rising)} == {1}
    assert next_confirmations(ONE_RATE, shapes, [*rising, single]) == ()


def test_no_depth_is_tried_beyond_one_that_diverged_or_beyond_the_space(explored: Explored) -> None:
    shapes, _ = explored
    end = max(shape.depth for shape in shapes)
    falling = confirmed(shapes, {1: 1.70, 2: 1.66, 4: 1.62}, seeds=2, noise=0.001)
    lost = confirmed(shapes, {8: 1.6}, seeds=2, noise=0, outcome=Outcome.DIVERGED)
    assert next_confirmations(ONE_RATE, shapes, falling + lost) == ()
    to_the_end = confirmed(shapes, {3: 1.90, 6: 1.80, end: 1.62}, seeds=2, noise=0.001)
    assert next_confirmations(ONE_RATE, shapes, to_the_end) == ()


def test_no_more_depths_than_allowed(explored: Explored) -> None:
    shapes, _ = explored
    falling = confirmed(shapes, {1: 1.70, 2: 1.66, 4: 1.62}, seeds=2, noise=0.001)
    assert next_confirmations(ConfirmConfig(depths=3, seeds=2, rates=(1.0,)), shapes, falling) == ()


def test_the_noise_decides_how_many_seeds(explored: Explored) -> None:
    shapes, _ = explored
    quiet = confirmed(shapes, BOWL, seeds=2, noise=0.001)
    assert next_confirmations(ONE_RATE, shapes, quiet) == ()
    near = {1: 1.9, 2: 1.62, 4: 1.60, 8: 1.62, 12: 1.9}
    loud = confirmed(shapes, near, seeds=2, noise=0.02)
    batch = next_confirmations(ONE_RATE, shapes, loud)
    assert {what.seed for what in batch} == {FRESH_SEEDS_FROM + 2}
    assert {what.shape.depth for what in batch} == {2, 4, 8}, "the others are certainly worse"
    enough = confirmed(shapes, near, seeds=4, noise=0.02)
    assert next_confirmations(ONE_RATE, shapes, enough) == (), "no more seeds than allowed"


def test_seeds_needed_make_two_errors_as_wide_as_a_plateau() -> None:
    config = ConfirmConfig(seeds=20)
    assert enough_seeds(0.001, config) == FIRST_SEEDS
    assert enough_seeds(0.005, config) == 4
    assert enough_seeds(0.01, config) == 16
    assert enough_seeds(0.01, ConfirmConfig(seeds=3)) == 3


def test_nothing_is_confirmed_when_every_trial_was_lost(explored: Explored) -> None:
    shapes, records = explored
    lost = [replace(record, outcome=Outcome.DIVERGED) for record in records]
    assert next_confirmations(ConfirmConfig(), shapes, lost) == ()


def test_a_ladder_confirms_all_its_depths_at_once(explored: Explored) -> None:
    _, records = explored
    depths = {record.spec.shape.depth for record in records if record.loss is not None}
    batch = ladder_confirmations(ConfirmConfig(depths=99, seeds=2, rates=(1.0,)), records)
    assert depths <= {what.shape.depth for what in batch}
    assert len(batch) == len(set(batch)) == 2 * len({what.shape for what in batch})
