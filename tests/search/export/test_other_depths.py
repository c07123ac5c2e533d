"""Another depth than the answer, and what it costs: `search/export/other_depths.py`."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from fathom.search.analysis.answer.optimum import Located
from fathom.search.commands.answers import export, train
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.export.best import best_yaml, doubts, read_best, select
from fathom.search.study.file.errors import ConfigError
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.optima import located, not_located

BUDGET = 20_000
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Conclusion:
    search = scheduler(study(budgets=(BUDGET,)), tmp_path_factory.mktemp("run"))
    Simulation(search).run()
    return conclude(search.records, search.config)


@pytest.fixture
def optimum(found: Conclusion) -> Located:
    return located(found.optima[0])


@pytest.fixture
def best(found: Conclusion, tmp_path: Path) -> Path:
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(found))
    return path


def others(optimum: Located) -> list[int]:
    """The depths that were trained to the end and are not the answer."""
    return [known.depth for known in optimum.depths if known.depth != optimum.optimal_depth]


def test_every_trained_depth_can_be_chosen_with_its_best_shape(
    best: Path, optimum: Located
) -> None:
    shapes = {known.depth: known.shape for known in optimum.depths}
    assert len(shapes) > 2
    for depth, shape in shapes.items():
        assert read_best(best, None, None, depth).shape == shape
    assert read_best(best, None).shape == shapes[optimum.optimal_depth]


def test_a_chosen_depth_says_what_it_costs_and_how_fast_it_trained(
    best: Path, optimum: Located
) -> None:
    depth = min(others(optimum))
    cost = next(cost for cost in optimum.costs if cost.depth == depth)
    low, high = cost.interval
    [line] = doubts(best, None, None, depth)
    assert line.startswith(
        f"depth {depth} instead of {optimum.optimal_depth} costs {cost.nats:+.4f} nats "
        f"(95 %: {low:+.4f} to {high:+.4f}); in the search it trained "
    )
    assert line.endswith(" times as fast")
    assert doubts(best, None, None, optimum.optimal_depth) == doubts(best, None) == []


def test_an_exported_depth_keeps_its_shape_and_its_cost(
    best: Path, optimum: Located, tmp_path: Path
) -> None:
    depth = max(others(optimum))
    exported = tmp_path / "deep.yaml"
    exported.write_text(select(best, None, None, depth))
    assert read_best(exported, None) == read_best(best, None, None, depth)
    assert doubts(exported, None) == doubts(best, None, None, depth)
    [entry] = yaml.safe_load(exported.read_text())["best"]
    cost = next(cost.nats for cost in optimum.costs if cost.depth == depth)
    assert entry["loss"] == pytest.approx(optimum.loss + cost, abs=1e-6)
    assert entry["params_total"] == read_best(exported, None).shape.params_total


def test_each_other_depth_is_one_line_of_the_file_also_after_a_selection(
    best: Path, optimum: Located
) -> None:
    for text in (best.read_text(), select(best, None), select(best, "20k")):
        rows = [line for line in text.splitlines() if line.startswith("  - {depth: ")]
        assert len(rows) == len(others(optimum))


def test_a_depth_that_was_not_trained_is_refused_with_those_that_were(
    best: Path, optimum: Located
) -> None:
    known = ", ".join(str(estimate.depth) for estimate in optimum.depths)
    for depth in (99, 0, -1):
        asks: list[Callable[[], object]] = [
            partial(read_best, best, None, None, depth),
            partial(select, best, None, None, depth),
            partial(export, best, depth=depth),
            partial(train, best, depth=depth),
        ]
        for ask in asks:
            with pytest.raises(ConfigError, match=rf"got {depth}; .*best\.yaml has {known}$"):
                ask()


def test_the_cost_is_not_known_without_a_curve(
    found: Conclusion, optimum: Located, tmp_path: Path
) -> None:
    few, path = not_located(optimum, optimum.optimal_depth), tmp_path / "best.yaml"
    path.write_text(best_yaml(replace(found, optima=(few,))))
    [line] = doubts(path, None, None, others(optimum)[0])
    assert "costs a loss that is not known" in line


@pytest.mark.parametrize("rows", [3, [3], [{"shape": {}}], [{"depth": 99, "shape": {"depth": 0}}]])
def test_damaged_rows_are_a_users_error(best: Path, rows: object) -> None:
    content = yaml.safe_load(best.read_text())
    content["best"][0]["other_depths"] = rows
    best.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=r"best\.yaml: the shape can't be built"):
        read_best(best, None, None, 99)


@pytest.mark.parametrize("instead", [3, {}, {"depth": 4, "nats": "x"}])
def test_a_damaged_cost_is_a_users_error(best: Path, instead: object) -> None:
    content = yaml.safe_load(best.read_text())
    content["best"][0]["instead_of"] = instead
    best.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match="`instead_of` of the best shape"):
        doubts(best, None)


def test_the_commands_say_the_cost_beside_what_they_do(
    best: Path, optimum: Located, tmp_path: Path, capsys: Capture
) -> None:
    depth = min(others(optimum))
    export(best, depth=depth)
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out)["best"][0]["shape"]["depth"] == depth
    assert f"fathom: depth {depth} instead of {optimum.optimal_depth} costs " in shown.err
    train(best, depth=depth, tokens="4k", out=tmp_path / "trained")
    said = capsys.readouterr()
    assert f"fathom: depth {depth} instead of {optimum.optimal_depth} costs " in said.err
    assert said.out.startswith(f"depth {depth}, ")
    assert f"--depth {depth}" in said.out.splitlines()[-1], "the next command has the same depth"
