"""All objectives by name: the keys of each, and the class that prepares it.

Imports no torch, so that planning a study does not wait for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fathom.objectives.keys import ObjectiveConfig


@dataclass(frozen=True, slots=True)
class Registered:
    """An objective of Fathom, as the place of its folder and the name of its class."""

    folder: str
    """Folder below `fathom`, as a module; `keys` and `objective` are modules in it."""
    name: str
    """Name of the objective's class in `objective`; with `Config` appended, that of its keys in
    `keys`."""

    @property
    def keys(self) -> type[ObjectiveConfig]:
        """The class of the objective's keys in a study file."""
        keys: type[ObjectiveConfig] = self._named("keys", f"{self.name}Config")
        return keys

    def load(self) -> Any:
        """The class that prepares the objective; its module may import torch."""
        return self._named("objective", self.name)

    def _named(self, module: str, name: str) -> Any:
        return getattr(import_module(f"fathom.{self.folder}.{module}"), name)


OBJECTIVES: Mapping[str, Registered] = {
    "language": Registered("objectives.text.language", "Language"),
    "tokens": Registered("objectives.tokens", "Tokens"),
    "transduction": Registered("objectives.rows.transduction", "Transduction"),
    "translation": Registered("objectives.rows.translation", "Translation"),
    "classification": Registered("objectives.rows.classification", "Classification"),
    "hop": Registered("papers.tasks.k_hop", "Hop"),
    "induction": Registered("papers.tasks.induction", "Induction"),
    "connectivity": Registered("papers.tasks.connectivity", "Connectivity"),
    "blocks": Registered("papers.tasks.alternating_blocks", "Blocks"),
    "external": Registered("objectives.external", "External"),
}
