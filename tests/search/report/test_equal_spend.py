"""Answers at equal operations, seconds or tokens, as a person and a program read them."""

from pathlib import Path

import pytest

from fathom.search.analysis.equal_spend import Coin, NotRead, WhyNot
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.contract.studies import study_reply
from fathom.search.report.data import tables
from fathom.search.report.equal_spend import equal_notes, equal_rows, why_not_text
from fathom.search.report.page import page
from fathom.search.report.terminal.equal_spend import print_equal_spends
from fathom.search.study.keys.config import parse
from tests.support.contract import printed_values
from tests.support.reporting import printed, visible
from tests.support.surfaces import Surface

STUDY = "study: planted\nbudgets: [1M]\nobjective: {name: language, corpus: stdlib}\n"
COMMAND = (
    "study: planted\nbudgets: [1M]\nobjective: {name: external, vocabulary: 64, context: 64}\n"
    "train: {command: [python, train.py, '{depth}', '{d_model}', '{folder}']}\n"
)


def conclusion_of(surface: Surface, settings: str = "", **states: list[int]) -> Conclusion:
    return conclude(surface.records(), parse(STUDY + settings), unfinished=states.get("open", []))


@pytest.fixture(scope="module")
def found() -> Conclusion:
    return conclusion_of(Surface())


def test_a_row_of_each_comparison_stands_beside_the_answer_of_the_study(found: Conclusion) -> None:
    searched, flops, seconds = equal_rows(found)

    [optimum] = found.optima
    assert (searched["at"], searched["depth"]) == ("as searched", str(optimum.optimal_depth))
    assert (flops["at"], seconds["at"]) == ("equal FLOPs", "equal seconds")
    assert seconds["amount"] == "28.3 seconds"
    assert seconds["read from"] == "41 %"
    assert int(seconds["depth"]) < int(searched["depth"])
    for row in (searched, flops, seconds):
        assert row["budget"] == "1M"
        assert row["95 % interval"]
        assert row["verdict"]


def test_the_notes_say_that_rows_are_estimates_and_where_seconds_are_from(
    found: Conclusion,
) -> None:
    estimates, times = equal_notes(found)

    assert "are estimates from learning curves, without new training" in estimates
    assert times.startswith("Seconds are those of training steps on one GPU")
    assert "trials of a depth differ by up to 0 % (standard deviation)" in times


def test_the_page_and_the_terminal_have_the_table_and_its_notes(found: Conclusion) -> None:
    words = visible(page(found, []))
    assert "At equal operations and time" in words
    assert "Intervals allow for an error of 25 % of the difference" in words
    assert "equal seconds" in words

    lines = printed(lambda console: print_equal_spends(found, console))
    assert "Best depth at equal spending" in lines
    assert "equal FLOPs" in lines
    assert "Seconds are those of training steps on one GPU" in lines


def test_a_program_reads_the_same_answers(found: Conclusion) -> None:
    flops, seconds = printed_values(study_reply("report", found, Path("runs/planted")))[
        "equal_spending"
    ]
    rows = equal_rows(found)

    assert (flops["coin"], seconds["coin"]) == ("FLOPs", "seconds")
    assert [str(each["answer"]["depth"]) for each in (flops, seconds)] == [
        row["depth"] for row in rows[1:]
    ]
    assert (flops["device"], seconds["device"]) == (None, "one GPU")
    assert seconds["least_share"] == pytest.approx(6**-0.5)
    assert seconds["why_not"] == ""


def test_a_file_of_the_report_has_the_same_answers() -> None:
    flops, seconds = tables(conclusion_of(Surface(uneven=0.5)))["equal_spending"]

    assert (flops["coin"], seconds["coin"]) == (Coin.FLOPS, Coin.SECONDS)
    assert flops["interval_low"] <= flops["optimal_depth"] <= flops["interval_high"]
    assert (flops["why_not"], seconds["optimal_depth"]) == (None, None)
    assert seconds["why_not"] == WhyNot.UNEVEN_TIMES.value


def test_a_table_or_a_reply_of_another_command_has_none(found: Conclusion) -> None:
    assert not study_reply("analyse", found, Path("runs/planted")).equal_spending


def test_a_comparison_that_is_not_read_is_a_sentence_and_no_row() -> None:
    uneven = conclusion_of(Surface(uneven=0.5))

    assert [row["at"] for row in equal_rows(uneven)] == ["as searched", "equal FLOPs"]
    note = equal_notes(uneven)[-1]
    assert note.startswith("No answer at equal seconds for 1M: seconds of a token differ by ")
    assert note.endswith("with `resources.max_concurrent_trials: 1`.")
    stated = printed_values(study_reply("run", uneven, Path("runs/planted")))["equal_spending"][1]
    assert stated["answer"] is None
    assert stated["why_not"] in note


def test_a_rate_that_falls_from_the_start_leaves_sentences_alone() -> None:
    falling = conclusion_of(
        Surface(), "train: {cooldown: 0.9}\nstopping: {enabled: false}\nconfirm: {rates: [1]}\n"
    )

    assert not equal_rows(falling)
    flops, seconds = equal_notes(falling)
    assert "for 1M: the cool-down begins too early" in flops
    assert "use `train_flops`, or search with a lower `train.cooldown`" in flops
    assert "train_flops" not in seconds
    words = visible(page(falling, []))
    assert "No answer at equal FLOPs for 1M" in words
    assert "Intervals allow for" not in words


def test_a_training_command_and_a_pretraining_have_no_such_answer() -> None:
    records = Surface().records()
    command = conclude(records, parse(COMMAND))

    assert not equal_rows(command)
    assert all("`train.command`" in note for note in equal_notes(command))
    pretrained = why_not_text(NotRead(budget=1, coin=Coin.FLOPS, why=WhyNot.PRETRAINING))
    assert "`objective.pretraining`" in pretrained


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ("train: {patience: 3}\nstopping: {enabled: false}\n", "`train.patience`"),
        ("train: {auto_sizing: {strength: 0.1}}\n", "`train.auto_sizing`"),
    ],
)
def test_losses_that_are_not_those_of_the_end_of_an_equal_model_are_not_read(
    settings: str, key: str
) -> None:
    found = conclusion_of(Surface(), settings)

    assert not equal_rows(found)
    assert all(key in note for note in equal_notes(found))


def test_a_budget_whose_search_goes_on_is_not_read() -> None:
    assert not conclusion_of(Surface(), open=[1_000_000]).equal_spends


@pytest.mark.parametrize("why", WhyNot)
def test_every_refusal_names_what_is_in_the_way_and_what_helps(why: WhyNot) -> None:
    said = why_not_text(NotRead(budget=1, coin=Coin.SECONDS, why=why, depth=7, value=0.2))

    assert any(word in said for word in ("search ", "train each depth", "raise "))
    assert said[-1] != "."
