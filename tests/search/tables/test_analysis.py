"""Answers of tables with a planted best depth."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.records import Outcome
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.grouped.trials import full_horizon, loss_at
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.read import open_text
from fathom.search.words import table_reason
from tests.support.curves import run
from tests.support.places import SHARED_DATA
from tests.support.tables import BEST, DEPTHS, planted_loss

GEMSTONES = SHARED_DATA / "gemstones" / "curves.csv"
ASKED = TableQuestion()


def answered(rows: Sequence[dict[str, object]], question: TableQuestion = ASKED) -> Analysis:
    return analyse_table(rows_of("t", list(rows)), {}, question)


def finals(seeds: int = 3) -> list[dict[str, object]]:
    return [
        {"depth": depth, "params": 1e7, "loss": planted_loss(depth), "seed": seed}
        for depth in DEPTHS
        for seed in range(seeds)
    ]


def test_final_losses_with_seeds_have_an_answer() -> None:
    [found] = answered(finals()).findings
    [optimum] = found.optima

    assert optimum.kind is Kind.IDENTIFIED
    assert optimum.optimal_depth in (BEST - 1, BEST, BEST + 1)
    assert (optimum.budget, optimum.count) == (10_000_000, Count.TOTAL)
    assert optimum.spend.coin is Coin.UNKNOWN


def _without_loss(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != "loss"}


@pytest.mark.parametrize(
    ("name", "value"), [("val_ppl", np.exp), ("Perplexity", np.exp), ("log_perplexity", float)]
)
def test_perplexities_have_the_answer_of_their_logarithms(name: str, value: Any) -> None:
    losses = finals()
    analysis = answered([{name: value(row["loss"])} | _without_loss(row) for row in losses])
    [found], [expected] = analysis.optima, answered(losses).optima

    assert (found.kind, found.optimal_depth) == (expected.kind, expected.optimal_depth)
    assert found.loss == pytest.approx(expected.loss)
    assert any("the losses are the logarithms of" in note for note in analysis.notes) is (
        value is np.exp
    )


def test_a_perplexity_of_a_thousand_is_no_failed_run() -> None:
    rows = [
        {"ppl": np.exp(4 + planted_loss(int(str(row["depth"]))))} | _without_loss(row)
        for row in finals()
    ]
    [optimum] = answered(rows).optima

    assert rows[0]["ppl"] > 1000
    assert optimum.kind is Kind.IDENTIFIED


def test_with_one_seed_the_noise_is_unknown_unless_it_is_stated() -> None:
    [unknown] = answered(finals(seeds=1)).findings[0].optima
    [stated] = answered(finals(seeds=1), replace(ASKED, noise=0.003)).findings[0].optima

    assert unknown.kind is Kind.INSUFFICIENT
    assert table_reason(unknown.verdict).endswith("or state the noise with --noise")
    assert (stated.kind, stated.noise) == (Kind.IDENTIFIED, 0.003)


def test_seeds_that_are_copies_say_nothing_of_the_noise() -> None:
    rows = finals(seeds=1)
    copies = [row | {"seed": seed} for row in rows for seed in range(3)]
    [optimum] = answered(copies).findings[0].optima

    assert optimum.kind is Kind.INSUFFICIENT
    assert "no shape has two seeds whose losses differ" in table_reason(optimum.verdict)


def test_sizes_near_a_budget_are_corrected_by_the_gain_of_the_whole_table() -> None:
    sizes = np.exp(np.linspace(-0.09, 0.09, len(DEPTHS)))
    rows: list[dict[str, object]] = [
        {"depth": depth, "params": base * size, "loss": planted_loss(depth, base * size), "seed": s}
        for base in (1e7, 4e7)
        for depth, size in zip(DEPTHS, sizes, strict=True)
        for s in range(3)
    ]
    [found] = answered(rows).findings

    for optimum in found.optima:
        assert optimum.params_slope == pytest.approx(-0.3, abs=0.02)
        assert optimum.optimal_depth in (BEST - 1, BEST, BEST + 1)


def test_the_best_of_several_rates_counts() -> None:
    rows: list[dict[str, object]] = [
        {
            "depth": depth, "params": 1e7, "lr": 1e-3 * 2**octave, "seed": seed,
            "loss": planted_loss(depth) + 0.05 * (octave - (depth > 8)) ** 2,
        }
        for depth in DEPTHS
        for octave in (-1, 0, 1, 2)
        for seed in range(2)
    ]  # fmt: skip
    [optimum] = answered(rows).findings[0].optima

    assert optimum.optimal_depth in (BEST - 1, BEST, BEST + 1)


def test_each_horizon_is_a_question_of_its_own() -> None:
    rows: list[dict[str, object]] = [
        {"depth": d, "params": 1e7, "tokens": t, "seed": s, "loss": planted_loss(d, best=t / 100)}
        for d in DEPTHS
        for s in range(3)
        for t in (400, 600, 800, 1200)
    ]
    found = answered(rows, replace(ASKED, horizons=(Horizon(400), Horizon(1200)))).findings
    depths = [match.optima[0].optimal_depth or 0 for match in found]

    assert [match.optima[0].tokens for match in found] == [400, 1200]
    assert depths[0] in (3, 4, 5)
    assert depths[1] in (10, 11, 12, 13, 14)


def test_a_run_that_diverged_or_broke_off_has_no_loss_at_the_horizon() -> None:
    rows: list[dict[str, object]] = [
        {"depth": d, "params": 1e7, "tokens": t, "seed": s, "loss": planted_loss(d)}
        for d in DEPTHS
        for s in range(2)
        for t in (100, 200, 300, 400)
        if (d, s) != (2, 0) or t < 300
    ]
    rows.append({"depth": 32, "params": 1e7, "tokens": 500, "seed": 1, "loss": "nan"})
    [found] = answered(rows, replace(ASKED, horizons=(Horizon(400),))).findings
    outcomes = {(r.spec.shape.depth, r.spec.seed): r.outcome for r in found.records}

    assert outcomes[2, 0] is Outcome.STOPPED
    assert outcomes[32, 1] is Outcome.FINISHED
    assert found.optima[0].trials["stopped"] == 1


def test_spikes_and_gaps_do_not_move_a_loss() -> None:
    curve = replace(run(4), tokens=np.linspace(1, 100, 100), losses=np.linspace(5, 4, 100))
    curve.losses[79] = 9.0
    assert loss_at(curve, 80) == pytest.approx(4.2, abs=0.02)
    assert loss_at(curve, 101) is not None
    assert loss_at(curve, 120) is None
    sparse = replace(curve, tokens=curve.tokens[::33], losses=curve.losses[::33])
    assert loss_at(sparse, 50) == pytest.approx(4.5, abs=0.2)


def test_the_horizon_is_that_which_most_depths_reach() -> None:
    whole = [run(depth) for depth in (2, 4, 8, 16)]
    short = replace(whole[0], tokens=whole[0].tokens[:40], losses=whole[0].losses[:40])
    assert full_horizon([*whole[1:], short]) == whole[1].tokens[-1]
    assert full_horizon([whole[1], short]) == short.tokens[-1]


@pytest.mark.parametrize(
    ("rows", "question", "message"),
    [
        (finals(), TableQuestion(budgets=(5,)), "size of t within 10%, got 5; it has 10M"),
        (
            finals(),
            TableQuestion(horizons=(Horizon(5),)),
            "needs a column of tokens",
        ),
        (finals(), TableQuestion(count=Count.NON_EMBEDDING), "`--count` must be total"),
        (
            [{"depth": d, "params": 10.0**d, "loss": 3.0} for d in (4, 5, 6)],
            ASKED,
            "models of several depths at one size",
        ),
        (
            [{"depth": d, "params": 1e7, "tokens": 9, "loss": 3.0 + d} for d in (4, 5, 6)],
            TableQuestion(horizons=(Horizon(900),)),
            "`--horizon` must be tokens that the runs of a budget reach, 9, got 900",
        ),
    ],
)
def test_what_a_table_does_not_have_is_one_line(
    rows: list[dict[str, object]], question: TableQuestion, message: str
) -> None:
    with pytest.raises(TableError, match=message):
        answered(rows, question)


@pytest.mark.skipif(not GEMSTONES.exists(), reason="needs the Gemstones table")
@pytest.mark.parametrize(
    ("tokens", "parabola"), [(4e9, 18), (10e9, 25), (50e9, 31), (100e9, 34), (330e9, 36)]
)
def test_the_published_best_depths_of_gemstones_are_found(tokens: float, parabola: int) -> None:
    asked = replace(ASKED, budgets=(103_000_000,), width=0.08, noise=4e-3)
    question = replace(asked, horizons=(Horizon(int(tokens)),))
    with open_text(GEMSTONES) as table:
        [optimum] = analyse_table(table, {}, question).findings[0].optima
    assert optimum.curves is not None
    ends = np.log(optimum.depths[0].depth), np.log(optimum.depths[-1].depth)
    assert optimum.curves.parabola.lowest(ends) == pytest.approx(parabola, abs=2)
    if isinstance(optimum, Located):  # no curve fits the early losses
        assert optimum.interval[0] <= parabola <= optimum.interval[1]


def test_null_laws_know_the_embedding_where_sizes_count_it() -> None:
    def rows(inner: float) -> list[dict[str, object]]:
        return [
            {
                "depth": depth, "d_model": 64, "seed": seed, "loss": planted_loss(depth),
                "params_total": size, "params_non_embedding": inner * size,
            }
            for size in (1e6, 1e7, 1e8)
            for depth in DEPTHS
            for seed in range(3)
        ]  # fmt: skip

    [with_embedding], [without] = (answered(rows(inner)).findings for inner in (0.5, 1.0))

    assert "same aspect ratio" in {law.name for law in with_embedding.null_laws}
    assert "same aspect ratio" not in {law.name for law in without.null_laws}


def test_where_no_three_depths_share_a_size_no_setting_is_asked_for_and_a_width_is_named() -> None:
    rows: list[dict[str, object]] = [
        {"depth": depth, "params": 1e6 * (1 + depth / 40), "warmup": depth, "loss": 3 - depth / 100}
        for depth in (4, 8, 16)
    ]

    analysis = answered(rows)

    assert {optimum.kind for optimum in analysis.optima} == {Kind.INSUFFICIENT}
    assert "no three depths share a size; --width 0.15 compares depths 4, 8, 16" in analysis.notes


def test_models_of_several_sizes_that_spent_about_as_long_are_offered_a_comparison() -> None:
    rows: list[dict[str, object]] = [
        {"depth": depth, "params": 1e6 * depth, "wall_time": 600 + 4 * depth, "loss": 3.0}
        for depth in (3, 5, 8)
    ]

    with pytest.raises(TableError, match="widen --width; --at seconds compares any sizes"):
        answered(rows)
    with pytest.raises(TableError, match=r"or widen --width$"):
        answered([row | {"wall_time": 1.7e9} for row in rows])
    with pytest.raises(TableError, match=r"got depth 3 alone; add others$"):
        answered([row | {"depth": 3} for row in rows])


def test_of_curves_of_several_lengths_the_horizon_is_one_that_many_runs_reach() -> None:
    lengths = {2: (10, 10, 16), 4: (10, 10, 10), 8: (10, 10, 16), 16: (10, 10, 16)}
    runs = [
        run(depth, seed=seed, points=length)
        for depth, several in lengths.items() for seed, length in enumerate(several)
    ]  # fmt: skip

    assert full_horizon(runs) == 1000.0
