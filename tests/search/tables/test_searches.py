"""Tables of searches: every setting was drawn, and a model of all of them compares the depths."""

import numpy as np
import pytest

from fathom.models.shape import Count
from fathom.search.analysis.answer.verdict import Confounded, Kind
from fathom.search.contract.table_answers import table_of
from fathom.search.report.words.analysed import noise_text
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.read import open_text
from tests.support.drawn_tables import BEST, DEPTHS, Row, drawn
from tests.support.places import ROOT
from tests.support.tables import planted_loss

CASES = ROOT.parent / "shared" / "cases" / "41-hpo-table-random-settings"


def answered(rows: list[Row]) -> Analysis:
    return analyse_table(rows_of("t", rows), {}, TableQuestion())


def test_depth_is_read_with_the_other_settings_at_their_best() -> None:
    analysis = answered(drawn())
    [optimum] = analysis.optima

    assert optimum.kind.settled
    assert optimum.optimal_depth in (6, 7, 8)
    assert BEST in optimum.plateau
    assert optimum.budget == 10_000_000
    assert [it.setting for it in analysis.importances][:2] == ["learning_rate", "depth"]
    assert analysis.importances[-1].nats < 0.01
    assert any("depends on no other setting" in note for note in analysis.notes)


def test_a_setting_on_which_the_best_depth_depends_is_named_with_both_depths() -> None:
    analysis = answered(drawn(shift=0.8))

    [(low, shallow), (high, deep)] = next(
        it.best_depths for it in analysis.importances if it.setting == "learning_rate"
    )
    assert float(low) < float(high)
    assert shallow < deep
    assert any(
        note.startswith("the best depth depends on learning_rate (") for note in analysis.notes
    )


def test_a_depth_that_does_not_matter_is_not_called_settled() -> None:
    analysis = answered(drawn(depth_matters=0.0))
    [optimum] = analysis.optima

    assert optimum.kind is Kind.INSUFFICIENT
    assert "no effect of depth is shown" in analysis.findings[0].reason(optimum)
    assert len(optimum.plateau) > len(DEPTHS) / 2


def test_a_size_that_follows_from_depth_is_a_confound() -> None:
    [optimum] = answered(drawn(growth=1.0)).optima

    assert optimum.kind is Kind.INSUFFICIENT
    assert isinstance(optimum.verdict.cause, Confounded)
    assert optimum.verdict.cause.setting == "size"


def test_failed_runs_are_left_out_and_depths_that_failed_are_said() -> None:
    rows = drawn()
    for row in rows:
        row["loss"] = 1e9 if row["depth"] == 16 else row["loss"]
    analysis = answered(rows)
    failed = sum(row["depth"] == 16 for row in rows)

    assert analysis.optima[0].trials["diverged"] == failed
    assert 16 not in {estimate.depth for estimate in analysis.optima[0].depths}
    assert any(
        f"{failed} runs failed, in large part at depth 16" in note for note in analysis.notes
    )


def test_what_the_model_leaves_is_not_called_the_noise_of_seeds() -> None:
    analysis = answered(drawn())
    [found] = analysis.findings

    assert noise_text(found, found.optima[0], None).endswith("unexplained")
    assert found.offers(found.optima[0]) == ()


def test_programs_read_how_much_each_setting_matters() -> None:
    importances = table_of(answered(drawn(shift=0.8))).importances

    assert {it.setting for it in importances} == {
        "depth", "learning_rate", "weight_decay", "dropout", "optimizer",
    }  # fmt: skip
    assert importances[0].nats >= importances[-1].nats
    assert next(it for it in importances if it.setting == "optimizer").best == "muon"


def test_a_grid_is_no_search() -> None:
    rows: list[Row] = [
        {"depth": depth, "params": 1e7, "loss": 3 + rate + np.log(depth / BEST) ** 2 / 10}
        | {"lr": rate, "weight_decay": decay, "seed": seed}
        for depth in (2, 4, 8, 16)
        for rate in (0.01, 0.02)
        for decay in (0.1, 0.2)
        for seed in range(3)
    ]

    assert answered(rows).importances == ()


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases of other people are not here")
def test_a_design_over_two_sizes_whose_width_follows_from_depth_is_no_search() -> None:
    rows: list[Row] = [
        {"depth": depth, "params": size, "d": round((size / depth) ** 0.5), "variant": variant,
         "loss": planted_loss(int(depth)) - size / 1e9}
        for size in (10_000_000, 40_000_000) for depth in DEPTHS for variant in range(3)
    ]  # fmt: skip

    with pytest.raises(TableError, match="at about 10M, d goes with depth"):
        answered(rows)


def test_the_search_of_other_people_is_answered_by_its_settings_and_refused_without_them() -> None:
    with open_text(CASES / "tpe_nats.csv") as table:
        analysis = analyse_table(table, {}, TableQuestion(count=Count.NON_EMBEDDING))

    assert analysis.optima[0].optimal_depth in range(7, 11)
    assert {it.setting for it in analysis.importances} >= {"EMBEDDING_LR", "WARMDOWN_RATIO"}
    with open_text(CASES / "four_fields_only.csv") as table, pytest.raises(TableError):
        analyse_table(table, {}, TableQuestion())


def test_trials_that_were_stopped_count_by_their_last_loss_at_the_tokens_of_whole_ones() -> None:
    rows = drawn()
    kept = sorted(rows, key=lambda row: float(str(row["loss"])))[: len(rows) // 4]
    ids = {id(row) for row in kept}
    stopped = [
        row | {"tokens": 1e9} if id(row) in ids
        else row | {"tokens": 1e9 / 16, "loss": float(str(row["loss"])) + 0.5}
        for row in rows
    ]  # fmt: skip

    analysis = answered(stopped)

    [optimum] = analysis.optima
    assert optimum.tokens == 1e9
    assert BEST in optimum.plateau
    assert any("runs ended before 1B tokens" in note for note in analysis.notes)
