"""The space of a study's shapes: the sizes that it allows, and the shape of given sizes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from fathom.models.options import Positions
from fathom.models.shape import Shape
from fathom.search.study.file.errors import PlanError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import SpaceConfig, default_head_dim, default_multiple
from fathom.search.study.keys.model_group import ModelConfig
from fathom.search.study.planning.space import shape_counter

LARGEST_D_MODEL = 2**17
SPARSE = 8
"""Widths tried for a user's own model differ by at least one part in this number."""
ROUNDING = 1e-9
"""Tolerance of ratios: 1.1 allows 11 for 10, which floating point puts just outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeLimits:
    """Options that the shapes of a study share, and the limits on their sizes."""

    limits: SpaceConfig
    model: ModelConfig
    budgets: tuple[int, ...]
    """Budgets of the study; the smallest one decides the default width of heads."""
    budget: int
    """The budget that these shapes are to meet; it decides the divisor of all widths."""
    context: int
    vocab_size: int
    source_vocab_size: int
    """Token ids of the sources, which an encoder reads; 0 if both stacks share an embedding."""
    counter: shape_counter.OwnCounter | None
    """Counts shapes of a user's own model; None for the built-in one, which has closed forms."""

    @classmethod
    def of(cls, config: StudyConfig, vocab_size: int, *, budget: int | None = None) -> Self:
        """The space of a budget, by default the smallest, of a study whose objective has
        `vocab_size` token ids."""
        source_vocab_size = 0
        if config.space.split:
            shared = 0 if config.model.tied_source else vocab_size
            source_vocab_size = config.objective.source_vocab_size() or shared
        return cls(
            limits=config.space,
            model=config.model,
            budgets=config.budgets,
            budget=budget or min(config.budgets),
            context=config.objective.context,
            vocab_size=vocab_size,
            source_vocab_size=source_vocab_size,
            counter=shape_counter.counter_of(config.model, config.space),
        )

    def shape(
        self, depth: int, d_model: int, d_ff: int, *, encoder_depth: int | None = None
    ) -> Shape:
        """The shape of these sizes; its encoder follows the study's split unless `encoder_depth` is
        given."""
        n_heads, head_dim = self._heads(d_model)
        stacks: dict[str, Any] = {}
        if self.limits.split:
            stacks["encoder_depth"] = encoder_depth or self.limits.encoder_depth(depth)
            stacks["source_vocab_size"] = self.source_vocab_size
        shape = Shape(
            depth=depth,
            d_model=d_model,
            d_ff=d_ff,
            n_heads=n_heads,
            head_dim=head_dim,
            vocab_size=self.vocab_size,
            context=self.context,
            **self.model.options,
            **stacks,
        )
        return self.counter.counted(shape, self.d_ffs(d_model)) if self.counter else shape

    def smallest(self) -> Shape:
        """The smallest shape that the study allows, regardless of its budgets."""
        d_model = self.limits.d_model or self.width_step
        return self.shape(self.limits.depths[0], d_model, self.d_ffs(d_model).start)

    def d_ffs(self, d_model: int) -> range:
        """Feed-forward widths that the ratios allow, ascending; may be empty."""
        if not self.limits.feed_forward:
            return range(1)
        multiple = self.limits.d_ff_multiple or default_multiple(self.budget)
        multiple = math.lcm(multiple, self.model.groups)
        low, high = (ratio * d_model / multiple for ratio in self.limits.ff_ratio)
        return range(
            multiple * max(1, math.ceil(low - ROUNDING)),
            multiple * math.floor(high + ROUNDING) + 1,
            multiple,
        )

    def widths(self) -> Iterator[int]:
        """Values of d_model to try, ascending: the study's own, or every multiple of the step. For
        a user's own model, where counting a width takes several models, only widths at least an
        eighth apart.

        Raises:
            PlanError: if heads of the study do not fit the width that it gives, or a user's own
                model would be built too often.
        """
        if self.limits.d_model:
            self.check_width(self.limits.d_model, self.heads_step, key="space.d_model")
            yield self.limits.d_model
            return
        step, built = self.width_step, self.model.build
        d_model, sparse = step, built and self.limits.feed_forward
        for number in range(LARGEST_D_MODEL):
            if d_model >= LARGEST_D_MODEL:
                return
            if built and number == shape_counter.MOST_BUILDS // shape_counter.BUILDS_OF_A_WIDTH:
                raise shape_counter.TooManyBuildsError(built)
            yield d_model
            d_model += math.ceil(d_model / (SPARSE * step)) * step if sparse else step

    def check_width(self, d_model: int, step: int, *, key: str) -> None:
        """Raises `PlanError` if heads of the study do not fit a width that it gives."""
        if d_model % step:
            need = "the heads of `space` need"
            if self.model.groups > 1:
                need = "the heads of `space` and `model.groups` need"
            raise PlanError(
                f"`{key}` must be a multiple of {step}, which {need}, got "
                f"{d_model}; use {d_model // step * step or step}, or other heads",
                key=key,
            )

    @property
    def heads_step(self) -> int:
        """Number that divides all widths because of the heads, the groups of the model and the
        heads that share keys."""
        limits, groups = self.limits, self.model.groups
        if limits.n_heads and limits.head_dim:
            return groups
        of_keys = self.model.attention.queries_per_key
        heads = self._head_dim * of_keys
        if limits.n_heads:
            rotary = self.model.options["positions"] is Positions.ROTARY
            heads = limits.n_heads * (2 if rotary else 1)
        return math.lcm(heads, groups * of_keys)

    @property
    def width_step(self) -> int:
        """Number that divides all widths."""
        multiple = self.limits.d_model_multiple or default_multiple(self.budget)
        return math.lcm(self.heads_step, multiple)

    @property
    def _head_dim(self) -> int:
        return self.limits.head_dim or default_head_dim(min(self.budgets))

    def _heads(self, d_model: int) -> tuple[int, int]:
        """Number of heads and their width; one of them follows d_model unless the study fixes
        both."""
        n_heads = self.limits.n_heads
        if n_heads:
            return n_heads, self.limits.head_dim or d_model // n_heads
        return d_model // self._head_dim, self._head_dim
