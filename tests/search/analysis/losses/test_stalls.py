"""Which trainings stalled, by other seeds of the same shape and by brackets of rates."""

import numpy as np
import pytest

from benchmarks.worlds.planted import World, finished, flat
from fathom.search.analysis.answer.finding import find_optima, find_optimum
from fathom.search.analysis.answer.verdict import Kind, Seeds, Verdict
from fathom.search.analysis.losses.stalls import SeedApart, find_stalls, too_low, without_stalled
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.records import TrialRecord
from fathom.search.report.words.caveats import unsupported
from fathom.search.report.words.text import too_low_text
from fathom.search.words import table_reason
from tests.support.reporting import CONFIG

WORLD = World(curve=flat)


def seeds(depth: int, *losses: float, rate: float = 1.0) -> list[TrialRecord]:
    """Trials of one shape, of the seeds 0, 1, 2, ..."""
    return [
        finished(WORLD.spec(WORLD.shape(depth), seed=seed, rate_scale=rate), loss)
        for seed, loss in enumerate(losses)
    ]


def rates(depth: int, losses: dict[float, float]) -> list[TrialRecord]:
    """Trials of one seed at several rates."""
    return [record for rate, loss in losses.items() for record in seeds(depth, loss, rate=rate)]


def stalled_losses(records: list[TrialRecord]) -> list[float]:
    stalled = find_stalls(records).stalled
    return sorted(r.loss for r in records if r.spec.trial in stalled and r.loss is not None)


def test_seeds_far_above_the_lower_ones_of_their_shape_stalled() -> None:
    usual = [*seeds(3, 1.896, 1.902, 1.899), *seeds(4, 1.924, 1.921)]
    assert stalled_losses([*usual, *seeds(2, 2.0319, 1.909, 1.905)]) == [2.0319]
    assert stalled_losses([*usual, *seeds(2, 1.909, 1.905)]) == []


def test_of_two_seeds_far_apart_neither_is_called_stalled_but_their_shape_is_in_doubt() -> None:
    usual = [*seeds(3, 1.896, 1.902, 1.899), *seeds(4, 1.924, 1.921)]
    apart = seeds(2, 1.93, 1.88)
    found = find_stalls([*usual, *apart])
    assert not found.stalled
    assert found.in_doubt == {WORLD.shape(2)}
    third = find_stalls([*usual, *seeds(2, 1.93, 1.88, 1.881)])
    assert len(third.stalled) == 1
    assert not third.in_doubt


LADDER = {1: 1.76, 2: 1.66, 3: 1.623, 4: 1.602, 6: 1.594, 8: 1.605, 12: 1.626, 16: 1.646}
"""Losses of a ladder with one hump, by depth."""


@pytest.mark.parametrize("others", [(), (0.002,), (0.001, 0.003)])
@pytest.mark.parametrize("depth", LADDER)
def test_the_curve_of_the_other_depths_says_which_of_the_seeds_of_a_depth_is_wrong(
    depth: int, others: tuple[float, ...]
) -> None:
    rest = [r for d, loss in LADDER.items() if d != depth for r in seeds(d, loss, loss + 0.004)]
    usual, lower = LADDER[depth], LADDER[depth] - 0.3
    low = [*rest, *seeds(depth, usual, lower, *(usual + off for off in others))]
    assert [(r.loss, r.spec.seed) for r in too_low(low, find_stalls(low))] == [(lower, 1)]
    assert not find_stalls(low).stalled
    assert len(without_stalled(low)) == len(low) - 1
    high = [*rest, *seeds(depth, usual + 0.3, usual, *(usual + 0.3 + off for off in others))]
    assert len(stalled_losses(high)) == 1 + len(others)
    assert not find_stalls(high).too_low


@pytest.mark.parametrize("noise", [0.001, 0.006, 0.03])
def test_the_noise_of_seeds_is_no_stall_whatever_its_size(noise: float) -> None:
    generator, trained, called = np.random.default_rng(0), 0, 0
    for _ in range(100):
        records = [
            record
            for depth in (2, 3, 4, 6)
            for record in seeds(depth, *(1.6 + noise * generator.standard_normal(3)))
        ]
        trained += len(records)
        called += len(find_stalls(records).stalled)
    assert called / trained < 0.03


def test_a_depth_with_more_noise_than_others_keeps_most_of_its_seeds() -> None:
    generator, kept = np.random.default_rng(0), []
    for _ in range(200):
        quiet = [r for d in (2, 3, 4) for r in seeds(d, *(1.6 + 0.004 * generator.normal(size=3)))]
        loud = seeds(9, *(1.6 + 0.02 * generator.normal(size=3)))
        kept.append(len(without_stalled([*quiet, *loud])) - len(quiet))
    assert np.mean(kept) > 2.7


def test_a_rate_worse_than_both_its_neighbours_stalled() -> None:
    assert stalled_losses(rates(2, {0.5: 1.758, 1.0: 1.863, 2.0: 1.742})) == [1.863]
    assert stalled_losses(rates(2, {0.5: 1.758, 1.0: 1.730, 2.0: 1.742})) == []
    assert stalled_losses(rates(2, {0.5: 1.85, 1.0: 1.730, 2.0: 1.742})) == []


def test_without_repeats_or_brackets_nothing_stalled() -> None:
    records = [*seeds(2, 1.7), *seeds(3, 2.5)]
    assert without_stalled(records) == records
    assert without_stalled([]) == []


def test_an_answer_by_one_seed_is_insufficient_where_too_few_depths_say_if_it_is_wrong() -> None:
    few = [r for d in (2, 4, 6, 8, 12) if d != 4 for r in seeds(d, LADDER[d], LADDER[d] + 0.004)]
    found = find_optimum([*few[:-2], *seeds(4, 1.602, 1.302)], seed=0)
    assert found.verdict == Verdict(Kind.INSUFFICIENT, SeedApart(4, 1, 1.302, 1.602, 2), Seeds(3))
    assert "seed 1 of depth 4 ended at 1.3020 nats" in table_reason(found.verdict)
    told = find_optimum([*few, *seeds(4, 1.602, 1.302)], seed=0)
    assert (told.kind, told.lowest_depth) == (Kind.IDENTIFIED, 6)


def test_a_seed_that_ended_too_low_is_named_with_the_answer() -> None:
    rest = [r for d, loss in LADDER.items() if d != 3 for r in seeds(d, loss, loss + 0.004)]
    records = [*rest, *seeds(3, LADDER[3], 1.3)]
    optima = find_optima(records, seed=0)
    found = Conclusion(config=CONFIG, records=tuple(records), optima=optima)
    assert too_low_text(found).startswith("seed 1 of depth 3 at 1M ended at 1.3000 nats, far below")
    assert any(
        limit.startswith("Too low: why a loss is so low; seed 1 of depth 3")
        for limit in unsupported(found)
    )
