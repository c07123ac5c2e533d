"""A simulated study of three budgets and its report."""

from pathlib import Path

import pytest

from fathom.search.analysis.optimum import Located, find_optima
from fathom.search.records import TrialRecord
from tests.support.optima import located
from tests.support.reporting import BUDGETS, publish
from tests.support.simulated import simulated_study


@pytest.fixture(scope="module")
def study() -> list[TrialRecord]:
    return simulated_study(budgets=BUDGETS)


@pytest.fixture(scope="module")
def optima(study: list[TrialRecord]) -> tuple[Located, ...]:
    return tuple(map(located, find_optima(study, seed=0)))


@pytest.fixture(scope="module")
def run_folder(study: list[TrialRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    publish(folder, study)
    return folder


@pytest.fixture(scope="module")
def page(run_folder: Path) -> str:
    return (run_folder / "report.html").read_text(encoding="utf-8")
