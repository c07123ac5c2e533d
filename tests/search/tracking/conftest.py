"""A fresh MLflow store for each test, made once: making one takes MLflow seconds."""

from pathlib import Path

import pytest

from fathom.search.tracking.stores import store
from tests.support.tracked import Place, new_place


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    store.settle()
    store.connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Place:
    return new_place(template, tmp_path)
