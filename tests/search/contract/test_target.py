"""The answer at a target: the same numbers in JSON, on the terminal and in the report."""

import html
import io
from pathlib import Path

import pytest
from rich.console import Console

from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.contract.studies import study_reply
from fathom.search.report.page import page
from fathom.search.report.terminal.answer_tables import print_conclusion
from fathom.search.report.text import target_text
from tests.support.contract import printed_values
from tests.support.target_ladder import config, run


@pytest.fixture(scope="module")
def conclusion(tmp_path_factory: pytest.TempPathFactory) -> Conclusion:
    """The conclusion of a ladder that may still buy trainings."""
    folder = tmp_path_factory.mktemp("ladder")
    search = run(folder, config(until_width=100))
    again = run(folder, config(until_width=1.8), events=0)
    return conclude(search.records, again.config, outlook=again.tell_target())


def test_the_answer_at_the_target_comes_after_those_of_the_budgets(conclusion: Conclusion) -> None:
    answer = printed_values(study_reply("report", conclusion, Path("run")))["answers"][-1]
    outlook = conclusion.outlook

    assert outlook is not None
    assert answer["question"]["budget"] == 1_000_000
    assert answer["verdict"]["kind"] == "by_law"
    assert answer["answer"]["depth"] == outlook.depth
    assert answer["answer"]["interval"] == list(outlook.interval or ())
    assert answer["answer"]["by_law"]["params_range"] == [20_000, 160_000]
    assert answer["answer"]["by_law"]["times_beyond"] == 6.25


def test_its_next_trainings_have_a_price_and_what_they_bring(conclusion: Conclusion) -> None:
    answer = printed_values(study_reply("report", conclusion, Path("run")))["answers"][-1]
    assert conclusion.outlook is not None
    offers = conclusion.outlook.offers

    assert offers
    for told, offer in zip(answer["next"], offers, strict=True):
        assert told["shape"]["depth"] == offer.shape.depth
        assert (told["seed"], told["tokens"]) == (offer.seed, offer.tokens)
        assert told["price"]["flops"] == offer.shape.train_flops_per_token * offer.tokens
        assert 0 < told["price"]["seconds"] < 3600
        assert told["brings"]["doubt_left"] == 1 - offer.gain
    values = answer["verdict"]["cause"]["values"]
    assert 1 < values["hour_width"] < values["width"]


def test_terminal_and_report_say_the_same(conclusion: Conclusion) -> None:
    assert conclusion.outlook is not None
    text = target_text(conclusion.outlook)
    printed = io.StringIO()
    print_conclusion(conclusion, Console(file=printed, width=100))

    assert text.startswith("At 1M the best depth is ")
    assert "Next is " in text
    assert " ".join(text.split()) in " ".join(printed.getvalue().split())
    assert text in html.unescape(page(conclusion, []))
