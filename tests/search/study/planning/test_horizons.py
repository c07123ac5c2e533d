"""The studies of a study's horizons, and the settings that these have in common."""

import pytest

from fathom.search.study.file.study_file import dump, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import (
    constant_until,
    evaluation_steps,
    expand_budgets,
    horizon_budgets,
    rung_steps,
    warmup_steps,
)
from fathom.search.study.planning.horizons import (
    horizon_name,
    horizon_studies,
    parent_name,
    study_at,
)

STUDY = """
study: many
objective: {{name: language, context: 128}}
budgets: [300k, 1M]
horizons: {horizons}
{more}
"""


def study(horizons: str = "[5, 20, 80]", more: str = "") -> StudyConfig:
    return parse(STUDY.format(horizons=horizons, more=more))


def test_each_horizon_is_an_ordinary_study_that_is_read_back_as_it_is_written() -> None:
    studies = horizon_studies(study())

    assert [each.study for each in studies] == ["many-5", "many-20", "many-80"]
    assert [each.tokens_per_parameter for each in studies] == [5, 20, 80]
    assert not any(each.horizons for each in studies)
    assert [parse(dump(each)) for each in studies] == list(studies)
    assert parse(dump(study())) == study()
    assert {parent_name(each) for each in studies} == {"many"}


def test_horizons_may_be_tokens() -> None:
    studies = horizon_studies(study("[10M, 40000000]"))

    assert [each.tokens for each in studies] == [10_000_000, 40_000_000]
    assert [horizon_name(each) for each in studies] == ["10M", "40M"]
    assert study_at(study("[10M, 40M]"), "40m") == studies[1]


def test_a_horizon_that_a_study_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="the study's, 5, 20, 80, got '10'"):
        study_at(study(), "10")


def test_all_horizons_have_the_batch_and_the_warm_up_of_the_shortest() -> None:
    alone = parse(STUDY.format(horizons="null", more="tokens_per_parameter: 5"))
    for at, budget in enumerate(expand_budgets(alone)):
        found = [expand_budgets(each)[at] for each in horizon_studies(study())]
        warm = {warmup_steps(*pair) for pair in zip(horizon_studies(study()), found, strict=True)}

        assert {each.batch_size for each in found} == {budget.batch_size}
        assert warm == {warmup_steps(alone, budget)}
        assert horizon_budgets(horizon_studies(study())[1], found[1]) == tuple(found)
        assert found[0] == budget


def test_the_shortest_horizon_evaluates_and_compares_as_it_would_alone() -> None:
    alone = parse(STUDY.format(horizons="null", more="tokens_per_parameter: 5"))
    short, *_ = horizon_studies(study())
    for budget in expand_budgets(alone):
        assert evaluation_steps(short, budget) == evaluation_steps(alone, budget)
        assert rung_steps(short, budget) == rung_steps(alone, budget)
        assert constant_until(short.train, budget) == budget.steps - round(0.2 * budget.steps)
