"""The shapes with a fixed number of parameters, as an Optuna search space for a user's own
tuner."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from fathom.models.shape import Count, Shape
from fathom.search.scheduling.sampling.depth_losses import RATIO
from fathom.search.study.file.study_file import study_of
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan import listed_sizes
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes

NOTHING: Mapping[str, Any] = {}


class ShapeSpace:
    """The shapes of a transformer with a fixed number of parameters.

    Depth and the ratio of `d_ff` to `d_model` are free; both widths follow from them.

    >>> space = ShapeSpace("10M", vocab_size=8192, space={"depth": (2, 24)})
    >>> space.distributions["depth"]
    IntDistribution(high=24, log=True, low=2, step=1)
    >>> shape = space.shape(depth=6, ff_ratio=4)
    >>> shape.d_model, shape.d_ff, shape.params_total
    (320, 1280, 9998400)

    `params` is the number of parameters, such as `"10M"`, counted by the rule `count`: `total`,
    `non_embedding` and others, as in a study file; `tolerance` is the largest relative difference
    of a shape's size from it. `space` and `model` are the groups of keys of a study file: limits on
    the shapes, and options that all of them share. `context` is the tokens of a sequence.

    Raises:
        ValueError: if fewer than three depths have a shape of this size, or a key is wrong.
    """

    def __init__(
        self,
        params: str | int,
        *,
        vocab_size: int,
        context: int = 1024,
        count: Count | str = Count.TOTAL,
        tolerance: float = 0.005,
        space: Mapping[str, Any] = NOTHING,
        model: Mapping[str, Any] = NOTHING,
    ) -> None:
        config = study_of(
            {
                "study": "space",
                "objective": {"name": "language", "context": context},  # data do not matter
                "budgets": [params],
                "count": count,
                "tolerance": tolerance,
                "tokens": "1B",  # nor does the horizon
                "space": dict(space),
                "model": dict(model),
            }
        )
        self.shapes: tuple[Shape, ...] = feasible_shapes(
            config, expand_budgets(config)[0], vocab_size
        )
        """All shapes of this size, by depth and width."""

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna's parameters: `depth`, and `ff_ratio` if there are feed-forward branches."""
        return distributions_of(self.shapes)

    def shape(self, *, depth: int, ff_ratio: float = 0.0) -> Shape:
        """The shape nearest to a depth and a ratio, its `d_model` and `d_ff` solved for the number
        of parameters."""
        return nearest_shape(self.shapes, depth=depth, ff_ratio=ff_ratio)

    def config(self, shape: Shape) -> dict[str, int]:
        """The sizes of a shape by name, enough to build the model and to find the shape in a
        table."""
        return listed_sizes(shape) | {"head_dim": shape.head_dim}


def distributions_of(shapes: tuple[Shape, ...]) -> dict[str, BaseDistribution]:
    """Optuna's parameters of a space of shapes, each name with its range of values."""
    depths, ratios = [s.depth for s in shapes], [s.ff_ratio for s in shapes]
    space: dict[str, BaseDistribution] = {
        "depth": IntDistribution(min(depths), max(depths), log=True)
    }
    if min(ratios) > 0:  # without feed-forward branches there is none
        space[RATIO] = FloatDistribution(min(ratios), max(ratios), log=True)
    return space
