"""Versions of what is installed, or not: `search/version.py`."""

from importlib.metadata import PackageNotFoundError

import pytest

from fathom.search.version import MLFLOW, installed_version, program


def test_the_first_distribution_that_is_installed_has_a_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fathom.search.version.version", only_a_small_mlflow)
    assert installed_version(*MLFLOW) == "3.17.2"
    assert installed_version("mlflow") is None
    assert program() == "Fathom (a checkout that is not installed)"


def only_a_small_mlflow(name: str) -> str:
    if name != "mlflow-skinny":
        raise PackageNotFoundError(name)
    return "3.17.2"
