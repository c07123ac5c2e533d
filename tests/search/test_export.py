"""The best shapes as YAML and back: `search/export.py`."""

from pathlib import Path

import pytest

from search.analysis.optimum import Optimum, find_optima
from search.config import ConfigError, StudyConfig, TrackingConfig
from search.export import best_yaml, read_best, select
from tests.search.dry_run import Simulation, conductor, study


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyConfig, tuple[Optimum, ...]]:
    config = study(tracking=TrackingConfig(uri="postgresql://me:secret@host/db"))
    search = conductor(config, tmp_path_factory.mktemp("run"))
    Simulation(search).run()
    return config, find_optima(search.records, seed=0)


def test_a_shape_comes_back_as_it_was_found(
    found: tuple[StudyConfig, tuple[Optimum, ...]], tmp_path: Path
) -> None:
    config, optima = found
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(config, optima))
    for optimum, label in zip(optima, ("20k", "40k"), strict=True):
        best = read_best(path, label)
        assert best.shape == optimum.shape
        assert best.budget == optimum.budget
        assert best.config.model_copy(update={"tracking": config.tracking}) == config


def test_no_password_leaves_with_a_shape(
    found: tuple[StudyConfig, tuple[Optimum, ...]],
) -> None:
    assert "secret" not in best_yaml(*found)


def test_one_budget_can_be_cut_out_and_needs_no_naming_then(
    found: tuple[StudyConfig, tuple[Optimum, ...]], tmp_path: Path
) -> None:
    text = best_yaml(*found)
    path = tmp_path / "best.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"20k, 40k; choose one with --budget"):
        read_best(path, None)
    path.write_text(select(path, "40000"))
    assert read_best(path, None).budget == 40_000


@pytest.mark.parametrize(
    "text", ["", "- 1", "best: 3", "best: [1]\nstudy: {}", "{", "best: []\nstudy: {study: x}"]
)
def test_a_file_that_is_no_export_is_a_users_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"best\.yaml"):
        read_best(path, None)
