"""Stopping on many tables: `answers/stopping_tables.py`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.answers.spent.stopping_tables import (
    StoppingCase,
    StoppingOutcome,
    cases_of,
    chosen_rule,
    left_out,
    standard_error,
)
from benchmarks.simulate.arrivals import Survival
from benchmarks.worlds.curve_tables import size_class
from tests.support.curves import run, write

SOME = size_class([run(depth) for depth in (4, 8, 16, 32)])


def outcome(
    *, regret: float = 0.0, tokens: float = 0.3, waited: float = 0.0, table: str = "one"
) -> StoppingOutcome:
    case = StoppingCase(table=table, title="title", some=SOME)
    return StoppingOutcome(case, Survival(float(regret == 0), tokens, regret, waited))


def test_a_comparison_passes_with_the_best_shape_for_few_tokens_or_where_the_rule_waits() -> None:
    assert outcome().passed
    assert outcome(regret=0.002).passed, "hardly anything is lost"
    assert not outcome(regret=0.003).passed
    assert not outcome(tokens=0.5).passed
    assert outcome(tokens=0.5, waited=1.0).passed
    assert not outcome(regret=0.003, waited=1.0).passed


def test_the_error_of_a_mean_is_pooled_over_the_seeds_of_all_shapes() -> None:
    assert standard_error(SOME) == 0.0, "one seed a shape tells nothing"
    runs = [replace(run(depth), seed=seed) for depth in (4, 8) for seed in (0, 1)]
    some = size_class(runs)
    losses = np.tile(some.losses[:1], (4, 1)) + np.array([[0.0], [0.02], [0.0], [0.04]])
    variance = (0.02**2 / 2 + 0.04**2 / 2) / 2
    assert standard_error(replace(some, losses=losses)) == pytest.approx((variance / 2) ** 0.5)


def test_a_table_is_cut_at_horizons_well_before_its_own(tmp_path: Path) -> None:
    table = write(tmp_path / "table.csv", [run(depth) for depth in (4, 8, 16, 32)])
    end = SOME.horizon
    cases = list(cases_of(table, [end / 2, 0.95 * end]))
    assert [case.some.horizon for case in cases] == [
        pytest.approx(end / 2, rel=0.1),
        pytest.approx(end),
    ]
    assert {case.table for case in cases} == {"table"}


def test_the_rule_is_the_cheapest_that_passes_nine_of_ten_of_the_other_tables() -> None:
    good, dear = [outcome(tokens=0.3)] * 9, [outcome(tokens=0.4)] * 9
    tried = {
        "cheap": [*good, outcome(regret=1.0)],
        "dear": [*dear, outcome()],
        "bad": [outcome(tokens=0.1, regret=1.0)] * 10,
    }
    assert chosen_rule(tried) == "cheap"
    assert chosen_rule({**tried, "cheap": [*good[1:], *[outcome(regret=1.0)] * 2]}) == "dear"
    assert chosen_rule({"bad": tried["bad"]}) == "bad"


def test_a_rule_is_tried_on_the_table_that_had_no_part_in_choosing_it() -> None:
    tried = {
        "early": [outcome(tokens=0.2), outcome(tokens=0.2, regret=1.0, table="other")],
        "late": [outcome(tokens=0.4), outcome(tokens=0.4, table="other")],
    }
    lines = "\n".join(left_out(tried))
    assert "| one | late | 1.00 | 1 of 1 |" in lines
    assert "| other | early | 1.00 | 0 of 1 |" in lines
