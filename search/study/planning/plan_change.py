"""Plans a budget with a change of its study, so that a remedy is tried before it is advised.

Arithmetic only, in milliseconds: no data and no code of the user's own is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fathom.models.shape import Shape
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import changed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan import stage_trials
from fathom.search.study.planning.space.shape_space import ShapeLimits
from fathom.search.study.planning.space.shapes import FEWEST_DEPTHS, shapes_of

EVERY_DEPTH = (1, 1000)
"""The widest `space.depth` that a study may have."""


@dataclass(frozen=True, kw_only=True)
class PlannedSizes:
    """The shapes of the plan of a budget, and its numbers of trials."""

    shapes: tuple[Shape, ...]
    exploring: int
    """Number of exploring trials."""
    confirming: int
    """Largest number of confirming trials."""

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depths that have a shape, ascending."""
        return tuple(sorted({shape.depth for shape in self.shapes}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """The plan of a budget without and with a change of its study."""

    before: PlannedSizes
    after: PlannedSizes | None
    """Sizes with the change; None if the study is refused with it."""
    refusal: str = ""
    """The reason why the study is refused with the change; empty if it is not."""

    @property
    def new_depths(self) -> tuple[int, ...]:
        """Depths that have a shape only with the change, ascending."""
        had = set(self.before.depths)
        return tuple(depth for depth in self.after.depths if depth not in had) if self.after else ()

    @property
    def adds(self) -> bool:
        """True if the change brings a depth, a shape or a training that the plan did not have."""
        if self.after is None:
            return False
        more = (
            len(self.after.shapes) - len(self.before.shapes),
            self.after.exploring - self.before.exploring,
            self.after.confirming - self.before.confirming,
        )
        return bool(self.new_depths) or max(more) > 0


def plan_change(
    config: StudyConfig, budget: int, like: Shape, changes: Mapping[str, object]
) -> PlanChange | None:
    """The plan of a budget of a study without and with `changes`: values by key, such as
    `space.depth`, that leave the budget as it is.

    `like` is any shape of the study: it has the vocabulary, which would otherwise have to be read
    from data. Returns None for a user's own model, whose shapes only the user's code can count, and
    for a budget that is not of the study.

    >>> from fathom.search.study.file.study_file import parse
    >>> config = parse("{study: s, objective: language, budgets: [30k], space: {depth: [1, 4]}}")
    >>> like = Shape(depth=1, d_model=16, d_ff=16, n_heads=1, head_dim=16, vocab_size=256,
    ...              context=256)
    >>> plan_change(config, 30_000, like, {"space.depth": [1, 9]}).new_depths
    (5, 6, 7, 8, 9)
    >>> plan_change(config, 30_000, like, {"trials": 99}).adds
    False
    """
    before = planned_sizes(config, budget, like)
    if before is None:
        return None
    try:
        after = planned_sizes(changed(config, changes), budget, like)
    except ConfigError as error:
        return PlanChange(before=before, after=None, refusal=str(error))
    if after and len(after.depths) < FEWEST_DEPTHS:
        found = ", ".join(map(str, after.depths)) or "none"
        refusal = f"a budget needs {FEWEST_DEPTHS} depths that have shapes, got {found}"
        return PlanChange(before=before, after=None, refusal=refusal)
    return PlanChange(before=before, after=after)


def meetable_depths(config: StudyConfig, budget: int, like: Shape) -> tuple[int, ...] | None:
    """Every depth at which the study would have a shape of this budget if `space.depth` allowed
    them all, ascending; arguments and None as in `plan_change`.

    Raises:
        PlanError: if these depths have too many shapes.
    """
    every = planned_sizes(changed(config, {"space.depth": EVERY_DEPTH}), budget, like)
    return every.depths if every else None


def planned_sizes(config: StudyConfig, params: int, like: Shape) -> PlannedSizes | None:
    """The shapes and numbers of trials in the plan of a budget; None for a user's own model, or a
    budget that is not of the study."""
    if config.model.build:
        return None
    budget = next((each for each in expand_budgets(config) if each.params == params), None)
    if budget is None:
        return None
    space = ShapeLimits(
        limits=config.space,
        model=config.model,
        budgets=config.budgets,
        budget=params,
        context=config.objective.context,
        vocab_size=like.vocab_size,
        source_vocab_size=like.source_vocab_size,
        counter=None,
    )
    shapes = shapes_of(space, budget)
    exploring, confirming = stage_trials(config, shapes)
    return PlannedSizes(shapes=shapes, exploring=exploring, confirming=confirming)
