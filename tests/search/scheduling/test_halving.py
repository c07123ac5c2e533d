"""Successive halving that is fair to depth: `search/scheduling/halving.py`."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from benchmarks.worlds.planted import World, flat, symmetric
from fathom.search.analysis.losses.forecast import RungForecast
from fathom.search.records import TrialRecord
from fathom.search.scheduling.halving import HalvingRule
from tests.support.simulated import cut

WORLD = World(curve=symmetric(8), noise=0.0, slow_start=0.0, ratio_effect=0.0, params_slope=0.0)
RUNG = WORLD.rung_tokens[0]


def promoted(records: Sequence[TrialRecord], rung: int, *, eta: float) -> tuple[str, ...]:
    """Promoted by rank alone, as if every forecast were exact."""
    return HalvingRule(eta=eta, too_close=0.0).promoted(records, rung)


def rule_with(losses: Sequence[float], error: float) -> HalvingRule:
    """A rule whose forecasts are given, all with one error."""
    found = {str(i): RungForecast(loss, error) for i, loss in enumerate(losses)}
    return HalvingRule(eta=2, ranking=lambda came, rung: found)


def at_rung(depths: Sequence[int], world: World = WORLD) -> list[TrialRecord]:
    """A trial of each depth, as far as the rung; named by its place in the sequence."""
    generator = np.random.default_rng(0)
    records = []
    for index, depth in enumerate(depths):
        spec = replace(world.spec(world.shape(depth), seed=index), trial=str(index))
        records.append(cut(world.record(spec, generator), RUNG))
    return records


def slowly(record: TrialRecord, nats: float) -> TrialRecord:
    """The trial as if so many nats more were to come, by the curve of all."""

    def later(tokens: int, loss: float) -> float:
        return loss + nats * (sqrt(record.spec.horizon_tokens / tokens) - 1)

    curve = tuple(replace(p, loss=later(p.tokens, p.loss)) for p in record.curve)
    rungs = {tokens: later(tokens, loss) for tokens, loss in record.rungs.items()}
    return replace(record, curve=curve, rungs=rungs)


@pytest.mark.parametrize(
    ("depths", "eta", "expected"),
    [
        ((1, 2, 4, 8, 16, 32, 3, 6), 4, ("3", "7")),
        ((2,), 4, ("0",)),
        ((1, 2, 5, 8, 20), 4, ("3",)),
    ],
)
def test_one_in_eta_is_promoted_and_the_best_first(
    depths: Sequence[int], eta: float, expected: tuple[str, ...]
) -> None:
    records = at_rung(depths)
    assert promoted(records, RUNG, eta=eta) == expected
    more = promoted(records, RUNG, eta=2)
    assert more[: len(expected)] == expected
    assert len(more) == max(1, len(depths) // 2)
    assert promoted(records, RUNG + 1, eta=2) == (), "no trial reached it"


def test_neither_the_order_of_arrival_nor_evaluations_after_the_rung_count() -> None:
    records = at_rung([1, 2, 4, 8, 16, 32])
    expected = promoted(records, RUNG, eta=2)
    for seed in range(5):
        shuffled = random.Random(seed).sample(records, len(records))
        assert promoted(shuffled, RUNG, eta=2) == expected
    generator = np.random.default_rng(0)
    further = [WORLD.record(record.spec, generator) for record in records]
    assert promoted(records[:3] + further[3:], RUNG, eta=2) == expected


def test_every_trial_but_the_exempt_pauses_at_a_rung() -> None:
    best = at_rung([1, 2, 4, 8])[3]
    rule = HalvingRule(eta=2, first_rung=RUNG)
    assert rule.pauses(best.spec, RUNG)
    assert not rule.pauses(best.spec, RUNG - 1), "an extension has moved the first rung beyond"
    assert not rule.pauses(replace(best.spec, prunable=False), RUNG)


def test_trials_are_ranked_by_forecast_and_equal_ones_as_given() -> None:
    rule = rule_with([2.0, 1.0, 2.0, 1.5], error=0.01)
    assert rule.ranked(at_rung([1, 2, 4, 8]), RUNG) == ("1", "3", "0", "2")


def test_trials_too_close_to_the_best_to_tell_are_promoted_as_well() -> None:
    rule = rule_with([2.0, 2.1, 2.004, 2.006, 2.2], error=0.01)
    records = at_rung([1, 2, 4, 8, 16])
    assert rule.divided(records, RUNG)[1] == ()
    assert rule.promoted(records, RUNG) == ("0", "2")
    unsure = rule_with([2.0, 2.1, 2.004, 2.006, 2.2], error=0.02)
    assert unsure.divided(records, RUNG)[1] == ("3",)
    assert unsure.promoted(records, RUNG) == ("0", "2", "3")


def test_where_the_rest_of_the_way_is_long_the_rule_waits() -> None:
    near = at_rung([2, 4, 8, 16, 32, 64], replace(WORLD, curve=symmetric(8, 0.05)))
    rule = HalvingRule(eta=2)
    assert rule.divided([slowly(record, 0.0) for record in near], RUNG)[1] == ()
    assert rule.divided([slowly(record, 5.0) for record in near], RUNG)[1]


@pytest.mark.parametrize("slow_start", [0.02, 0.04, 0.06])
def test_deep_models_that_start_slowly_and_end_ahead_are_promoted(slow_start: float) -> None:
    world = replace(WORLD, curve=symmetric(24, 0.01), slow_start=slow_start)
    records = at_rung([2, 3, 4, 6, 8, 12, 24, 32], world)
    losses = {record.spec.trial: record.rungs[RUNG] for record in records}
    assert min(losses, key=lambda trial: losses[trial]) not in ("6", "7"), "behind at the rung"
    assert promoted(records, RUNG, eta=4)[0] in ("6", "7")


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
        deep += sum(int(t) > 5 for t in promoted(records, RUNG, eta=3))
    assert 120 <= deep <= 280
