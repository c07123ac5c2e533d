"""Values of the optimum of one budget: the verdict, the best depth with its interval if it can be
located, and the costs of other depths."""

from dataclasses import dataclass
from typing import ClassVar

from fathom.models.shape import Count, Shape
from fathom.models.spend import Spend
from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer.verdict import Kind, Verdict
from fathom.search.analysis.curve_families import Parabola, PowerCurve
from fathom.search.analysis.losses.depth_estimates import DepthEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The likeliest curve of each family through the losses of the depths."""

    power: PowerCurve
    """`a L^-p + b L^q + c`, from which the answer is read."""
    parabola: Parabola


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthCost:
    """Cost of a depth compared with the best one, nats."""

    depth: int
    nats: float
    """Expected loss above that of the best depth."""
    interval: tuple[float, float]
    """95 % interval of `nats`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSize:
    """The best size when all models spend an equal amount."""

    spend: Spend
    unit: Unit
    sizes: tuple[int, int]
    """The smallest and the largest size that was trained with this amount."""
    size: int | None
    """Size with the lowest expected loss; None with fewer than three sizes."""
    loss: float | None
    """Expected loss at `size`, nats."""
    interval: tuple[int, int] | None
    """95 % interval of the best size."""
    plateau: tuple[int, int] | None
    """The smallest and the largest size that can't be told from the best."""
    verdict: Verdict
    costs: tuple[DepthCost, ...]
    """Costs of about half and twice the size, if in the trained range; their `depth` is a size."""
    noise: float
    """Standard deviation of the loss between seeds, nats."""
    region: tuple[tuple[int, int], ...] = ()
    """Pairs (size, depth) that include the best pair with a probability of 95 %, the likeliest
    first; empty for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAnswer:
    """Answer from the trials of one budget after `tokens` of training, located or not."""

    budget: int
    count: Count
    tokens: int
    """Training tokens of a trial that runs to the end, for `shape` if they depend on the shape."""
    shared_spend: Spend | None = None
    """Amount that each trial spends to the end, equal for all; None if it is `tokens`. In a table,
    it may be steps or unknown."""
    verdict: Verdict
    shape: Shape | None
    """The best finished shape of the best depth, or of another depth if none of that depth
    finished; None for a table, and where no trial finished."""
    depths: tuple[DepthEstimate, ...]
    """Estimates of the depths, ascending."""
    noise: float
    """Standard deviation of the loss between seeds, nats per token."""
    params_slope: float
    """Slope by which losses were corrected for size, nats for each unit of ln(parameters)."""
    best_ff_ratio: float | None
    """Feed-forward ratio with the lowest loss, among those that finished; None without branches."""
    trials: dict[str, int]
    """Outcome -> number of trials, every outcome present."""
    unit: Unit = NATS
    """Unit in which losses are reported; here they are in nats."""
    best_size: BestSize | None = None
    """The best size, where the budget leaves it free."""

    @property
    def spend(self) -> Spend:
        """Spend of each trial that runs to the end, the same for all."""
        return self.shared_spend or Spend(self.tokens)

    @property
    def kind(self) -> Kind:
        """The kind of the verdict."""
        return self.verdict.kind

    @property
    def least_depth(self) -> int:
        """The fewest layers that such a model can have."""
        return self.shape.least_depth if self.shape else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Located(BudgetAnswer):
    """The best depth of a budget with three finished depths or more."""

    optimal_depth: int
    """The depth that is expected to cost least. In a search it is one of the plateau's finished
    depths or, without these, of all finished depths; in a table, one of all depths."""
    lowest_depth: int
    """The tested depth with the lowest measured loss."""
    loss: float
    """Expected loss at `optimal_depth`, nats per token."""
    interval: tuple[int, int]
    """95 % interval in whole depths."""
    probabilities: tuple[tuple[int, float], ...]
    """Pairs of a depth and its probability of being the best, if at least `MENTIONED`; the
    likeliest first."""
    chance_of_cost: float
    """Probability that `optimal_depth` costs more than `PLATEAU_WIDTH` against the best."""
    curve_minimum: float
    """Depth where the curve is lowest, before rounding."""
    curve_minimum_interval: tuple[float, float]
    """95 % interval of `curve_minimum`, before rounding."""
    plateau: tuple[int, ...]
    """Every whole depth of the tested range that can't be distinguished from the best."""
    curves: Curves
    family_disagreement: float
    """Factor, at least 1, between the depths that the two families call best."""
    costs: tuple[DepthCost, ...]
    """Costs of the other whole depths of the tested range, by ascending depth."""
    share_without_minimum: float
    """Probability that the loss has no lowest point inside the tested range, but falls on to an
    end of it."""

    @property
    def curvature(self) -> float | None:
        """Cost in nats of a depth one unit of ln depth away from the best; None where the parabola
        has no lowest point."""
        c2 = self.curves.parabola.c2
        return c2 if c2 > 0 else None

    @property
    def better(self) -> DepthCost | None:
        """The depth that is expected to cost least, if it is not the answer because it did not
        finish."""
        least = min(self.costs, key=lambda cost: cost.nats, default=None)
        return least if least and least.nats < 0 else None

    @property
    def expected_depth(self) -> int:
        """The depth that is expected to cost least, whether it finished or not."""
        return self.better.depth if self.better else self.optimal_depth

    @property
    def expected_loss(self) -> float:
        """Expected loss at `expected_depth`, nats per token."""
        return self.loss + (self.better.nats if self.better else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLocated(BudgetAnswer):
    """A budget with fewer than three finished depths, or whose curve falls far below the measured
    losses."""

    lowest_depth: int | None
    """The tested depth with the lowest measured loss; None when no trial finished."""
    curves: ClassVar[None] = None
    """None, since a curve needs three depths; the fields below, which need a curve, are empty too.
    """
    interval: ClassVar[None] = None
    probabilities: ClassVar[tuple[tuple[int, float], ...]] = ()
    chance_of_cost: ClassVar[None] = None
    curve_minimum: ClassVar[None] = None
    curve_minimum_interval: ClassVar[None] = None
    family_disagreement: ClassVar[None] = None
    costs: ClassVar[tuple[DepthCost, ...]] = ()
    share_without_minimum: ClassVar[None] = None

    @property
    def optimal_depth(self) -> int | None:
        """The best of fewer than three depths; None where none finished."""
        return self.lowest_depth

    @property
    def loss(self) -> float | None:
        """Mean loss at `lowest_depth`, nats per token."""
        lowest = (known.loss for known in self.depths if known.depth == self.lowest_depth)
        return next(lowest, None)

    @property
    def plateau(self) -> tuple[int, ...]:
        """The best depth, if there is one."""
        return (self.optimal_depth,) if self.optimal_depth else ()

    @property
    def expected_depth(self) -> int | None:
        """The answer: without a curve, no other depth is expected to cost less."""
        return self.optimal_depth


Optimum = Located | NotLocated
"""The optimum of one budget."""
