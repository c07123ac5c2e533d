"""The best learning rate and weight decay of a shape: `search/analysis/losses/rates.py`."""

from dataclasses import replace
from math import log

import pytest

from benchmarks.worlds.planted import World, finished, flat
from fathom.search.analysis.losses.rates import (
    Bracket,
    Factor,
    best_weights,
    brackets,
    granted_gain,
    mean_at_best,
)
from fathom.search.records import Scale, Stage, TrialRecord


def test_three_rates_give_the_lowest_point_of_their_parabola() -> None:
    rates = (0.5, 1.0, 2.0)
    losses = {rate: 1.5 + 0.03 * log(rate / 1.3) ** 2 for rate in rates}
    weights = best_weights(losses)
    assert sum(weights.values()) == pytest.approx(1)
    assert sum(weights[rate] * losses[rate] for rate in rates) == pytest.approx(1.5)


def test_a_best_rate_beyond_the_bracket_stays_at_its_end() -> None:
    losses = {rate: 0.03 * log(rate / 20) ** 2 for rate in (0.5, 1.0, 2.0)}
    assert best_weights(losses) == pytest.approx({0.5: 0, 1: 0, 2: 1}, abs=1e-9)
    bent = {0.5: 1.2, 1.0: 1.5, 2.0: 1.3}
    assert best_weights(bent) == pytest.approx({0.5: 1, 1: 0, 2: 0}, abs=1e-9)
    assert best_weights({1.0: 1.5, 2.0: 1.4}) == {1.0: 0.0, 2.0: 1.0}


def test_a_rate_that_nearly_diverged_bends_no_parabola() -> None:
    losses = {0.5: 2.01, 1.0: 2.0, 2.0: 6.5}
    assert best_weights(losses) == {0.5: 0.0, 1.0: 1.0, 2.0: 0.0}


def test_a_depth_between_brackets_is_granted_the_gain_of_a_rate_that_moves_with_depth() -> None:
    def bracket(depth: int) -> Bracket:
        rate = depth**0.5 / 2  # the study's own rate suits depth 4
        return Bracket(depth=depth, best=rate, gain=0.03 * log(rate) ** 2, weight=0.5)

    brackets = [bracket(1), bracket(16)]
    for depth in (2, 4, 8):
        gain, weight = granted_gain(log(depth), brackets)
        assert gain == pytest.approx(bracket(depth).gain, abs=1e-12)
        assert weight == 0.5


def test_beyond_the_outermost_bracket_its_gain_stands() -> None:
    brackets = [Bracket(depth=d, best=2, gain=0.01 * d, weight=0.5) for d in (2, 4)]
    assert granted_gain(log(1), brackets) == (0.02, 0.5)
    assert granted_gain(log(9), brackets) == (0.04, 0.5)


OWN, FASTER, STRONGER = Scale(), Factor.RATE.scale(2.0), Factor.DECAY.scale(4.0)


def test_the_gains_of_the_best_rate_and_the_best_decay_add_up_and_go_to_the_other_seeds() -> None:
    bracketed = {OWN: 1.60, FASTER: 1.57, STRONGER: 1.55}
    loss, weight = mean_at_best([bracketed, {OWN: 1.62}], 3, {})
    assert loss == pytest.approx((1.60 + 1.62) / 2 - 0.03 - 0.05)
    assert weight == pytest.approx(1 + 1 + 1.5**2 + 0.5**2), "both gains rest on a single seed"


def test_a_seed_of_which_no_trial_at_the_own_decay_finished_counts_at_its_best() -> None:
    losses = {Factor.DECAY.scale(decay): loss for decay, loss in ((0.25, 1.7), (4.0, 1.6))}
    assert mean_at_best([losses], 3, {}) == (1.6, 1.0)


def test_a_depth_without_a_bracket_of_decays_is_granted_what_those_around_gain() -> None:
    world = World(curve=flat, params_slope=0)

    def trial(depth: int, scale: Scale, loss: float) -> TrialRecord:
        spec = world.spec(world.shape(depth), seed=0, stage=Stage.CONFIRM)
        return finished(replace(spec, rate_scale=scale.rate, decay_scale=scale.decay), loss)

    records = [trial(4, OWN, 1.62)]
    for depth in (2, 8):
        records += [trial(depth, OWN, 1.60), trial(depth, STRONGER, 1.58)]
    known = brackets(records)
    assert [(found.depth, found.best) for found in known[Factor.DECAY]] == [(2, 4.0), (8, 4.0)]
    assert known[Factor.RATE] == []
    assert mean_at_best([{OWN: 1.62}], 4, known)[0] == pytest.approx(1.60)
