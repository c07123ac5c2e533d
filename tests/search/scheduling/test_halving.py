"""Successive halving that is fair to depth: `search/scheduling/halving.py`."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.worlds.planted import World, flat, symmetric
from fathom.search.records import TrialRecord
from fathom.search.scheduling.halving import HalvingRule
from tests.support.simulated import cut

WORLD = World(curve=symmetric(8), noise=0.0, slow_start=0.0, ratio_effect=0.0, params_slope=0.0)
RUNG = WORLD.rung_tokens[0]


def promoted(
    records: Sequence[TrialRecord], rung: int, *, eta: float, complete: bool
) -> tuple[str, ...]:
    return HalvingRule(eta=eta).promoted(records, rung, complete=complete)


def at_rung(depths: Sequence[int], world: World = WORLD) -> list[TrialRecord]:
    """A trial of each depth, as far as the rung; named by its place in the sequence."""
    generator = np.random.default_rng(0)
    records = []
    for index, depth in enumerate(depths):
        spec = replace(world.spec(world.shape(depth), seed=index), trial=str(index))
        records.append(cut(world.record(spec, generator), RUNG))
    return records


def test_one_in_eta_is_promoted_and_the_best_first() -> None:
    records = at_rung([1, 2, 4, 8, 16, 32, 3, 6])
    assert promoted(records, RUNG, eta=4, complete=False) == ("3", "7")
    assert promoted(records, RUNG, eta=2, complete=False)[:2] == ("3", "7")
    assert len(promoted(records, RUNG, eta=2, complete=False)) == 4


def test_the_first_trial_at_a_rung_pauses_until_others_arrive() -> None:
    assert promoted(at_rung([8]), RUNG, eta=4, complete=False) == ()
    assert promoted(at_rung([1, 2, 4]), RUNG, eta=4, complete=False) == ()
    assert promoted(at_rung([1, 2, 4, 32]), RUNG, eta=4, complete=False) == ("2",)


def test_when_no_more_trials_come_one_is_always_promoted() -> None:
    assert promoted(at_rung([2]), RUNG, eta=4, complete=True) == ("0",)
    assert promoted(at_rung([1, 2, 5, 8, 20]), RUNG, eta=4, complete=True) == ("3", "2")


def test_a_rung_that_no_trial_reached_is_empty() -> None:
    assert promoted(at_rung([1, 2, 4, 8]), RUNG + 1, eta=2, complete=True) == ()


def test_the_order_of_arrival_does_not_matter() -> None:
    records = at_rung([1, 2, 4, 8, 16, 32])
    expected = promoted(records, RUNG, eta=2, complete=False)
    for seed in range(5):
        shuffled = random.Random(seed).sample(records, len(records))
        assert promoted(shuffled, RUNG, eta=2, complete=False) == expected


def test_evaluations_after_the_rung_do_not_count() -> None:
    records = at_rung([1, 2, 4, 8, 16, 32])
    generator = np.random.default_rng(0)
    further = [WORLD.record(record.spec, generator) for record in records]
    assert promoted(records[:3] + further[3:], RUNG, eta=2, complete=False) == promoted(
        records, RUNG, eta=2, complete=False
    )


@pytest.mark.parametrize("slow_start", [0.02, 0.04, 0.06])
def test_deep_models_that_start_slowly_and_end_ahead_are_promoted(slow_start: float) -> None:
    world = replace(WORLD, curve=symmetric(24, 0.01), slow_start=slow_start)
    records = at_rung([2, 3, 4, 6, 8, 12, 24, 32], world)
    losses = {record.spec.trial: record.rungs[RUNG] for record in records}
    assert min(losses, key=lambda trial: losses[trial]) not in ("6", "7"), "behind at the rung"
    assert promoted(records, RUNG, eta=4, complete=False)[0] in ("6", "7")


def test_without_an_effect_of_depth_no_depth_is_favoured() -> None:
    """Over many uninformative rungs, deep and shallow trials are promoted about equally often."""
    world = replace(WORLD, curve=flat, noise=0.01, fall=0.5)
    generator = np.random.default_rng(0)
    deep = 0
    for repetition in range(200):
        depths = [1, 2, 4, 8, 16, 32]
        records = [
            cut(
                world.record(
                    replace(world.spec(world.shape(d), seed=repetition), trial=str(d)), generator
                ),
                RUNG,
            )
            for d in depths
        ]
        deep += sum(int(t) > 5 for t in promoted(records, RUNG, eta=3, complete=True))
    assert 120 <= deep <= 280
