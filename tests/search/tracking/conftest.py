"""A fresh MLflow store for each test, made once: making one takes MLflow seconds."""

import shutil
from pathlib import Path

import pytest

from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.made_here import note_store
from tests.support.tracked import Place


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    store.settle()
    store.connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Place:
    file = Path(shutil.copy(template, tmp_path / "mlflow.db"))
    note_store(file, file)
    folder = tmp_path / "runs" / "demo"
    folder.mkdir(parents=True)
    return Place(f"sqlite:///{tmp_path}/mlflow.db", folder)
