"""Stopping that was fair, unfair to depth, or too rarely checked to say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from search.audit import audit_stopping, kendall_tau, places, spearman_rho
from search.records import TrialRecord
from tests.search.simulated import World, confirm, cut, explore, symmetric

DEPTHS = (1, 2, 3, 4, 6, 8)


def finished_trials(slow_start: float, noise: float = 0.001) -> list[TrialRecord]:
    world = World(curve=symmetric(6, 0.1), noise=noise, slow_start=slow_start)
    return confirm(world, DEPTHS, np.random.default_rng(0))


def test_rank_correlations_agree_with_scipy_ties_included() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        x, y = generator.integers(0, 6, (2, 12)).astype(float)
        assert places(x) == pytest.approx(stats.rankdata(x))
        assert kendall_tau(x, y) == pytest.approx(stats.kendalltau(x, y).statistic)
        assert spearman_rho(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_a_correlation_with_all_ties_is_none() -> None:
    assert kendall_tau(np.ones(4), np.arange(4.0)) is None
    assert spearman_rho(np.arange(4.0), np.ones(4)) is None


def test_curves_that_do_not_cross_are_trusted() -> None:
    for own in audit_stopping(finished_trials(slow_start=0.0)):
        assert own.trusted
        assert own.agreement == pytest.approx(1)
        assert own.depth_lean is None
        assert own.place_of_best == 1
        assert "agreed with the end" in own.sentence


def test_slow_deep_models_are_noticed_and_the_remedy_is_named() -> None:
    early, late = audit_stopping(finished_trials(slow_start=0.2))
    assert early.rung < late.rung
    assert early.trusted is False
    assert early.depth_lean is not None
    assert early.depth_lean > 0.5
    assert early.place_of_best is not None
    assert early.place_of_best > 1
    assert "deep trials stood worse than they ended" in early.sentence
    assert "raise `stopping.first_rung`" in early.sentence
    assert early.agreement is not None
    assert late.agreement is not None
    assert late.agreement > early.agreement


def test_fast_deep_models_lean_the_other_way() -> None:
    world = World(curve=symmetric(2, 0.1), noise=0.001, slow_start=-0.12)
    early, _ = audit_stopping(confirm(world, DEPTHS, np.random.default_rng(0)))
    assert early.trusted is False
    assert "shallow trials stood worse than they ended" in early.sentence


def test_little_agreement_without_a_lean_is_not_trusted() -> None:
    generator = np.random.default_rng(1)
    world = World(curve=symmetric(3, 0.0), noise=0.001)
    records = [
        replace(run, rungs={5_000_000: float(generator.normal())})
        for run in confirm(world, (3,), generator, seeds=12, rates=(1.0,))
    ]
    (own,) = audit_stopping(records)
    assert own.depth_lean is None
    assert own.trusted is False
    assert "agreed little with the end" in own.sentence


def test_too_few_finished_trials_say_so() -> None:
    (own, _) = audit_stopping(finished_trials(slow_start=0.0)[:5])
    assert own.trusted is own.agreement is own.depth_lean is None
    assert "too few to tell" in own.sentence


def test_trials_at_other_rates_are_not_compared() -> None:
    (own, _) = audit_stopping(finished_trials(slow_start=0.0))
    assert own.finished == 3 * len(DEPTHS)


def test_what_was_stopped_and_which_depths_ended_is_told() -> None:
    generator = np.random.default_rng(0)
    world = World(curve=symmetric(3))
    first, second = world.rung_tokens
    runs = confirm(world, (2, 3, 4, 8), generator)
    records = [cut(run, first) if run.spec.shape.depth == 8 else run for run in runs]
    records += [cut(run, second) for run in confirm(world, (2,), generator)]
    early, late = audit_stopping(records)
    assert (early.stopped, early.stopped_depths, early.cut_depths) == (5, (8,), (8,))
    assert (late.stopped, late.stopped_depths, late.cut_depths) == (5, (2,), ())
    assert "no trial of depth 8 went on" in early.sentence


def test_every_stopped_trial_is_counted_once() -> None:
    world = World(curve=symmetric(3))
    records = explore(world, DEPTHS, np.random.default_rng(0))
    stopped = sum(own.stopped for own in audit_stopping(records))
    assert stopped == sum(record.outcome == "stopped" for record in records)


def test_no_records_have_no_rungs() -> None:
    assert audit_stopping([]) == ()
