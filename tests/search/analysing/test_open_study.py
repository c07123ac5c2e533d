"""The study that a table of runs leaves open."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.search.analysing.open_study import open_study
from fathom.search.cli import app
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion
from tests.support.tables import planted_loss


def rows(depths: tuple[int, ...], size: float) -> list[dict[str, object]]:
    return [
        {"depth": depth, "params": size, "loss": planted_loss(depth), "seed": seed}
        for depth in depths
        for seed in range(3)
    ]


def analysed(found: list[dict[str, object]]) -> Analysis:
    return analyse_table(rows_of("t", found), {}, TableQuestion())


def test_the_size_that_is_open_comes_before_larger_ones_that_are_settled() -> None:
    edge, whole = (1, 2, 3), (2, 4, 6, 8, 12, 16, 24)
    left = open_study(analysed([*rows(edge, 1e5), *rows(whole, 1e6)]))

    assert left.size == "100k"
    assert left.keys["count"] == "total"
    assert "edge; seeds differ by" in left.reason


def test_depths_reach_beyond_the_plateau() -> None:
    analysis = analysed(rows((2, 4, 6, 8, 12, 16, 24), 1e6))
    space = open_study(analysis).keys["space"]

    [optimum] = analysis.optima
    assert isinstance(space, dict)
    low, high = space["depth"]
    assert low < min(optimum.plateau) <= max(optimum.plateau) < high < 24


def test_init_writes_a_study_that_loads(tmp_path: Path) -> None:
    table, text, study = (tmp_path / name for name in ("runs.csv", "text.txt", "left.yaml"))
    lines = [",".join(map(str, row.values())) for row in rows((2, 4, 6, 8, 12, 16), 1e5)]
    table.write_text("\n".join(["depth,params,loss,seed", *lines]))
    text.write_text("the cat sat on the mat. " * 20_000)

    told = ["init", str(study), "--data", str(text), "--from", str(table)]
    assert "Runs" in CliRunner().invoke(app, told, catch_exceptions=False).output

    config = load(study)
    assert config.budgets == (100_000,)
    assert config.confirm.seeds >= 4
    assert config.space.depth[-1] < 64


def test_runs_that_show_no_depth_are_refused() -> None:
    found: list[dict[str, object]] = [
        {"depth": depth, "params": 10**6 * depth, "loss": 3.0 + depth / 100, "flops": 1e18}
        for depth in (4, 8, 16)
    ]
    with pytest.raises(
        ConfigError, match="`--from` must name runs that show a best depth"
    ) as error:
        open_study(analysed(found))
    assert len(str(error.value)) <= 300
