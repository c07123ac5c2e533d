"""The best size at an equal amount, with a planted best one."""

from collections.abc import Iterator
from dataclasses import replace
from math import log

import numpy as np
import pytest

from fathom.models.spend import Coin
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.contract.table_answers import table_reply
from fathom.search.report.words.sizes import size_lines
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion

Row = dict[str, object]
ASKED = TableQuestion()
BEST_SIZE, BEST_DEPTH = 3e7, 7
SHAPES = ((4, 256), (6, 384), (8, 512), (10, 640), (12, 768), (16, 1024))


def size_of(depth: int, width: int) -> int:
    return 12 * depth * width**2


def by_rule(flops: float, best: float, seeds: int = 3) -> Iterator[Row]:
    """Runs whose width goes with their depth."""
    noise = np.random.default_rng(0)
    for depth, width in SHAPES:
        size = size_of(depth, width)
        for seed in range(seeds):
            loss = 3 + 0.02 * log(size / best) ** 2 + noise.normal(0, 0.002)
            yield {"n_layer": depth, "d_model": width, "params": size, "flops": flops,
                   "seed": seed, "loss": loss}  # fmt: skip


def grid() -> Iterator[Row]:
    """Runs of every depth at every width."""
    noise = np.random.default_rng(1)
    for depth in (2, 4, 6, 8, 12, 16):
        for width in (256, 384, 512, 768):
            size = size_of(depth, width)
            for seed in range(2):
                loss = 3 + 0.01 * log(size / BEST_SIZE) ** 2 + 0.04 * log(depth / BEST_DEPTH) ** 2
                yield {"n_layer": depth, "d_model": width, "params": size, "seed": seed,
                       "wall_seconds": 300 + noise.uniform(),
                       "loss": loss + noise.normal(0, 0.002)}  # fmt: skip


def answered(rows: Iterator[Row] | list[Row], question: TableQuestion = ASKED) -> Analysis:
    return analyse_table(rows_of("t", list(rows)), {}, question)


def test_each_amount_of_compute_has_its_best_size_and_no_depth_where_width_goes_with_it() -> None:
    rows = [*by_rule(1e18, BEST_SIZE), *by_rule(1e19, 3 * BEST_SIZE)]
    analysis = answered(rows)

    found = [size for _, size in analysis.sizes]
    assert [each.spend.amount for each in found] == [1e18, 1e19]
    for each, best in zip(found, (BEST_SIZE, 3 * BEST_SIZE), strict=True):
        assert each.verdict.kind is Kind.IDENTIFIED
        assert each.size == pytest.approx(best, rel=0.15)
        assert each.interval
        assert each.interval[0] * 0.9 <= best <= each.interval[1] * 1.1
    assert not any(findings.optima for findings in analysis.findings)
    assert any("depth is not shown apart from size" in note for note in analysis.notes)
    text = " ".join(line for part, size in analysis.sizes for line in size_lines(size, part))
    assert "half" not in text
    assert "instead of" in text

    reply = table_reply(analysis, "")
    assert (len(reply.sizes), reply.answers) == (2, ())
    assert len(reply.sizes[0].costs) == 2


def test_a_grid_at_equal_seconds_has_a_size_and_a_depth() -> None:
    analysis = answered(grid())

    [(_, size)] = analysis.sizes
    [depth] = analysis.optima
    assert size.spend.coin is Coin.SECONDS
    assert size.plateau
    assert size.plateau[0] <= BEST_SIZE <= size.plateau[1]
    assert depth.interval
    assert depth.interval[0] <= BEST_DEPTH <= depth.interval[1]
    assert depth.kind in (Kind.IDENTIFIED, Kind.PLATEAU)
    assert table_reply(analysis, "").answers[0].next == ()


def test_shapes_of_which_no_two_have_one_size_show_a_depth_unless_it_follows_from_size() -> None:
    draws = np.random.default_rng(2)
    rows: list[Row] = []
    for _ in range(40):
        depth, width = int(draws.integers(2, 17)), 64 * int(draws.integers(3, 15))
        size = size_of(depth, width)
        loss = 3 + 0.01 * log(size / BEST_SIZE) ** 2 + 0.04 * log(depth / BEST_DEPTH) ** 2
        rows += [
            {"n_layer": depth, "d_model": width, "params": size * (1 + 1e-6 * len(rows)),
             "seed": seed, "flops": 1e18, "loss": loss + draws.normal(0, 0.002)}
            for seed in range(2)
        ]  # fmt: skip
    [depths] = answered(rows).optima

    assert depths.interval
    assert depths.interval[0] <= BEST_DEPTH <= depths.interval[1]


def test_few_shapes_of_which_no_two_have_one_size_show_no_depth() -> None:
    rows: list[Row] = [
        {"n_layer": depth, "d_model": width, "params": size_of(depth, width), "seed": seed,
         "flops": 1e18, "loss": 3 + abs(depth - 8) / 10 + seed / 1000}
        for depth, width in ((2, 512), (4, 1024), (8, 320), (12, 768), (16, 384))
        for seed in range(2)
    ]  # fmt: skip

    assert not answered(rows).optima


def test_without_repeats_no_size_is_settled() -> None:
    [(_, size)] = answered(by_rule(1e18, BEST_SIZE, seeds=1)).sizes

    assert size.verdict.kind is Kind.INSUFFICIENT


def test_the_best_size_at_an_end_is_an_edge() -> None:
    [(_, size)] = answered(by_rule(1e18, 1e10)).sizes

    assert size.verdict.kind is Kind.EDGE


def test_a_setting_that_differs_within_a_size_must_be_decided() -> None:
    rows = [
        row | {"lr": rate, "batch_size": batch}
        for number, row in enumerate(by_rule(1e18, BEST_SIZE))
        for rate, batch in ((0.001, 32), (0.002, 64 + number // 9))
    ]
    with pytest.raises(TableError, match="--best-of batch_size") as error:
        answered(rows)
    assert len(str(error.value)) <= 300
    assert answered(rows, replace(ASKED, best_of=("batch_size",))).sizes


def test_loops_are_of_a_shape_so_that_the_best_of_a_size_counts() -> None:
    """Seconds agree within 2 %, and only some sizes have loops, as in parameter-golf."""
    rows = [
        row | {"flops": None, "loops": "", "seconds": 609 + 2 * number / 3}
        for number, row in enumerate(by_rule(1e18, 1e10))
    ]
    looped = {**rows[3], "loops": 2, "loss": 5.0}
    analysis = answered([*rows, looped])

    [(_, size)] = analysis.sizes
    assert size.verdict.kind is Kind.EDGE
    assert any("one depth (16 at 201M, which has the lowest" in note for note in analysis.notes)


def test_what_no_column_says_is_refused() -> None:
    with pytest.raises(TableError, match="3 sizes or more at an equal number of seconds") as error:
        answered(by_rule(1e18, BEST_SIZE), replace(ASKED, at=Coin.SECONDS))
    assert len(str(error.value)) <= 300


def test_a_ratio_of_width_to_depth_says_the_size() -> None:
    rows = [
        {k: v for k, v in row.items() if k not in ("params", "d_model")} | {"ASPECT_RATIO": 64}
        for row in by_rule(1e18, BEST_SIZE)
    ]
    analysis = answered(rows)

    assert analysis.sizes[0][1].size == pytest.approx(BEST_SIZE, rel=0.15)
    assert any("with d_model as depth ASPECT_RATIO" in note for note in analysis.notes)
