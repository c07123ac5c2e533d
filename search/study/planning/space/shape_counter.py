"""A user's own model in a study: finds its function, and counts all its shapes by building a few.

The parameters must be affine in the depth, and those of a layer affine in the feed-forward width.
Three models of a width give the counts of all its shapes, and a fourth verifies them. They are
built on torch's meta device, without memory.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from fathom.models.recipe import OwnModelError, OwnRecipe, Recipe
from fathom.models.shape import OwnCounts, Shape
from fathom.objectives.errors import nearest
from fathom.objectives.user_code import UserCodeError, named
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import SpaceConfig
from fathom.search.study.keys.model_group import ModelConfig

MOST_BUILDS = 200
"""Largest number of models that are built to count the shapes of a study."""
BUILDS_OF_A_WIDTH = 4
"""Models that are built for each width: three for its counts, and one to verify them."""
KEY = "model.build"


class TooManyBuildsError(PlanError):
    """A study with so many widths that counting its shapes would build too many models."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"a study must count its shapes by at most {MOST_BUILDS} models of {place}, but its "
            "widths need more; raise `space.d_model_multiple`, set `space.d_model`, or take "
            "budgets that are nearer to each other",
            key="space",
        )


def recipe_of(model: ModelConfig) -> Recipe:
    """The recipe that models of a study are built by.

    Raises:
        PlanError: when it is a user's function that can't be found or can't be given a shape.
    """
    parametrization = model.parametrization.build()
    if model.build is None:
        return parametrization
    try:
        module, function = named(model.build, "model function")
    except UserCodeError as error:
        raise PlanError(str(error), key=KEY) from error
    if not callable(function):
        name = model.build.partition(":")[2]
        lack = f"no {name}" if function is None else f"{name}, a {type(function).__name__}"
        known = [key for key, value in vars(module).items() if callable(value)]
        raise PlanError(
            f"`{KEY}` must be the place of a function, and {module.__name__} has {lack}; "
            + nearest(name, known, otherwise="correct it"),
            key=KEY,
        )
    roles = None if model.roles is None else tuple(model.roles.items())
    recipe = OwnRecipe(model.build, function, roles, parametrization)
    try:
        recipe.check()
    except OwnModelError as error:
        raise PlanError(str(error), key=KEY) from error
    return recipe


@dataclass(frozen=True, slots=True)
class _WidthCounts:
    """Counts from which those of all shapes of a width follow: of its smallest shape, of each
    further layer of the same d_ff, and of each further unit of d_ff in a layer."""

    corner: Shape
    first: tuple[int, ...]
    layer: tuple[int, ...]
    unit: tuple[int, ...]

    def at(self, shape: Shape) -> OwnCounts:
        """The counts of a shape of this width."""
        layers = shape.depth - self.corner.depth
        units = shape.depth * (shape.d_ff - self.corner.d_ff)
        parts = zip(self.first, self.layer, self.unit, strict=True)
        total, non_embedding, saved = (a + layers * b + units * c for a, b, c in parts)
        return OwnCounts(total=total, non_embedding=non_embedding, saved_bytes=max(0, saved))


class OwnCounter:
    """Counts the shapes of a user's function, from models of the first two depths of a study."""

    def __init__(self, recipe: OwnRecipe, depths: Sequence[int]) -> None:
        self._recipe, self._depths = recipe, depths
        self._torch_part = importlib.import_module("fathom.models.own_model")
        self._outside: frozenset[str] | None = None
        self._built: dict[Shape, OwnCounts] = {}
        self._lines: dict[Shape, _WidthCounts] = {}
        self._verified: set[Shape] = set()
        """Widths whose counts were verified."""

    def counted(self, shape: Shape, d_ffs: range) -> Shape:
        """The shape with its counts, which follow from a few shapes of the same width; `d_ffs` are
        the feed-forward widths that the study allows at that width, perhaps none."""
        width = _width_of(shape)
        if width not in self._lines:
            self._lines[width] = self._line(shape, d_ffs)
        return replace(shape, own_counts=self._lines[width].at(shape))

    def exactly(self, shape: Shape) -> Shape:
        """The shape with the counts of a model that is built for it."""
        return replace(shape, own_counts=self._count(replace(shape, own_counts=None)))

    def verify(self, shape: Shape) -> None:
        """Verifies the counts of a width, once, by a model of this shape.

        Raises:
            PlanError: if the model has other counts.
        """
        width = _width_of(shape)
        if width in self._verified:
            return
        found = self.exactly(shape)
        if found != shape:
            raise self._not_affine(found, shape.params_total)
        self._verified.add(width)

    def try_out(self, shape: Shape, *, causal: bool) -> None:
        """Builds a small shape with weights, and raises `PlanError` if it can't be trained."""
        try:
            self._torch_part.try_out(self._recipe, shape, causal=causal)
        except OwnModelError as error:
            raise PlanError(str(error), key=KEY) from error

    def _count(self, shape: Shape) -> OwnCounts:
        if shape in self._built:
            return self._built[shape]
        try:
            if self._outside is None:
                self._outside = self._torch_part.embeddings(self._recipe, shape)
            found: OwnCounts = self._torch_part.count(self._recipe, shape, self._outside)
        except OwnModelError as error:
            raise PlanError(str(error), key=KEY) from error
        self._built[shape] = found
        return found

    def _line(self, shape: Shape, d_ffs: range) -> _WidthCounts:
        shallow, deep = self._depths
        thin = d_ffs.start
        thick = max((thin + d_ffs.step, *d_ffs[-1:])) if thin else 0  # 0 without feed-forward
        corner = replace(shape, depth=shallow, d_ff=thin)
        first, deeper, thicker = (
            self._numbers(replace(corner, depth=depth, d_ff=d_ff))
            for depth, d_ff in ((shallow, thin), (deep, thin), (shallow, thick))
        )
        if thin and thicker == first:
            raise self._ignores_d_ff(corner, thick)
        if deeper[0] <= first[0]:
            raise PlanError(
                f"the parameters of {self._recipe.place} must grow with depth, got {first[0]:,} at "
                f"depth {shallow} and {deeper[0]:,} at {deep}; give each layer weights of its own",
                key=KEY,
            )
        layer, layer_rest = _parts(deeper, first, deep - shallow)
        unit, unit_rest = _parts(thicker, first, shallow * max(1, thick - thin))
        if layer_rest or unit_rest:
            off = replace(corner, depth=deep) if layer_rest else replace(corner, d_ff=thick)
            raise self._not_affine(self.exactly(off), None)
        return _WidthCounts(corner, first, layer, unit)

    def _numbers(self, shape: Shape) -> tuple[int, ...]:
        counts = self._count(shape)
        return counts.total, counts.non_embedding, counts.saved_bytes

    def _ignores_d_ff(self, thin: Shape, thick: int) -> PlanError:
        params = self.exactly(thin).params_total
        drop = "take d_ff out of its arguments and " if self._recipe.names("d_ff") else ""
        return PlanError(
            f"`space.feed_forward` must be false with {self._recipe.place}, whose parameters do "
            f"not depend on d_ff: {params:,} with d_ff {thin.d_ff} and with {thick}, at "
            f"d_model {thin.d_model}; {drop}set `space.feed_forward: false`, or use d_ff; "
            "if it rounds d_ff, set `space.d_ff_multiple` to that multiple",
            key=KEY,
        )

    def _not_affine(self, shape: Shape, expected: int | None) -> PlanError:
        instead = "" if expected is None else f" where {expected:,} follow from smaller ones"
        return PlanError(
            f"the parameters of {self._recipe.place} must grow by the same number with each layer, "
            "and with each unit of d_ff, for a budget to be met, got "
            f"{shape.params_total:,} at depth {shape.depth}, d_model {shape.d_model}, d_ff "
            f"{shape.d_ff}{instead}; if it rounds d_ff, set "
            "`space.d_ff_multiple` to that multiple",
            key=KEY,
        )


def _width_of(shape: Shape) -> Shape:
    """The shape without depth and d_ff: equal for all shapes of a width, vocabulary and context."""
    return replace(shape, depth=1, d_ff=0, own_counts=None)


def _parts(more: tuple[int, ...], less: tuple[int, ...], count: int) -> tuple[tuple[int, ...], int]:
    """The differences of two sets of counts, divided by `count`, and the sum of the remainders of
    the first two."""
    differences = [a - b for a, b in zip(more, less, strict=True)]
    return tuple(d // count for d in differences), sum(d % count for d in differences[:2])


def counter_of(model: ModelConfig, space: SpaceConfig) -> OwnCounter | None:
    """The counter of a model of the user's own; None for the built-in one,
    which has closed forms."""
    recipe = recipe_of(model)
    if not isinstance(recipe, OwnRecipe):
        return None
    takes = recipe.takes("d_ff")
    may_ignore = takes and not recipe.names("d_ff")  # it takes d_ff by `**` alone
    if space.feed_forward != takes and not may_ignore:
        raise PlanError(
            f"`space.feed_forward` must be {str(takes).lower()} with {recipe.place}, which "
            f"{'takes' if takes else 'does not take'} d_ff",
            key="space.feed_forward",
        )
    return _counter(recipe, space)


@cache
def _counter(recipe: OwnRecipe, space: SpaceConfig) -> OwnCounter:
    """The counter of a user's function for a space of shapes."""
    return OwnCounter(recipe, (*space.depths[:2], space.depths[0] + 1)[:2])


def try_own_model(config: StudyConfig, shape: Shape) -> None:
    """Raises `PlanError` if the user's own model, built for a small shape, can't be trained."""
    if counter := counter_of(config.model, config.space):
        counter.try_out(shape, causal=not config.objective.bidirectional)
