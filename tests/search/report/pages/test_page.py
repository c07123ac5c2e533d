"""The facts of the page: `search/report/pages/page.py`."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

from fathom.models.shape import Count
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.records import Stage
from fathom.search.report.pages.page import TEMPLATES, provenance
from tests.support.reporting import BUDGETS, Records, conclusion_of, of_budget


def test_the_page_says_the_command_that_made_it(study: Records) -> None:
    facts = provenance(conclusion_of(of_budget(study, BUDGETS[0])))
    assert facts["Command"] == "fathom run simulated.yaml, with the study file on the card"


def test_the_horizon_of_a_budget_of_seconds_names_them(study: Records) -> None:
    found = conclusion_of(of_budget(study, BUDGETS[0]))
    timed = replace(found.optima[0], budget=12, count=Count.TRAIN_SECONDS)
    assert provenance(replace(found, optima=(timed,)))["Horizon"].endswith(" at 12 seconds")


def test_the_page_has_a_term_for_every_verdict_of_a_budget() -> None:
    of_no_budget = {Kind.BY_LAW, Kind.NO_ANSWER, Kind.PLANNED}
    terms = (TEMPLATES / "terms.html").read_text(encoding="utf-8")
    assert all(f'id="verdict-{kind}"' in terms for kind in Kind if kind not in of_no_budget)


def test_a_checkout_that_is_not_installed_has_a_page(
    study: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("fathom.search.version.version", none)
    assert "fathom-depth not installed" in provenance(conclusion_of(study))["Versions"]


def test_seeds_are_said_as_a_range_only_where_there_are_several(study: Records) -> None:
    records = of_budget(study, BUDGETS[0])
    several = provenance(conclusion_of(records))["Seeds, explore"]
    assert "different, " in several
    one = [
        replace(record, spec=replace(record.spec, seed=7))
        for record in records
        if record.spec.stage is Stage.EXPLORE
    ]
    facts = provenance(conclusion_of(one))
    assert (facts["Seeds, explore"], facts["Seeds, confirm"]) == ("7", "")
