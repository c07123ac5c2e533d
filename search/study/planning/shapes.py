"""The shapes of a budget: every shape whose size is within its tolerance.

For every depth and width the feed-forward width follows from the budget. Solving for d_ff hits a
budget far closer than solving for d_model: one step of d_ff is one part in thousands. Without
feed-forward branches (`space.feed_forward: false`) those widths are left that meet the budget.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from fathom.models.options import Positions
from fathom.models.shape import Count, Shape
from fathom.search.formatting import format_count
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import SpaceConfig
from fathom.search.study.planning.budget import Budget
from fathom.search.study.planning.shape_counter import (
    BUILDS_OF_A_WIDTH,
    MOST_BUILDS,
    TooManyBuildsError,
    counter_of,
)

FEWEST_DEPTHS = 3
"""Fewest depths of a budget: an optimum needs a depth on either side."""
LARGEST_D_MODEL = 2**17
SPARSE = 8
"""Widths of a user's own model are at least one part in so many apart."""
MOST_SHAPES = 200_000
"""Largest number of shapes of a budget; a budget of 1T with depths 1 to 1000 has fewer, and with
more, planning would take minutes."""
DEPTH_COUNTS = 3
"""Weight of depth against ratio in the distance of shapes: 10 % in depth equals 30 % in ratio."""
ROUNDING = 1e-9
"""Tolerance of ratios: 1.1 allows 11 for 10, which floating point puts just outside."""


def feasible_shapes(config: StudyConfig, budget: Budget, vocab_size: int) -> tuple[Shape, ...]:
    """All shapes within the budget's tolerance, sorted by depth and width.

    >>> from fathom.search.study.planning.budget import expand_budgets
    >>> from fathom.search.study.keys.config import parse
    >>> config = parse("{study: mine, objective: language, budgets: [300k]}")
    >>> shapes = feasible_shapes(config, expand_budgets(config)[0], vocab_size=256)
    >>> len(shapes), max(abs(shape.params_total - 300_000) for shape in shapes)
    (79, 1216)

    Raises:
        PlanError: when fewer than three depths have a shape; names the nearest budget that works.
    """
    shapes = _shapes(config, budget, vocab_size)
    if len({shape.depth for shape in shapes}) < FEWEST_DEPTHS:
        raise PlanError(_explain(config, budget, vocab_size, shapes))
    return shapes


def nearest_shape(shapes: tuple[Shape, ...], *, depth: float, ff_ratio: float) -> Shape:
    """The feasible shape nearest to a point: by depth first, then by ratio, both in log."""
    nearest_depth = min({shape.depth for shape in shapes}, key=lambda d: abs(math.log(d / depth)))
    return min(
        (shape for shape in shapes if shape.depth == nearest_depth),
        key=lambda shape: shape.off_ratio(ff_ratio),
    )


def comparable_shape(shapes: Sequence[Shape], *, depth: float, ff_ratio: float) -> Shape:
    """The feasible shape near a depth whose ratio is nearly this one, even if another depth is
    nearer: the effect of the ratio is known too little to compare depths across ratios."""

    def off(shape: Shape) -> float:
        return DEPTH_COUNTS * abs(math.log(shape.depth / depth)) + shape.off_ratio(ff_ratio)

    return min(shapes, key=off)


def default_head_dim(config: StudyConfig) -> int:
    """Default width of a head: small for small budgets, which then have more widths to choose
    from."""
    smallest = min(config.budgets)
    if smallest < 10_000_000:
        return 16
    return 32 if smallest < 100_000_000 else 64


@dataclass(frozen=True, slots=True)
class _Width:
    """One value of d_model; its shapes have `outside + blocks * (block + per_d_ff * d_ff)`
    parameters, and `cross` for each layer of a decoder that has an encoder."""

    outside: int
    block: int
    per_d_ff: int
    d_ffs: range
    """Feed-forward widths that the ratios allow, ascending; may be empty."""
    looped: bool
    """True if all layers share one block."""
    cross: int
    space: SpaceConfig

    def params(self, depth: int, d_ff: int) -> int:
        """Parameters of a shape of this width."""
        blocks = self._blocks(depth) * (self.block + self.per_d_ff * d_ff)
        return self._outside(depth) + blocks

    def nearest_d_ff(self, depth: int, params: int) -> int:
        """The allowed feed-forward width whose shape is nearest to a number of parameters."""
        if not self.per_d_ff:
            return self.d_ffs[0]
        of_blocks = params - self._outside(depth)
        wanted = (of_blocks / self._blocks(depth) - self.block) / self.per_d_ff
        index = round((wanted - self.d_ffs.start) / self.d_ffs.step)
        return self.d_ffs[min(max(index, 0), len(self.d_ffs) - 1)]

    def depths(self, least: float, most: float) -> tuple[float, float]:
        """Smallest and largest depth at which a shape of this width can have that many parameters.

        From the thickest layers to the thinnest; empty when the first is above the second.
        """
        thinnest, thickest = (self.block + self.per_d_ff * self.d_ffs[end] for end in (0, -1))
        thickest += self.cross  # as though all layers were a decoder's
        fewest, more = (least - self.outside) / thickest, (most - self.outside) / thinnest
        if not self.looped:
            return fewest, more
        return (0, math.inf) if fewest <= 1 <= more else (1, 0)

    def _outside(self, depth: int) -> int:
        decoder_layers = depth - self.space.encoder_depth(depth)
        return self.outside + self.cross * decoder_layers

    def _blocks(self, depth: int) -> int:
        return 1 if self.looped else depth


def _shapes(config: StudyConfig, budget: Budget, vocab_size: int) -> tuple[Shape, ...]:
    """All shapes of a budget, by the way that its unit is solved."""
    if budget.count is Count.HEADS:
        shapes = _sharing_heads(config, budget, vocab_size)
    elif budget.count is Count.WIDTH:
        shapes = _stacked(config, budget.params, vocab_size)
    else:
        return _solve(config, budget, vocab_size)
    return tuple(shape for shape in shapes if abs(budget.count_error(shape)) <= budget.tolerance)


def _stacked(config: StudyConfig, d_model: int, vocab_size: int) -> list[Shape]:
    """Shapes of one width, one for each depth."""
    key = "budgets" if config.space.d_model is None else "space.d_model"
    _check_width(d_model, _width_step(config), key=key)
    d_ff = round(config.space.ff_ratio[0] * d_model) if config.space.feed_forward else 0
    return [build_shape(config, vocab_size, depth, d_model, d_ff) for depth in config.space.depths]


def _check_width(d_model: int, step: int, *, key: str) -> None:
    """Raises `PlanError` if heads of the study do not fit a width that it gives."""
    if d_model % step:
        raise PlanError(
            f"`{key}` must be a multiple of {step}, which the heads of `space` need, got "
            f"{d_model}; use {d_model // step * step or step}, or other heads",
            key=key,
        )


def _sharing_heads(config: StudyConfig, budget: Budget, vocab_size: int) -> list[Shape]:
    """Shapes with the same total number of heads, one for each depth."""
    assert config.space.d_model is not None, "checked with the study"
    group = config.model.attention.queries_per_key
    return [
        replace(shape, n_heads=group * max(1, round(budget.params / shape.depth / group)))
        for shape in _stacked(config, config.space.d_model, vocab_size)
    ]


def _solve(config: StudyConfig, budget: Budget, vocab_size: int) -> tuple[Shape, ...]:
    step = _width_step(config)
    shallowest = config.space.depths[0]
    fixed = config.space.d_model
    if fixed:
        _check_width(fixed, heads_step(config), key="space.d_model")
    shapes = []
    for d_model in (fixed,) if fixed else _widths(config, step):
        width = _width(config, budget, vocab_size, d_model)
        if width.params(shallowest, width.d_ffs.start) > budget.params * (1 + budget.tolerance):
            break  # nor does anything wider fit
        for depth in _depths(config, budget, width):
            d_ff = width.nearest_d_ff(depth, budget.params)
            if abs(width.params(depth, d_ff) / budget.params - 1) <= budget.tolerance:
                shapes.append(build_shape(config, vocab_size, depth, d_model, d_ff))
        if shapes and shapes[-1].d_model == d_model and (counter := counter_of(config)):
            counter.show(shapes[-1])  # the deepest of this width
        if len(shapes) > MOST_SHAPES:
            raise PlanError(
                f"budget {budget.label} has more than {MOST_SHAPES:,} shapes; narrow `space.depth` "
                "or raise `space.d_model_multiple`"
            )
    return tuple(sorted(shapes, key=lambda shape: (shape.depth, shape.d_model)))


def _widths(config: StudyConfig, step: int) -> Iterator[int]:
    """Values of d_model to try, ascending: every multiple of the step; for a user's own model, of
    which each width takes several to be counted, those at least an eighth apart."""
    d_model, own, sparse = step, config.model.build, config.space.feed_forward
    for number in range(LARGEST_D_MODEL):
        if d_model >= LARGEST_D_MODEL:
            return
        if own and number == MOST_BUILDS // BUILDS_OF_A_WIDTH:
            raise TooManyBuildsError(own)
        yield d_model
        d_model += math.ceil(d_model / (SPARSE * step)) * step if own and sparse else step


def _depths(config: StudyConfig, budget: Budget, width: _Width) -> Sequence[int]:
    """Depths at which a width may meet the budget."""
    if not width.d_ffs:
        return ()
    low, high = width.depths(*(budget.params * (1 + sign * budget.tolerance) for sign in (-1, 1)))
    depths = config.space.depths
    return depths[bisect_left(depths, low - ROUNDING) : bisect_right(depths, high + ROUNDING)]


def _width(config: StudyConfig, budget: Budget, vocab_size: int, d_model: int) -> _Width:
    # A few sizes fix what is affine in the depth of each stack and in the feed-forward width.
    d_ffs = _d_ffs(config, d_model)
    first = 1 if config.space.feed_forward else 0  # without the branch its norm is not there either
    encoder = 1 if config.space.split else 0

    def size(encoder_depth: int, decoder_depth: int, d_ff: int) -> int:
        depth = encoder_depth + decoder_depth
        shape = build_shape(config, vocab_size, depth, d_model, d_ff, encoder_depth=encoder_depth)
        return replace(shape, looped=False).size(budget.count)

    one, wider = size(encoder, 1, first), size(encoder, 1, 2 * first)
    of_decoder = size(encoder, 2, first) - one
    of_encoder = size(2, 1, first) - one if encoder else of_decoder
    per_d_ff = (wider - one) // (1 + encoder)
    return _Width(
        outside=one - of_decoder - encoder * of_encoder,
        block=of_encoder - per_d_ff,
        per_d_ff=per_d_ff,
        d_ffs=d_ffs,
        looped=config.model.looped and budget.count is not Count.FLOPS,
        cross=of_decoder - of_encoder,
        space=config.space,
    )


def _d_ffs(config: StudyConfig, d_model: int) -> range:
    if not config.space.feed_forward:
        return range(1)
    multiple = config.space.d_ff_multiple or _default_multiple(config)
    low, high = (ratio * d_model / multiple for ratio in config.space.ff_ratio)
    return range(
        multiple * max(1, math.ceil(low - ROUNDING)),
        multiple * math.floor(high + ROUNDING) + 1,
        multiple,
    )


def heads_step(config: StudyConfig) -> int:
    """The number of which widths are multiples because of their heads."""
    space = config.space
    if space.n_heads and space.head_dim:
        return 1
    if space.n_heads:
        rotary = config.model.positions is Positions.ROTARY and not config.model.build
        return space.n_heads * (2 if rotary else 1)
    return (space.head_dim or default_head_dim(config)) * config.model.attention.queries_per_key


def _width_step(config: StudyConfig) -> int:
    multiple = config.space.d_model_multiple or _default_multiple(config)
    return math.lcm(heads_step(config), multiple)


def _default_multiple(config: StudyConfig) -> int:
    """Default multiple of widths: 8 suits hardware, but is too coarse below 1M parameters."""
    return 1 if min(config.budgets) < 1_000_000 else 8


def build_shape(
    config: StudyConfig, vocab_size: int, depth: int, d_model: int, d_ff: int, *,
    encoder_depth: int | None = None,
) -> Shape:  # fmt: skip
    """The shape of these sizes with the heads, the model options and, unless another is given, the
    split of the study."""
    n_heads, head_dim = _heads(config, d_model)
    stacks: dict[str, Any] = {}
    if config.space.split:
        own = 0 if config.model.tied_source else vocab_size
        stacks = {
            "encoder_depth": encoder_depth or config.space.encoder_depth(depth),
            "source_vocab_size": config.objective.source_vocab_size() or own,
        }
    shape = Shape(
        depth=depth,
        d_model=d_model,
        d_ff=d_ff,
        n_heads=n_heads,
        head_dim=head_dim,
        vocab_size=vocab_size,
        context=config.objective.context,
        **config.model.options,
        **stacks,
    )
    counter = counter_of(config)
    return counter.counted(shape, _d_ffs(config, d_model)) if counter else shape


def smallest_shape(config: StudyConfig, vocab_size: int) -> Shape:
    """The smallest shape that the study allows, of whatever size."""
    d_model = config.space.d_model or _width_step(config)
    return build_shape(
        config, vocab_size, config.space.depths[0], d_model, _d_ffs(config, d_model).start
    )


def _heads(config: StudyConfig, d_model: int) -> tuple[int, int]:
    """Number of heads and their width; one of them follows d_model unless the study fixes both."""
    space = config.space
    if space.n_heads:
        return space.n_heads, space.head_dim or d_model // space.n_heads
    head_dim = space.head_dim or default_head_dim(config)
    return d_model // head_dim, head_dim


def _explain(
    config: StudyConfig, budget: Budget, vocab_size: int, shapes: tuple[Shape, ...]
) -> str:
    depths = sorted({shape.depth for shape in shapes})
    found = f"only at depth {', '.join(map(str, depths))}" if depths else "at no depth"
    smallest = smallest_shape(config, vocab_size)
    outside = smallest.params_total - smallest.params_non_embedding
    cause = ""
    if budget.count == "total" and outside > budget.params / 4:
        cause = (
            f" (the embedding of {vocab_size} tokens alone takes {format_count(outside)} "
            f"at d_model {smallest.d_model})"
        )
    return (
        f"budget {budget.label} ({budget.count.unit_in_full}, within "
        f"{budget.tolerance:.1%}) has shapes {found}{cause}; {FEWEST_DEPTHS} depths are needed; "
        f"{_remedy(config, _nearest_working(config, budget, vocab_size))}"
    )


def _remedy(config: StudyConfig, working: int | None) -> str:
    if not config.space.feed_forward:
        near = f"; the nearest budget that works is {format_count(working)}" if working else ""
        return (
            "without feed-forward only widths are left to choose: raise `tolerance`, or fix both "
            f"`space.head_dim` and `space.n_heads`, which frees them{near}"
        )
    if working:
        return f"the nearest budget that works is {format_count(working)}"
    return "no budget near it works; widen `space.depth`, `space.ff_ratio` or `tolerance`"


def _nearest_working(config: StudyConfig, budget: Budget, vocab_size: int) -> int | None:
    """The closest budget that has enough depths, among multiples 1.1^k rounded to two digits; None
    if none has."""
    if budget.count is Count.WIDTH:
        return None  # every width has the depths of the space
    others = set(config.budgets) - {budget.params}
    for k in range(1, 60):
        for params in (budget.params * 1.1**k, budget.params / 1.1**k):
            rounded = int(float(f"{params:.2g}"))
            if rounded < 1:
                continue
            # In the study, because the smallest budget decides what sizes are multiples of.
            study = config.model_copy(update={"budgets": tuple(sorted(others | {rounded}))})
            with suppress(TooManyBuildsError):
                shapes = _shapes(study, replace(budget, params=rounded), vocab_size)
                if len({shape.depth for shape in shapes}) >= FEWEST_DEPTHS:
                    return rounded
    return None
