"""Why a depth is in or out: by what it costs, the interval and the plateau, in words."""

from dataclasses import replace

import pytest

from fathom.search.analysis.answer.definitions import Standing, depth_standings, not_ruled_out
from fathom.search.analysis.answer.optimum import DepthCost
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.records import Outcome
from fathom.search.report.words.depth_standing import hover_text, standing_text
from tests.support.optima import verdict
from tests.support.reporting import BUDGETS, Optima, Records, of_budget


def test_a_depth_is_ruled_out_if_it_finished_outside_the_interval_and_surely_costs_something(
    study: Records, optima: Optima
) -> None:
    seen = set[Standing]()
    for budget, optimum in zip(BUDGETS, optima, strict=True):
        of_these = of_budget(study, budget)
        low, high = optimum.interval
        costs = {cost.depth: cost for cost in optimum.costs}
        finished = {estimate.depth: estimate for estimate in optimum.depths}

        standings = depth_standings(of_these, optimum)

        tried = sorted({r.spec.shape.depth for r in of_these})
        assert [known.depth for known in standings] == tried
        for known in standings:
            seen.add(known.standing)
            inside = low <= known.depth <= high
            dear = known.depth in costs and costs[known.depth].interval[0] > 0
            possible = inside or known.depth in optimum.plateau
            out = known.depth in finished and dear and not possible
            assert (known.standing is Standing.RULED_OUT) is out, hover_text(known, optimum)
            assert standing_text(known, optimum).startswith("ruled out") is out
            named = known.standing in (Standing.ANSWER, Standing.NOT_RULED_OUT)
            assert named is (known.depth in not_ruled_out(optimum))
            assert known.estimate == finished.get(known.depth)
            assert known.cost == costs.get(known.depth)
            ended = [r for r in of_these if r.outcome is Outcome.FINISHED]
            assert known.finished == sum(r.spec.shape.depth == known.depth for r in ended)
    assert {Standing.ANSWER, Standing.RULED_OUT, Standing.NOT_FINISHED} <= seen


def test_a_depth_whose_cost_may_be_nothing_is_in_doubt(study: Records, optima: Optima) -> None:
    records, found = of_budget(study, BUDGETS[0]), optima[0]
    out = next(k for k in depth_standings(records, found) if k.standing is Standing.RULED_OUT)
    unsure = DepthCost(depth=out.depth, nats=0.0171, interval=(-0.0032, 0.0379))
    others = (cost for cost in found.costs if cost.depth != out.depth)
    optimum = replace(found, costs=(*others, unsure))

    [known] = [k for k in depth_standings(records, optimum) if k.depth == out.depth]

    assert standing_text(known, optimum) == "in doubt: it may cost nothing"
    assert hover_text(known, optimum).endswith("+0.0171 nats [-0.0032 to +0.0379]")


def test_a_depth_as_good_as_the_best_is_not_ruled_out(study: Records, optima: Optima) -> None:
    best = optima[0].optimal_depth
    assert best
    beside = next(estimate.depth for estimate in optima[0].depths if estimate.depth > best)
    optimum = replace(optima[0], interval=(best, best), plateau=(best, beside))

    found = depth_standings(of_budget(study, BUDGETS[0]), optimum)
    standings = {standing.depth: standing for standing in found}

    assert standings[beside].standing is Standing.NOT_RULED_OUT
    assert standing_text(standings[best], optimum) == "the best"


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

    assert standing_text(standings[beside], settled).startswith("no final loss: stopped at")


@pytest.mark.parametrize("kind", [Kind.INSUFFICIENT, Kind.UNFINISHED])
def test_nothing_is_ruled_out_before_an_answer(kind: Kind, study: Records, optima: Optima) -> None:
    open_yet = replace(optima[0], verdict=verdict(kind))
    standings = depth_standings(of_budget(study, BUDGETS[0]), open_yet)
    assert not any(known.standing is Standing.RULED_OUT for known in standings)
