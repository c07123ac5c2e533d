"""What an exported folder is made from: one budget's answer, as a framework builds it."""

from dataclasses import dataclass
from functools import cached_property

from fathom.models.shape import Shape
from fathom.search.export.architectures import Architecture
from fathom.search.export.best import BestShape
from fathom.search.study.budget import Budget, expand_budgets
from fathom.search.study.config import StudyConfig

NORM_EPS = 1e-5
ROTARY_BASE = 10_000.0
"""Both as `models/` has them, whose modules need torch; a test compares."""

Files = dict[str, str | bytes]
"""Name in the folder -> content."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A shape on its way to a framework."""

    best: BestShape
    shape: Shape
    """As the framework builds it."""
    architecture: Architecture
    centred: bool
    """Whether the weights must leave the stream no mean, see `Fit`."""
    with_weights: bool

    @property
    def config(self) -> StudyConfig:
        """The study that found it, or with weights the settings of their training."""
        return self.best.config

    @cached_property
    def budget(self) -> Budget:
        """The budget it is the answer to, with the horizon."""
        budgets = expand_budgets(self.config)
        return next(budget for budget in budgets if budget.params == self.best.budget)

    @property
    def name(self) -> str:
        """Study and budget."""
        return f"{self.config.study}-{self.budget.label}"
