"""Losses of other units, and quantities of which more is better."""

from dataclasses import replace
from math import log

import pytest

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.contract.table_answers import table_reply
from fathom.search.report.words.other_depths import other_depths
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.columns.columns import choose_columns
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion
from tests.support.tables import DEPTHS, planted_loss

ASKED = TableQuestion()
Row = dict[str, float]
NATS: list[Row] = [
    {"depth": depth, "params": 1e7, "loss": planted_loss(depth), "seed": seed}
    for depth in DEPTHS
    for seed in range(3)
]


def renamed(name: str, factor: float, zero: float = 0.0) -> list[Row]:
    """The planted losses in another unit, under another name."""
    return [
        {**{k: v for k, v in row.items() if k != "loss"}, name: zero + factor * row["loss"]}
        for row in NATS
    ]


def answered(
    rows: list[Row], question: TableQuestion = ASKED, **told: str
) -> tuple[Analysis, Optimum]:
    analysis = analyse_table(rows_of("t", [*map(dict, rows)]), told, question)
    return analysis, analysis.optima[0]


def test_bits_have_the_answer_of_nats_in_their_own_unit() -> None:
    _, nats = answered(NATS)
    analysis, bits = answered(renamed("val_bpc", 1 / log(2)))

    assert (bits.optimal_depth, bits.interval, bits.kind) == (
        nats.optimal_depth, nats.interval, nats.kind,
    )  # fmt: skip
    assert bits.noise == pytest.approx(nats.noise)
    said = [*analysis.notes, other_depths(analysis.findings[0], bits)]
    assert "0.0072 bits per character" in analysis.notes[1]
    assert "bits per character [" in said[-1]

    [answer] = table_reply(analysis, "").answers
    assert answer.answer
    assert answer.answer.loss == pytest.approx((nats.loss or 0) / log(2))
    assert answer.costs[0].cost == pytest.approx(answer.costs[0].nats / log(2))


def test_tokens_of_a_byte_make_nats_a_token_which_depths_are_told_apart_by() -> None:
    rows = renamed("val_bpb", 0.25 / log(2))
    _, plain = answered(rows, replace(ASKED, tokens_per_byte=1.0))
    analysis, token = answered(rows)
    _, nats = answered(NATS)

    assert (token.plateau, token.interval) == (nats.plateau, nats.interval)
    assert set(token.plateau) < set(plain.plateau)
    assert "at 0.25 tokens each; --tokens-per-byte says otherwise" in analysis.notes[1]


def test_a_stated_unit_and_noise_are_read_before_the_name() -> None:
    question = replace(ASKED, unit="bits_per_character", noise=0.01)
    _, stated = answered(NATS, question)

    assert stated.unit.name == "bits per character"
    assert stated.noise == pytest.approx(0.01 * log(2))


@pytest.mark.parametrize("scale", [0.01, 10.0])
def test_a_quantity_to_maximise_is_answered_by_what_its_noise_allows(scale: float) -> None:
    rows = renamed("val_acc", -scale, 100)
    question = replace(ASKED, maximise=True)
    analysis, found = answered(rows, question, val_acc="loss")
    _, nats = answered(NATS)

    assert found.optimal_depth == nats.optimal_depth
    assert found.kind in (Kind.IDENTIFIED, Kind.PLATEAU)
    best = max(row["val_acc"] for row in rows)
    assert found.loss is not None
    assert found.unit.value(found.loss) == pytest.approx(best, abs=0.05 * scale)
    assert any("val_acc is maximised" in note for note in analysis.notes)


@pytest.mark.parametrize(
    ("name", "maximise", "message"),
    [
        ("val_acc", False, "whose name says that more is better; add --maximise"),
        ("val_loss", True, "`--maximise` needs a column in which more is better"),
    ],
)
def test_a_name_that_says_otherwise_is_refused_with_the_flag(
    name: str, maximise: bool, message: str
) -> None:
    question = replace(ASKED, maximise=maximise)
    with pytest.raises(TableError, match=message) as error:
        answered(renamed(name, 1), question, **{name: "loss"})
    assert len(str(error.value)) <= 300


def test_a_column_of_a_study_that_maximises_is_known() -> None:
    table = replace(rows_of("t", renamed("value", -1, 100)), maximised="value")
    [found] = analyse_table(table, {}, ASKED).optima

    assert found.unit.zero is not None


def test_held_out_nats_come_before_bits_and_bits_before_training() -> None:
    def loss(*names: str) -> str:
        return choose_columns(["depth", "params", *names], {}, "t").taken["loss"]

    assert loss("val_bpb", "val_loss") == "val_loss"
    assert loss("train_loss", "val_bpb") == "val_bpb"
    assert loss("fp_val_bpb_final", "train_bpb") == "fp_val_bpb_final"
