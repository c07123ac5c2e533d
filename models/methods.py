"""Methods of published papers that few studies train with, by name; each is loaded where it is
used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

METHODS: Mapping[str, str] = {
    "profile": "papers.admin",
    "AutoSizing": "papers.sizing.auto_sizing",
}
"""Module, below `fathom`, of each function or class of a method."""


class AroundSteps(Protocol):
    """Interface of a method that acts around the steps of an optimizer."""

    def around(self, update: Callable[[], None], *, step: int, learning_rate: float) -> None:
        """Calls `update`, a step of the optimizer; `step` counts from 0."""

    def counts(self) -> dict[str, float]:
        """Metrics for an evaluation: the effect of the method on the model."""


def method(name: str) -> Any:
    """The function or class of a method of `METHODS`."""
    return getattr(import_module(f"fathom.{METHODS[name]}"), name)
