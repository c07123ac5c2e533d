"""The version of Fathom that runs, whichever distribution it was installed from."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

FULL, CORE = "fathom-depth", "fathom-depth-core"
"""Distributions: with everything, and without the packages of a search."""


def own_version() -> str | None:
    """The version of the installed distribution; None for a checkout that is not installed."""
    for name in (FULL, CORE):
        with suppress(PackageNotFoundError):
            return version(name)
    return None
