"""A simulated study of three budgets and its report."""

from pathlib import Path

import pytest

from fathom.search.analysis.answer.finding import find_optima
from tests.support.optima import located
from tests.support.reporting import BUDGETS, Optima, Records, publish
from tests.support.simulated import simulated_study


@pytest.fixture(scope="module")
def study() -> Records:
    return simulated_study(budgets=BUDGETS)


@pytest.fixture(scope="module")
def optima(study: Records) -> Optima:
    return tuple(map(located, find_optima(study, seed=0)))


@pytest.fixture(scope="module")
def run_folder(study: Records, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    publish(folder, study)
    return folder


@pytest.fixture(scope="module")
def page(run_folder: Path) -> str:
    return (run_folder / "report.html").read_text(encoding="utf-8")
