"""A smaller `python -m benchmarks.answers.planted.coverage`: searches in worlds with an answer."""

import pytest
from scipy.stats import binom

from benchmarks.answers.planted.coverage import (
    CASES,
    covers_exactly,
    figures_of,
    nearly_best,
    row,
    studies,
)
from benchmarks.pages import measured
from fathom.search.analysis.answer.verdict import Kind

ONE_MINIMUM = [name for name, (_, verdict, _) in CASES.items() if verdict is Kind.IDENTIFIED]
NO_OPTIMUM = (
    "starved",
    *(
        pytest.param(name, marks=pytest.mark.drill)
        for name in ("flat", "deeper is better", "shallower is better")
    ),
)


def at_least(share: float, count: int) -> int:
    """Fewest of so many answers that are right but once in 10,000, if this share of all is."""
    return int(binom.ppf(1e-4, count, share))


@pytest.mark.drill
def test_identified_answers_are_covered_and_nearly_best() -> None:
    """The bounds are binomial: of all searches 9 in 10 identify, cover exactly and are near."""
    found = [pair for name in ONE_MINIMUM for pair in studies(name, range(2))]
    identified = [(p, o) for p, o in found if o.kind is Kind.IDENTIFIED]
    assert len(identified) >= at_least(0.9, len(found))
    fewest = at_least(0.9, len(identified))
    assert sum(covers_exactly(p, o) for p, o in identified) >= fewest
    assert sum(nearly_best(p, o) for p, o in identified) >= fewest


@pytest.mark.parametrize("name", NO_OPTIMUM)
def test_the_verdict_shows_that_there_is_no_optimum(name: str) -> None:
    found = studies(name, range(3))
    right = sum(optimum.kind is CASES[name][1] for _, optimum in found)
    assert right >= 2, row(name, found)


def test_the_figures_of_the_pages_count_the_answers() -> None:
    found = {name: studies(name, range(1)) for name in ("symmetric", "wide notch")}

    figures = figures_of(found)

    assert figures["one_minimum"] == (1, "answers")
    identified = sum(o.kind is Kind.IDENTIFIED for _, o in found["wide notch"])
    assert figures["others_identified"] == (identified, "answers")
    assert figures["wide_notch_wrong"][1] == "worlds of 1"
    assert set(measured("coverage")["figures"]) == set(figures_of({name: [] for name in CASES})), (
        "what the pages show can be written anew"
    )
