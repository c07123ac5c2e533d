"""The shapes of a budget: every shape whose size is within the budget's tolerance.

For every depth and width the feed-forward width follows from the budget. Solving for d_ff hits a
budget far closer than solving for d_model: one step of d_ff is one part in thousands. Without
feed-forward branches (`space.feed_forward: false`) only the widths that meet the budget remain.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from fathom.models.options import OptionError
from fathom.models.shape import Count, Shape
from fathom.search.formatting import format_count
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.free_size import FEWEST_WHOLE
from fathom.search.study.keys.groups import SpaceConfig, default_head_dim
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.space.shape_space import ROUNDING, ShapeLimits

FEWEST_DEPTHS = 3
"""Fewest depths of a budget: an optimum needs a depth on either side."""
MOST_SHAPES = 200_000
"""Largest number of shapes of a budget; a budget of 1T with depths 1 to 1000 has fewer, and with
more, planning would take minutes."""
MOST_LAYERS = 64
LOWEST_RATIO, HIGHEST_RATIO = 0.5, 16.0
"""Range of d_ff / d_model that a remedy names: the default with its ends halved and doubled."""
SIZE_STEP = 1.4
"""Factor between neighbouring sizes if the size is free: between two of them, losses differ from
the loss at the nearer one by less than seeds do."""
MOST_TOLERANCE = 0.05
"""The largest tolerance that a study may have."""


def feasible_shapes(config: StudyConfig, budget: Budget, vocab_size: int) -> tuple[Shape, ...]:
    """All shapes within the budget's tolerance, sorted by depth and width.

    >>> from fathom.search.study.planning.budget import expand_budgets
    >>> from fathom.search.study.file.study_file import parse
    >>> config = parse("{study: mine, objective: language, budgets: [300k]}")
    >>> shapes = feasible_shapes(config, expand_budgets(config)[0], vocab_size=256)
    >>> len(shapes), max(abs(shape.params_total - 300_000) for shape in shapes)
    (79, 1216)

    Raises:
        PlanError: when fewer than three depths have a shape; names the nearest budget that works.
    """
    space = ShapeLimits.of(config, vocab_size, budget=budget.params)
    shapes = shapes_of(space, budget)
    if not _enough(shapes, budget):
        key = "space.params" if budget.sizes else "budgets"
        raise PlanError(_explain(space, budget, shapes), key=key)
    return shapes


def shapes_of(space: ShapeLimits, budget: Budget) -> tuple[Shape, ...]:
    """All shapes of a budget, found as its unit requires; if the budget leaves the size free,
    shapes on a lattice of sizes."""
    if budget.sizes:
        return _of_any_size(space, budget, budget.sizes)
    if budget.count is Count.HEADS:
        shapes = _sharing_heads(space, budget.params)
    elif budget.count is Count.WIDTH:
        shapes = _stacked(space, budget.params)
    else:
        return _solve(space, budget)
    return tuple(shape for shape in shapes if abs(budget.count_error(shape)) <= budget.tolerance)


def _of_any_size(space: ShapeLimits, budget: Budget, ends: tuple[int, int]) -> tuple[Shape, ...]:
    """Shapes whose sizes are evenly spaced in log between two ends, sorted by depth and width."""
    found: dict[Shape, None] = {}
    for size in lattice(*ends):
        of_size = replace(budget, params=size, count=Count.TOTAL, sizes=None)
        found |= dict.fromkeys(shapes_of(replace(space, budgets=ends, budget=size), of_size))
    return tuple(sorted(found, key=lambda shape: (shape.depth, shape.d_model, shape.d_ff)))


def lattice(smallest: int, largest: int) -> list[int]:
    """Sizes from the smallest to the largest that are about `SIZE_STEP` times apart, ascending.

    >>> lattice(100_000, 400_000)
    [100000, 141421, 200000, 282843, 400000]
    """
    steps = max(1, round(math.log(largest / smallest) / math.log(SIZE_STEP)))
    return [round(smallest * (largest / smallest) ** (step / steps)) for step in range(steps + 1)]


def _stacked(space: ShapeLimits, d_model: int) -> list[Shape]:
    """One shape of width `d_model` for each depth of the study."""
    limits = space.limits
    key = "budgets" if limits.d_model is None else "space.d_model"
    space.check_width(d_model, space.width_step, key=key)
    groups = space.model.groups
    d_ff = groups * round(limits.ff_ratio[0] * d_model / groups) if limits.feed_forward else 0
    return [space.shape(depth, d_model, d_ff) for depth in limits.depths]


def _sharing_heads(space: ShapeLimits, heads: int) -> list[Shape]:
    """Shapes with the same total number of heads, a shape for each depth."""
    assert space.limits.d_model is not None, "checked with the study"
    stacked = _stacked(space, space.limits.d_model)
    step = stacked[0].heads_step
    return [
        replace(shape, n_heads=step * max(1, round(heads / shape.depth / step)))
        for shape in stacked
    ]


def _solve(space: ShapeLimits, budget: Budget) -> tuple[Shape, ...]:
    shallowest, largest = space.limits.depths[0], budget.params * (1 + budget.tolerance)
    shapes: list[Shape] = []
    for d_model in space.widths():
        d_ffs = space.d_ffs(d_model)
        if space.shape(shallowest, d_model, d_ffs.start).size(budget.count) > largest:
            break  # nor does anything wider fit
        for depth in _depths(space, budget, d_model, d_ffs):
            shape = _nearest(space, budget, depth, d_model, d_ffs)
            if abs(budget.count_error(shape)) <= budget.tolerance:
                shapes.append(shape)
        if shapes and shapes[-1].d_model == d_model and space.counter:
            space.counter.verify(shapes[-1])  # the deepest of this width
        if len(shapes) > MOST_SHAPES:
            raise PlanError(
                f"budget {budget.label} has more than {MOST_SHAPES:,} shapes; narrow `space.depth` "
                "or raise `space.d_model_multiple`"
            )
    return tuple(sorted(shapes, key=lambda shape: (shape.depth, shape.d_model)))


def _depths(space: ShapeLimits, budget: Budget, d_model: int, d_ffs: range) -> Sequence[int]:
    """Depths at which a width may meet the budget, since a deeper shape is never smaller: from the
    first whose thickest shape is large enough to the last whose thinnest is small enough."""
    if not d_ffs:
        return ()

    def size_at(d_ff: int) -> Callable[[int], float]:
        return lambda depth: space.shape(depth, d_model, d_ff).size(budget.count)

    depths, margin = space.limits.depths, budget.tolerance + ROUNDING
    first = bisect_left(depths, budget.params * (1 - margin), key=size_at(d_ffs[-1]))
    end = bisect_right(depths, budget.params * (1 + margin), key=size_at(d_ffs[0]))
    return depths[first:end]


def _nearest(space: ShapeLimits, budget: Budget, depth: int, d_model: int, d_ffs: range) -> Shape:
    """The shape whose feed-forward width, one of `d_ffs`, brings it nearest to the budget; its size
    is affine in that width."""
    thinnest = space.shape(depth, d_model, d_ffs[0])
    if len(d_ffs) == 1:
        return thinnest
    size = thinnest.size(budget.count)
    step = space.shape(depth, d_model, d_ffs[1]).size(budget.count) - size
    index = round((budget.params - size) / step)
    return space.shape(depth, d_model, d_ffs[min(max(index, 0), len(d_ffs) - 1)])


def _explain(space: ShapeLimits, budget: Budget, shapes: tuple[Shape, ...]) -> str:
    """The message for a budget with too few depths: which depths it has, the cause and the
    remedy."""
    depths = sorted({shape.depth for shape in shapes})
    found = f"only at depth {', '.join(map(str, depths))}" if depths else "at no depth"
    found += f" ({len(shapes)} in all)" * bool(budget.sizes and depths)
    smallest = space.smallest()
    outside = smallest.params_total - smallest.params_non_embedding
    cause, model = "", space.model
    if budget.count is Count.TOTAL and outside > budget.params / 4:
        keys = {"queries_per_key": model.attention.queries_per_key, "groups": model.groups}
        makes = " and ".join(f"`{key}: {number}`" for key, number in keys.items() if number > 1)
        step = f", as {makes} makes widths multiples of {space.heads_step}" if makes else ""
        cause = (
            f" (the embedding of {space.vocab_size} tokens alone takes {format_count(outside)} "
            f"at d_model {smallest.d_model}{step})"
        )
    elif not space.limits.feed_forward and space.limits.d_model is None:
        cause = (
            f" (with `space.feed_forward: false` only d_model meets it, in steps of "
            f"{space.width_step})"
        )
    unit, none = budget.count.unit_in_full, "no budget near it has so many depths, even"
    what, last = f"budget {budget.label} ({unit}, within {budget.tolerance:.1%})", "drop it"
    needed = f"{FEWEST_DEPTHS} depths"
    if budget.sizes:
        what, none = f"`space.params: {list(budget.sizes)}`", "not even"
        needed += f" and {FEWEST_WHOLE} shapes"
        last = f"raise it: the smallest model has {format_count(smallest.params_total)} parameters"
    remedy = "; ".join(_remedies(space, budget)) or (
        f"{none} with a wider `space.depth`, `space.ff_ratio` or `tolerance`; {last}"
    )
    return f"{what} has shapes {found}{cause}; {needed} are needed; {remedy}"


def _remedies(space: ShapeLimits, budget: Budget) -> Iterator[str]:
    """Yields remedies that give a budget enough depths, each tried on the shapes that the budget
    then has."""
    if not space.counter:  # a user's own model would be built for each
        for keys, limits, tolerance in _changes(space, budget):
            changed = replace(space, limits=limits)
            if _has_depths(changed, replace(budget, tolerance=tolerance)):
                yield f"set {keys}"
                break
    if working := _nearest_working(space, budget):
        yield f"the nearest budget that works is {format_count(working)}"


def _changes(space: ShapeLimits, budget: Budget) -> Iterator[tuple[str, SpaceConfig, float]]:
    """Yields changes of keys that may give a budget more depths, with the limits on shapes and the
    tolerance that the study then has; the smaller changes first."""
    limits, tolerance = space.limits, budget.tolerance

    def wider(**keys: object) -> SpaceConfig:
        return SpaceConfig.model_validate({**limits.model_dump(), **keys})

    if limits.depths[0] > 1 or limits.depths[-1] < MOST_LAYERS:
        yield f"`space.depth: [1, {MOST_LAYERS}]`", wider(depth=(1, MOST_LAYERS)), tolerance
    low, high = limits.ff_ratio
    if limits.feed_forward and budget.count not in (Count.HEADS, Count.WIDTH):
        ratios = min(low, LOWEST_RATIO), max(high, HIGHEST_RATIO)
        yield f"`space.ff_ratio: {list(ratios)}`", wider(ff_ratio=ratios), tolerance
    if not (limits.n_heads and limits.head_dim) and not limits.feed_forward:
        head_dim = limits.head_dim or default_head_dim(min(space.budgets))
        for n_heads in (1, 2, 4, 8, 16):
            keys = f"`space.head_dim: {head_dim}` and `space.n_heads: {n_heads}`"
            yield keys, wider(head_dim=head_dim, n_heads=n_heads), tolerance
    if tolerance < MOST_TOLERANCE:
        yield f"`tolerance: {MOST_TOLERANCE}`", limits, MOST_TOLERANCE


def _has_depths(space: ShapeLimits, budget: Budget) -> bool:
    """True if a budget has enough depths."""
    with suppress(PlanError, OptionError):
        return _enough(shapes_of(space, budget), budget)
    return False


def _enough(shapes: Sequence[Shape], budget: Budget) -> bool:
    """True if these shapes are enough to find an optimum: three depths and, if the size is free, as
    many shapes as the surface of losses has coefficients."""
    least = FEWEST_WHOLE if budget.sizes else FEWEST_DEPTHS
    return len({s.depth for s in shapes}) >= FEWEST_DEPTHS and len(shapes) >= least


def _nearest_working(space: ShapeLimits, budget: Budget) -> int | None:
    """The closest budget that has enough depths, among multiples 1.1^k rounded to two digits; None
    if none has."""
    if budget.count is Count.WIDTH or budget.sizes:
        return None  # every width, and every amount, has the depths of the space
    others = set(space.budgets) - {budget.params}
    for k in range(1, 60):
        for params in (budget.params * 1.1**k, budget.params / 1.1**k):
            rounded = int(float(f"{params:.2g}"))
            if rounded < 1:
                continue
            # With the others, because the smallest budget decides the width of heads.
            study = replace(space, budgets=(*others, rounded), budget=rounded)
            if _has_depths(study, replace(budget, params=rounded)):
                return rounded
    return None
