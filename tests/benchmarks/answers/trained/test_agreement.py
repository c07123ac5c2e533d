"""The table that holds a search against its ladder: `benchmarks/answers/trained/agreement.py`."""

from benchmarks.answers.trained.agreement import read_ladder, row_of, standard_error
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Located
from tests.support.places import ROOT
from tests.support.simulated import simulated_study

KEPT = ROOT / "benchmarks" / "data" / "quickstart_ladder.jsonl"


def ladder(budget: int, best: int) -> list[dict[str, float]]:
    return [
        {"budget": budget, "depth": depth, "loss": 2 + 0.1 * abs(depth - best) + 0.01 * seed}
        for depth in range(1, 9)
        for seed in range(3)
    ]


def test_a_ladder_whose_best_depth_is_inside_the_interval_agrees() -> None:
    optimum = find_optima(simulated_study(), seed=0)[0]
    assert isinstance(optimum, Located)
    inside, outside = optimum.interval[0], optimum.interval[1] + 3
    assert row_of(optimum, ladder(optimum.budget, inside))[-1] == "yes"
    assert row_of(optimum, ladder(optimum.budget, outside))[-1] == "no"


def test_the_standard_error_is_that_of_a_mean_of_three_seeds() -> None:
    losses = {1: [1.0, 1.1, 1.2], 2: [2.0, 2.1, 2.2]}
    assert abs(standard_error(losses) - 0.1 / 3**0.5) < 1e-12


def test_the_kept_ladder_has_every_depth_of_every_budget() -> None:
    kept = read_ladder(KEPT)
    for budget, missing in ((10_000, {7}), (20_000, set()), (40_000, set())):
        depths = {row["depth"] for row in kept if row["budget"] == budget}
        assert depths == set(range(1, 9)) - missing
