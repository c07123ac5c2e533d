"""Which trials settle a budget: `search/confirm.py`."""

import itertools
from dataclasses import replace
from pathlib import Path

from models.shape import Shape
from search.config import ConfirmConfig
from search.confirm import FRESH_SEEDS_FROM, leading_shapes, plan_confirmation
from search.records import Outcome, TrialRecord
from tests.search.dry_run import Simulation, conductor, study


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


def test_every_seed_is_fresh_and_shared_by_all_depths(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    plan = plan_confirmation(ConfirmConfig(depths=3, seeds=2), shapes, records)
    used = {record.spec.seed for record in records}
    assert {what.seed for what in plan} == {FRESH_SEEDS_FROM, FRESH_SEEDS_FROM + 1}
    assert not used & {what.seed for what in plan}
    by_shape = {
        shape: [(what.seed, what.rate_scale) for what in plan if what.shape == shape]
        for shape in {what.shape for what in plan}
    }
    first, *others = by_shape.values()
    assert all(other == first for other in others)


def test_the_bracket_of_rates_is_run_on_the_first_seed_only(tmp_path: Path) -> None:
    shapes, records = explored(tmp_path)
    plan = plan_confirmation(ConfirmConfig(depths=3, seeds=3), shapes, records)
    assert len(plan) == 3 * (3 + 2)
    assert {what.seed for what in plan if what.rate_scale != 1} == {FRESH_SEEDS_FROM}


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
    assert plan_confirmation(ConfirmConfig(), shapes, lost) == ()
