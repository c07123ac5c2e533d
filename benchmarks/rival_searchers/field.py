"""The field: every rival at the settings that are run, as far as its package is there."""

import importlib
from collections.abc import Iterator

from benchmarks.rival_searchers import plain
from benchmarks.rival_searchers.rival import Contender

PARTS = {
    "Ray": "benchmarks.rival_searchers.ray_tune",
    "Optuna": "benchmarks.rival_searchers.optuna_alone",
    "Syne": "benchmarks.rival_searchers.syne",
    "NePS": "benchmarks.rival_searchers.neps_alone",
}
"""First word of a rival's name -> the module that knows its package."""
INSTALL = "pip install -e '.[rivals]'"


def contenders() -> tuple[list[Contender], list[str]]:
    """Every rival that can run here, and a line for each missing package."""
    found, missing = list(plain.CONTENDERS), []
    for package in PARTS:
        try:
            found += _part(package)
        except ImportError as error:
            missing.append(f"{package} is left out ({error}); to have it: {INSTALL}")
    return found, missing


def contender(name: str) -> Contender:
    """The rival of this name; other packages are not loaded."""
    package = name.split()[0]
    some = _part(package) if package in PARTS else plain.CONTENDERS
    return next(contender for contender in some if contender.name == name)


def _part(package: str) -> Iterator[Contender]:
    yield from importlib.import_module(PARTS[package]).CONTENDERS
