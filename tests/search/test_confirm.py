"""Which trials settle a budget: `search/confirm.py`."""

import itertools
from dataclasses import replace
from pathlib import Path

from models.shape import Count, Shape
from search.config import ConfirmConfig
from search.confirm import (
    FIRST_DEPTHS,
    FIRST_SEEDS,
    FRESH_SEEDS_FROM,
    enough_seeds,
    leading_shapes,
    next_wave,
    whole_ladder,
)
from search.records import Outcome, Stage, TrialRecord
from search.space import nearest_shape
from tests.search.dry_run import Simulation, conductor, study
from tests.search.simulated import World, finished, flat


def explored(tmp_path: Path) -> tuple[tuple[Shape, ...], list[TrialRecord]]:
    search = conductor(study(trials=16), tmp_path / "run")
    Simulation(search).run()
    chosen = search.budgets[20_000]
    return chosen.shapes, [r for r in chosen.ended if r.spec.stage == "explore"]


def test_the_planted_depth_is_confirmed_with_a_neighbour_on_either_side(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    depths = [shape.depth for shape in leading_shapes(3, shapes, records)]
    assert len(depths) == 3
    assert depths[0] < 4 < depths[2]


def test_one_lucky_trial_does_not_draw_the_confirmation_away(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    best = min(record.loss for record in records if record.loss is not None)
    shallow = min((r for r in records if r.loss is not None), key=lambda r: r.spec.shape.depth)
    lucky = replace(shallow.curve[-1], loss=best - 0.002)
    records[records.index(shallow)] = replace(shallow, curve=(*shallow.curve[:-1], lucky))
    assert shallow.spec.shape.depth <= 2
    depths = [shape.depth for shape in leading_shapes(3, shapes, records)]
    assert depths[0] < 4 <= depths[2]


def test_confirmed_depths_are_far_enough_apart_to_be_told_apart(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    depths = [shape.depth for shape in leading_shapes(6, shapes, records)]
    assert all(b / a >= 1.2 for a, b in itertools.pairwise(depths))


def test_the_first_wave_shares_fresh_seeds_and_brackets_the_rate_on_the_first(
    tmp_path: Path,
) -> None:
    shapes, records = explored(tmp_path)
    wave = next_wave(ConfirmConfig(), shapes, records)
    assert not {record.spec.seed for record in records} & {what.seed for what in wave}
    by_shape = {
        shape: [(what.seed, what.rate_scale) for what in wave if what.shape == shape]
        for shape in {what.shape for what in wave}
    }
    assert len(by_shape) == FIRST_DEPTHS
    first = FRESH_SEEDS_FROM
    for repeats in by_shape.values():
        assert repeats == [(first, 1.0), (first, 0.5), (first, 2.0), (first + 1, 1.0)]


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


def test_depths_go_on_outwards_until_they_enclose_the_optimum(tmp_path: Path) -> None:
    shapes, _ = explored(tmp_path)
    falling = {2: 1.70, 3: 1.66, 4: 1.62}
    (one, two) = next_wave(ONE_RATE, shapes, confirmed(shapes, falling, seeds=2, noise=0.001))
    assert one.shape == two.shape
    assert one.shape.depth == 5
    assert (one.seed, two.seed) == (FRESH_SEEDS_FROM, FRESH_SEEDS_FROM + 1)
    risen = confirmed(shapes, {**falling, 5: 1.61, 6: 1.66}, seeds=2, noise=0.001)
    assert next_wave(ONE_RATE, shapes, risen) == ()


def test_no_depth_is_tried_beyond_one_that_diverged_or_beyond_the_space(tmp_path: Path) -> None:
    shapes, _ = explored(tmp_path)
    end = max(shape.depth for shape in shapes)
    falling = confirmed(shapes, {2: 1.70, 3: 1.66, 4: 1.62}, seeds=2, noise=0.001)
    lost = confirmed(shapes, {5: 1.6}, seeds=2, noise=0, outcome=Outcome.DIVERGED)
    assert next_wave(ONE_RATE, shapes, falling + lost) == ()
    to_the_end = confirmed(shapes, {3: 1.70, 6: 1.66, end: 1.62}, seeds=2, noise=0.001)
    assert next_wave(ONE_RATE, shapes, to_the_end) == ()


def test_no_more_depths_than_allowed(tmp_path: Path) -> None:
    shapes, _ = explored(tmp_path)
    falling = confirmed(shapes, {2: 1.70, 3: 1.66, 4: 1.62}, seeds=2, noise=0.001)
    assert next_wave(ConfirmConfig(depths=3, seeds=2), shapes, falling) == ()


def test_the_noise_decides_how_many_seeds(tmp_path: Path) -> None:
    shapes, _ = explored(tmp_path)
    quiet = confirmed(shapes, BOWL, seeds=2, noise=0.001)
    assert next_wave(ONE_RATE, shapes, quiet) == ()
    loud = confirmed(shapes, {2: 1.62, 4: 1.60, 8: 1.62}, seeds=2, noise=0.02)
    wave = next_wave(ONE_RATE, shapes, loud)
    assert {what.seed for what in wave} == {FRESH_SEEDS_FROM + 2}
    enough = confirmed(shapes, {2: 1.62, 4: 1.60, 8: 1.62}, seeds=4, noise=0.02)
    assert next_wave(ONE_RATE, shapes, enough) == (), "no more seeds than allowed"


def test_depths_that_are_certainly_worse_get_no_more_seeds(tmp_path: Path) -> None:
    shapes, _ = explored(tmp_path)
    records = confirmed(shapes, {1: 1.9, 3: 1.60, 4: 1.602, 6: 1.62}, seeds=2, noise=0.012)
    wave = next_wave(ONE_RATE, shapes, records)
    assert {what.shape.depth for what in wave} == {3, 4, 6}


def test_seeds_needed_make_two_errors_as_wide_as_a_plateau() -> None:
    config = ConfirmConfig(seeds=20)
    assert enough_seeds(0.001, config) == FIRST_SEEDS
    assert enough_seeds(0.005, config) == 4
    assert enough_seeds(0.01, config) == 16
    assert enough_seeds(0.01, ConfirmConfig(seeds=3)) == 3


def test_a_stopped_trial_that_came_far_leads_one_that_did_not(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    stopped = [r for r in records if r.outcome is Outcome.STOPPED]
    near = replace(stopped[0], rungs={100: 2.0, 200: 1.9})
    far = replace(stopped[0], rungs={100: 1.5}, spec=replace(near.spec, shape=shapes[0]))
    assert near.spec.shape in leading_shapes(3, shapes, [far, near])
    assert leading_shapes(1, shapes, [far, near]) == (near.spec.shape,)


def test_nothing_is_confirmed_when_every_trial_was_lost(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    lost = [replace(record, outcome=Outcome.DIVERGED) for record in records]
    assert next_wave(ConfirmConfig(), shapes, lost) == ()


def test_a_ladder_confirms_all_its_depths_at_once(tmp_path: Path) -> None:
    _, records = explored(tmp_path)
    depths = {record.spec.shape.depth for record in records if record.loss is not None}
    wave = whole_ladder(ConfirmConfig(depths=99, seeds=2, rates=(1.0,)), records)
    assert depths <= {what.shape.depth for what in wave}
    assert len(wave) == len(set(wave)) == 2 * len({what.shape for what in wave})
