"""Definitions shared by the page, the terminal, MLflow, the CSV files, `status` and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from fathom.search.analysis.answer.optimum import DepthCost, Located, Optimum
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from fathom.search.records import Outcome, TrialRecord


class Standing(Enum):
    """Standing of a depth compared with the answer of its budget."""

    ANSWER = auto()
    NOT_RULED_OUT = auto()
    """The depth is one of `not_ruled_out`."""
    IN_DOUBT = auto()
    """The depth finished, and is neither ruled out nor as good as the best for practical
    purposes."""
    RULED_OUT = auto()
    """The depth finished, lies outside the interval, and the 95 % interval of its cost is above
    0."""
    NOT_FINISHED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthStanding:
    """One depth at the horizon: its loss, its cost, and its standing compared with the answer."""

    depth: int
    standing: Standing
    loss: float | None
    """Expected loss, nats; None where it is not known."""
    cost: DepthCost | None
    """Cost of the depth compared with the answer; None for the answer itself, and if not known."""
    estimate: DepthEstimate | None
    """The estimated mean loss of the depth's finished trials; None where none finished."""
    records: tuple[TrialRecord, ...]
    """Trials of the depth."""

    @property
    def finished(self) -> int:
        """Number of trials that trained to the end."""
        return sum(record.outcome is Outcome.FINISHED for record in self.records)


def not_ruled_out(optimum: Optimum) -> tuple[int, ...]:
    """Returns the depths that are not ruled out, ascending: the answer, and finished depths in the
    plateau, or in the interval if they may be the best.

    Depths that never finished are left out: they have no loss to show.
    """
    finished = {estimate.depth for estimate in optimum.depths}
    answer = {optimum.optimal_depth} if optimum.optimal_depth else set[int]()
    likely = {depth for depth, _ in optimum.probabilities if is_inside(depth, optimum)}
    return tuple(sorted(answer.union(finished.intersection(likely.union(optimum.plateau)))))


def is_inside(depth: int, optimum: Optimum) -> bool:
    """True if the depth lies in the 95 % interval; without one every depth is inside."""
    low, high = optimum.interval or (depth, depth)
    return low <= depth <= high


def cost_of(optimum: Optimum, depth: int) -> DepthCost | None:
    """Returns the cost of a depth compared with the answer, by the posterior; None for the answer
    itself, and outside the tested range."""
    return next((cost for cost in optimum.costs if cost.depth == depth), None)


def loss_of(optimum: Optimum, depth: int) -> float | None:
    """Returns the expected loss of a depth, nats: the answer's loss plus the cost of the depth.
    With fewer than three finished depths it is the mean of its trials. None where it is not
    known."""
    if not isinstance(optimum, Located):
        return next((known.loss for known in optimum.depths if known.depth == depth), None)
    if depth == optimum.optimal_depth:
        return optimum.loss
    cost = cost_of(optimum, depth)
    return optimum.loss + cost.nats if cost else None


def depth_standings(records: Sequence[TrialRecord], optimum: Optimum) -> list[DepthStanding]:
    """Returns the standing of every depth that was tried, ascending."""
    estimates = {estimate.depth: estimate for estimate in optimum.depths}
    tried = {record.spec.shape.depth for record in records}
    return [
        DepthStanding(
            depth=depth,
            standing=_standing(depth, optimum),
            loss=loss_of(optimum, depth),
            cost=cost_of(optimum, depth),
            estimate=estimates.get(depth),
            records=tuple(record for record in records if record.spec.shape.depth == depth),
        )
        for depth in sorted(tried.union(estimates))
    ]


def _standing(depth: int, optimum: Optimum) -> Standing:
    if depth == optimum.optimal_depth:
        return Standing.ANSWER
    if depth in not_ruled_out(optimum):
        return Standing.NOT_RULED_OUT
    if depth not in {estimate.depth for estimate in optimum.depths}:
        return Standing.NOT_FINISHED
    cost = cost_of(optimum, depth)
    is_worse = cost is not None and cost.interval[0] > 0
    is_out = optimum.kind.decided and is_worse and not is_inside(depth, optimum)
    return Standing.RULED_OUT if is_out else Standing.IN_DOUBT
