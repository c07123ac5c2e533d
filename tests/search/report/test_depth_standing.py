"""Why a depth is in or out: by the interval and the plateau, in words."""

from dataclasses import replace

import pytest

from fathom.search.analysis.verdict import Kind
from fathom.search.records import Outcome
from fathom.search.report.depth_standing import depth_standings, ruled_out_text
from tests.support.optima import verdict
from tests.support.reporting import BUDGETS, Optima, Records, of_budget


def test_depths_outside_interval_and_plateau_are_ruled_out(study: Records, optima: Optima) -> None:
    for budget, optimum in zip(BUDGETS, optima, strict=True):
        of_these = of_budget(study, budget)
        low, high = optimum.interval

        standings = depth_standings(of_these, optimum)

        tried = sorted({r.spec.shape.depth for r in of_these})
        assert [standing.depth for standing in standings] == tried
        for standing in standings:
            possible = low <= standing.depth <= high or standing.depth in optimum.plateau
            assert standing.ruled_out is not possible, standing.text
            assert standing.why.startswith("ruled out") is standing.ruled_out
            measured = [est for est in optimum.depths if est.depth == standing.depth]
            assert standing.loss == (measured[0].loss if measured else None)
            finished = [r for r in of_these if r.outcome is Outcome.FINISHED]
            assert standing.finished == sum(r.spec.shape.depth == standing.depth for r in finished)


def test_a_depth_as_good_as_the_best_is_not_ruled_out(study: Records, optima: Optima) -> None:
    best = optima[0].optimal_depth
    assert best
    beside = next(estimate.depth for estimate in optima[0].depths if estimate.depth > best)
    optimum = replace(optima[0], interval=(best, best), plateau=(best, beside))

    found = depth_standings(of_budget(study, BUDGETS[0]), optimum)
    standings = {standing.depth: standing for standing in found}

    assert not standings[beside].ruled_out
    assert "outside the 95 % interval, but not ruled out" in standings[beside].why
    assert standings[best].why == "the best"


def test_an_early_stop_rules_out_no_depth_that_the_curve_holds_as_good_as_the_best(
    study: Records, optima: Optima
) -> None:
    best = optima[0].optimal_depth
    assert best
    beside = best + 1
    settled = replace(
        optima[0],
        interval=(best, best),
        plateau=(best, beside),
        depths=tuple(estimate for estimate in optima[0].depths if estimate.depth != beside),
    )
    stopped = [
        replace(record, outcome=Outcome.STOPPED) if record.spec.shape.depth == beside else record
        for record in of_budget(study, BUDGETS[0])
    ]
    assert any(record.spec.shape.depth == beside for record in stopped)

    standings = {standing.depth: standing for standing in depth_standings(stopped, settled)}

    assert not standings[beside].ruled_out
    assert standings[beside].why.startswith("no final loss: stopped at")


@pytest.mark.parametrize("kind", [Kind.INSUFFICIENT, Kind.UNFINISHED])
def test_nothing_is_ruled_out_before_an_answer(kind: Kind, study: Records, optima: Optima) -> None:
    open_yet = replace(optima[0], verdict=verdict(kind))
    standings = depth_standings(of_budget(study, BUDGETS[0]), open_yet)
    assert not any(standing.ruled_out for standing in standings)
    assert ruled_out_text(standings) == ""
