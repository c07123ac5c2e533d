"""Settings that vary: decided by the table, said by the question, or refused."""

from dataclasses import replace

import numpy as np
import pytest

from fathom.search.analysis.answer.verdict import Confounded, Kind
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.read import open_text
from fathom.search.words import table_reason
from tests.support.places import SHARED_DATA
from tests.support.tables import BEST, DEPTHS, planted_loss

LADDERS = SHARED_DATA / "published_ladders"
ASKED = TableQuestion()
Row = dict[str, object]


def answered(rows: list[Row], question: TableQuestion = ASKED) -> Analysis:
    return analyse_table(rows_of("t", rows), {}, question)


def kinds(analysis: Analysis) -> list[Kind]:
    return [optimum.kind for found in analysis.findings for optimum in found.optima]


def finals(**settings: object) -> list[Row]:
    """Three seeds of each depth, at settings that are a value or a function of the depth."""
    return [
        {"depth": depth, "params": 1e7, "loss": planted_loss(depth), "seed": seed}
        | {name: value(depth) if callable(value) else value for name, value in settings.items()}
        for depth in DEPTHS
        for seed in range(3)
    ]


def test_a_setting_that_goes_with_depth_is_refused_with_the_flag_that_helps() -> None:
    with pytest.raises(TableError) as error:
        answered(finals(batch=lambda depth: 16 if depth > 8 else 64))

    text = str(error.value)
    assert text.startswith("t: at about 10M, batch goes with depth (16 at 16, 32; 64 at 2, 4, 8); ")
    assert "; hold it with --where batch=64, or" in text
    assert "\n" not in text


def test_a_setting_that_is_held_has_an_answer() -> None:
    rows = finals(batch=lambda depth: 16 if depth > 16 else 64)
    found = answered(rows, replace(ASKED, where={"batch": "64.0"}))

    assert {record.spec.shape.depth for record in found.findings[0].records} == {2, 4, 8, 16}
    assert kinds(found) == [Kind.IDENTIFIED]
    with pytest.raises(TableError, match="`--where batch` must be a value of rows of t, got '8'"):
        answered(rows, replace(ASKED, where={"batch": "8"}))


def test_names_of_rows_that_are_left_out_make_no_setting_of_a_name() -> None:
    rows = finals(batch=64, model=lambda depth: f"m{depth * 7919}")
    rows.append(rows[0] | {"batch": 16, "model": "another", "depth": 64})

    assert kinds(answered(rows, replace(ASKED, where={"batch": "64"}))) == [Kind.IDENTIFIED]


def test_choosing_over_a_setting_that_goes_with_depth_identifies_nothing() -> None:
    rows = finals(batch=lambda depth: 16 if depth > 8 else 64)
    [optimum] = answered(rows, replace(ASKED, best_of=("batch",))).findings[0].optima

    assert isinstance(optimum.verdict.cause, Confounded)
    assert table_reason(optimum.verdict) == (
        "batch goes with depth (16 at 16, 32; 64 at 2, 4, 8), so depth can't be told from it; "
        "train these depths at one value of batch"
    )


def test_a_setting_of_which_each_shape_has_every_value_is_chosen_over() -> None:
    rows = [row | {"decay": 0.1} for row in finals()]
    rows += [
        row | {"decay": 0.4, "loss": planted_loss(int(str(row["depth"]))) + 0.2} for row in rows
    ]
    found = answered(rows)

    assert kinds(found) == [Kind.IDENTIFIED]
    assert "of decay the best value counts, since every shape has all values" in found.notes
    assert found.findings[0].optima[0].noise < 0.01


def test_a_family_of_which_each_shape_has_every_one_has_answers_of_its_own() -> None:
    rows = [row | {"family": "a"} for row in finals()]
    rows += [
        row | {"family": "b", "loss": planted_loss(int(str(row["depth"])), best=12)} for row in rows
    ]
    found = answered(rows)

    assert [part.title for part in found.findings] == ["t, family=a", "t, family=b"]
    depths = [part.optima[0].optimal_depth for part in found.findings]
    assert depths[0] in (BEST - 1, BEST, BEST + 1)
    assert depths[1] in range(10, 15)
    told = answered(rows, replace(ASKED, by=("family",)))
    assert [part.optima[0].optimal_depth for part in told.findings] == depths


def test_a_value_that_every_shape_has_alone_is_held() -> None:
    rows = finals(dropout=0.0)
    rows.append(rows[0] | {"dropout": 0.1, "loss": 2.0, "seed": 9})
    found = answered(rows)

    assert "held at dropout=0, the only value that every shape has" in found.notes
    assert kinds(found) == [Kind.IDENTIFIED]


def test_what_goes_with_the_size_or_the_width_is_no_confound() -> None:
    wide = {2: 640, 4: 448, 8: 320, 16: 256, 32: 192}
    rows = finals(
        d_model=lambda depth: wide[depth],
        n_heads=lambda depth: wide[depth] // 64,
        warmup_steps=lambda depth: 1000 + depth,
        runtime=lambda depth: 60 * depth,
        gpu=lambda depth: "A100" if depth > 4 else "H100",
    )

    assert kinds(answered(rows)) == [Kind.IDENTIFIED]


HOSTS = {"gpu-a": 0.03, "gpu-b": 0.0, "gpu-c": 0.012}
"""Place of a training -> nats that it moves the loss by."""


def on_hosts(column: str, *, seeds: bool, moved: float = 1.0) -> list[Row]:
    """Runs of each depth on every host, with a seed each or all with one."""
    noise = np.random.default_rng(3)
    return [
        row
        | {column: host, "seed": row["seed"] if seeds else 1337}
        | {"loss": planted_loss(int(str(row["depth"]))) + moved * by + noise.normal(0, 0.0015)}
        for row in finals()
        for host, by in HOSTS.items()
    ]


@pytest.mark.parametrize("column", ["provider", "host", "gpu", "hostname", "user"])
def test_a_place_that_moves_the_loss_is_a_setting_and_no_seed(column: str) -> None:
    analysis = answered(on_hosts(column, seeds=True))

    assert [found.part for found in analysis.findings] == [{column: host} for host in HOSTS]
    assert kinds(analysis) == [Kind.IDENTIFIED] * 3


def test_places_of_one_seed_are_no_repeats_of_it() -> None:
    rows = [row for number, row in enumerate(on_hosts("gpu", seeds=False)) if number % 9 < 3]

    assert kinds(answered(rows)) == [Kind.INSUFFICIENT] * 3


def test_a_place_that_does_not_move_the_loss_is_a_name() -> None:
    analysis = answered(on_hosts("host", seeds=True, moved=0.0))

    assert kinds(analysis) == [Kind.IDENTIFIED]
    assert "taken for names and results, not for settings: host" in analysis.notes


def test_heads_that_do_not_follow_the_width_are_a_setting() -> None:
    wide = {2: 640, 4: 448, 8: 320, 16: 256, 32: 192}
    heads = {2: 2, 4: 2, 8: 4, 16: 8, 32: 16}
    rows = finals(d_model=lambda depth: wide[depth], n_heads=lambda depth: heads[depth])

    with pytest.raises(TableError, match="n_heads goes with depth"):
        answered(rows)


def test_final_losses_at_tokens_that_go_with_depth_are_refused() -> None:
    with pytest.raises(TableError, match="tokens goes with depth"):
        answered(finals(tokens=lambda depth: 1e9 * (1 + 0.005 * depth)))
    assert kinds(answered(finals(tokens=lambda depth: 1e9))) == [Kind.IDENTIFIED]


def test_learning_rates_of_one_shape_each_are_refused_unless_they_were_bracketed() -> None:
    def swept(best: float) -> list[Row]:
        return [
            row | {"lr": best * factor, "loss": loss + 0.03 * abs(np.log(factor))}
            for row in finals()
            for loss in [float(str(row["loss"]))]
            for factor in (0.5, 1.0, 2.0)
        ]

    with pytest.raises(TableError, match="lr goes with depth"):
        answered(finals(lr=lambda depth: 1e-3 / depth))
    rows = [row | {"lr": float(str(row["lr"])) / int(str(row["depth"])) ** 2} for row in swept(1.0)]
    assert kinds(answered(rows)) == [Kind.IDENTIFIED]


def test_the_best_of_rates_that_one_shape_lacks_counts_if_it_is_said() -> None:
    rows = [
        row | {"lr": rate, "loss": float(str(row["loss"])) + 0.02 * abs(rate - 1)}
        for row in finals()
        for rate in ((0.5, 1.0, 2.0) if row["depth"] != 2 else (1.0,))
    ]
    found = answered(rows, replace(ASKED, best_of=("lr",)))

    assert not [note for note in found.notes if note.startswith("held at")]
    assert {record.spec.rate_scale for record in found.findings[0].records} == {1.0}
    assert kinds(found) == [Kind.IDENTIFIED]


def test_without_a_column_of_seeds_nothing_is_called_noise() -> None:
    rows = [{name: value for name, value in row.items() if name != "seed"} for row in finals()]
    named = [row | {"name": f"run-{index}"} for index, row in enumerate(rows)]

    assert kinds(answered(rows)) == [Kind.IDENTIFIED], "they differ in nothing but the loss"
    assert "counted as other seeds" in " ".join(answered(rows).notes)
    assert kinds(answered(named)) == [Kind.INSUFFICIENT]
    assert "--map COLUMN=seed" in " ".join(answered(named).notes)
    empty = [row | {"seed": ""} for row in named]
    assert kinds(answered(empty)) == [Kind.INSUFFICIENT]


@pytest.mark.skipif(not LADDERS.exists(), reason="needs the published ladders")
class TestPublishedLadders:
    @staticmethod
    def of(name: str, question: TableQuestion) -> Analysis:
        with open_text(LADDERS / name) as table:
            return analyse_table(table, {}, question)

    def test_open_lm_is_refused_and_identifies_nothing_by_its_batch(self) -> None:
        asked = TableQuestion(budgets=(41_000_000,), best_of=("n_heads", "warmup_steps"))

        with pytest.raises(TableError, match="--best-of"):
            self.of("openlm_grid.csv", TableQuestion())
        with pytest.raises(TableError, match="batch_field goes with depth"):
            self.of("openlm_grid.csv", asked)
        best = replace(asked, best_of=(*asked.best_of, "batch_field"))
        for question in (best, replace(best, noise=0.003)):
            assert kinds(self.of("openlm_grid.csv", question)) == [Kind.INSUFFICIENT]

    @pytest.mark.parametrize("noise", [0.002, 0.005, 0.01])
    def test_open_lm_at_124m_rules_out_none_of_its_depths(self, noise: float) -> None:
        asked = TableQuestion(
            budgets=(124_000_000,), width=0.02, best_of=("n_heads", "warmup_steps"), noise=noise
        )
        [stated] = self.of("openlm_grid.csv", asked).findings[0].optima
        [unknown] = self.of("openlm_grid.csv", replace(asked, noise=None)).findings[0].optima

        assert {12, 16, 24} <= set(stated.plateau)
        assert unknown.kind is Kind.INSUFFICIENT

    def test_qlabs_falls_to_its_deepest_at_the_best_decay(self) -> None:
        with pytest.raises(TableError, match="--best-of weight_decay"):
            self.of("qlabs_loops.csv", TableQuestion())
        found = self.of("qlabs_loops.csv", TableQuestion(best_of=("weight_decay",)))

        depths = [len(optimum.depths) for optimum in found.findings[0].optima]
        edges = [optimum.kind is Kind.EDGE for optimum in found.findings[0].optima]
        assert depths == [5, 7, 7, 7, 6, 3]
        assert all(edges)
