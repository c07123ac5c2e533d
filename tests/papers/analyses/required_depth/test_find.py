"""Depth needed against difficulty: planted rules are found, and what was not tested is not said."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fathom.papers.analyses.required_depth.find import (
    RULES,
    DifficultyDepth,
    RequiredDepth,
    find,
    fit_required_depth,
)
from fathom.search.records import Outcome, TrialRecord
from tests.support.papers import DIFFICULTIES, hop_records, measured_trial, sanford


def found_in(records: Sequence[TrialRecord]) -> RequiredDepth:
    [required] = find(records, seed=0)
    return required


def interval(required: RequiredDepth) -> tuple[float, float]:
    """The interval of the gain; infinite where it is open above."""
    assert required.gained_interval
    low, high = required.gained_interval
    return low, high or math.inf


def test_the_rule_of_hops_is_found() -> None:
    required = found_in(hop_records())

    assert (required.metric, required.budget, required.trials) == ("error/k", 100_000, 3)
    assert [(need.difficulty, need.depth) for need in required.needs] == [
        (k, sanford(k)) for k in DIFFICULTIES
    ]
    low, high = interval(required)
    assert low < 1 < high < math.inf, "a layer doubles the hops"
    assert required.gained == pytest.approx(1, abs=0.2)


def test_the_rule_of_blocks_is_found_across_studies() -> None:
    measured = {k: {d: [0.99 if d >= k - 2 else 0.2] * 2 for d in range(1, 6)} for k in range(3, 8)}

    rule, metric = RULES["exact_match"], "exact_match/61-80"
    required = fit_required_depth(measured, rule, metric=metric, budget=1_000_000, seed=0)

    assert [need.depth for need in required.needs] == [1, 2, 3, 4, 5]
    assert required.gained == pytest.approx(1), "a layer is a block more"
    low, high = interval(required)
    assert 0.7 < low < 1 < high < 1.5


def test_a_difficulty_beyond_every_tested_depth_has_no_required_depth() -> None:
    required = found_in(hop_records(depths=(1, 2, 3)))

    none = DifficultyDepth(difficulty=16, depth=None, soonest=None, surest=None)
    assert required.needs[-1] == none
    assert required.gained == pytest.approx(1.0, abs=0.5)


def test_seeds_that_differ_give_the_depth_a_range() -> None:
    errors = {1: (0.5, 0.5), 2: (0.01, 0.2), 3: (0.01, 0.06), 4: (0.01, 0.01)}
    records = [
        measured_trial(depth, seed, {"error/d2": error, "error/d4": 0.5})
        for depth, by_depth in errors.items()
        for seed, error in enumerate(by_depth)
    ]

    easy, hard = found_in(records).needs

    assert easy == DifficultyDepth(difficulty=2, depth=3, soonest=2, surest=4)
    assert hard.depth is None


def test_difficulties_that_the_shallowest_depth_solves_bound_no_smaller_depth() -> None:
    """All but the hardest of these might need fewer than the three layers tried first."""
    required = found_in(hop_records(depths=(4, 5, 6)))

    assert [need.depth for need in required.needs][:6] == [4] * 6
    assert required.gained == pytest.approx(1, rel=0.4)


def test_intervals_cover_the_rule_when_seeds_differ() -> None:
    """Nominal 95 %; measured over 60 worlds 0.87 for steps and 0.98 for the line that they follow:
    difficulties are not spread evenly over the steps, and the line may tilt by that."""
    for rule, least in ((sanford, 0.8), (lambda k: math.log2(k) + 2, 0.9)):
        covered = []
        for seed in range(20):
            low, high = interval(found_in(hop_records(rule, noise=0.5, seed=seed)))
            covered.append(low <= 1 <= high)
        assert np.mean(covered) >= least


@pytest.mark.parametrize("needed", [2, 9], ids=["easy", "impossible"])
def test_no_slope_where_depth_and_difficulty_do_not_go_together(needed: int) -> None:
    required = found_in(hop_records(lambda _: needed))
    assert (required.gained, required.gained_interval) == (None, None)


def test_unfinished_trials_and_missing_values_do_not_count() -> None:
    lost = [replace(record, outcome=Outcome.DIVERGED) for record in hop_records(depths=(1,))]
    nan = [measured_trial(1, 0, {"error/k1": math.nan, "error/k2": math.nan})]

    required = found_in([*lost, *nan, *hop_records(depths=(2, 3))])

    assert required.depths == (1, 2, 3)
    assert required.needs[0].depth == 2


def test_no_required_depth_without_two_depths_and_two_difficulties() -> None:
    assert find([], seed=0) == ()
    assert find(hop_records(depths=(3,)), seed=0) == ()
    single = [measured_trial(depth, 0, {"error/k1": 0.0, "accuracy/dev2": 1.0}) for depth in (1, 2)]
    assert find(single, seed=0) == ()


def test_each_budget_is_judged_by_itself() -> None:
    small, easier = hop_records(), hop_records(lambda k: sanford(k) - 1)
    large = [replace(r, spec=replace(r.spec, budget=200_000)) for r in easier]

    required, other = find([*large, *small], seed=0)

    assert (required.budget, other.budget) == (100_000, 200_000)
    assert required.needs[-1].depth == 6
    assert other.needs[-1].depth == 5


PUBLISHED = {
    2: (0.010, 0.140, 0.346, 0.423, 0.543, 0.588, 0.658, 0.692, 0.720, 0.737),
    3: (0.003, 0.008, 0.048, 0.150, 0.277, 0.359, 0.456, 0.574, 0.644, 0.706),
    4: (0.001, 0.003, 0.005, 0.015, 0.034, 0.062, 0.216, 0.359, 0.467, 0.612),
    5: (0.001, 0.001, 0.001, 0.003, 0.012, 0.015, 0.037, 0.103, 0.218, 0.414),
    6: (0.000, 0.000, 0.001, 0.002, 0.003, 0.003, 0.006, 0.010, 0.012, 0.062),
}
"""Depth to errors by `DIFFICULTIES`: Sanford et al. 2024, width 128, 4 heads, fresh samples."""


def test_published_errors_of_hops_give_about_one_doubling_a_layer() -> None:
    records = [
        measured_trial(
            depth, 0, {f"error/k{k}": e for k, e in zip(DIFFICULTIES, errors, strict=True)}
        )
        for depth, errors in PUBLISHED.items()
    ]

    required = found_in(records)

    assert [need.depth for need in required.needs] == [2, 3, 3, 4, 4, 5, 5, 6, 6, None]
    low, high = interval(required)
    assert low < 1 < high < math.inf
