"""Definitions that the page, the terminal, MLflow, the CSV files, `status` and JSON share."""

from fathom.search.analysis.optimum import Optimum
from fathom.search.records import Outcome


def not_ruled_out(optimum: Optimum) -> tuple[int, ...]:
    """Returns the answer and the depths of the plateau that finished, ascending.

    The plateau reads depths off a curve; one that never finished has no loss to show.
    """
    finished = {estimate.depth for estimate in optimum.depths}
    answer = {optimum.optimal_depth} if optimum.optimal_depth else set[int]()
    return tuple(sorted(answer.union(finished.intersection(optimum.plateau))))


def lowest_mean(optimum: Optimum) -> float | None:
    """Returns the lowest mean loss of a finished depth, nats, to which the others are compared;
    None where none finished."""
    return min((estimate.loss for estimate in optimum.depths), default=None)


def stopped_trials(optimum: Optimum) -> int:
    """Returns the number of trials that were stopped at a rung and not resumed."""
    return optimum.trials[Outcome.STOPPED]
