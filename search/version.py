"""Versions of Fathom and of MLflow, whichever distributions they were installed from."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

FULL, CORE = "fathom-depth", "fathom-depth-core"
"""Distributions: with everything, and without the packages of a search."""


MLFLOW = ("mlflow", "mlflow-skinny")
"""Distributions of MLflow: with everything, and without its server."""


def installed_version(*distributions: str) -> str | None:
    """The version of the first of these distributions that is installed; None if none is."""
    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def own_version() -> str | None:
    """The version of the installed distribution; None for a checkout that is not installed."""
    return installed_version(FULL, CORE)


def program() -> str:
    """Fathom and its version, as text."""
    return f"Fathom {own_version() or '(a checkout that is not installed)'}"
