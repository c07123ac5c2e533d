"""The standing of each depth of a budget: the best, not ruled out, or ruled out, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.search.analysis.definitions import lowest_mean, not_ruled_out
from fathom.search.analysis.depth_estimates import DepthEstimate
from fathom.search.analysis.optimum import Located, Optimum
from fathom.search.analysis.verdict import PLATEAU_WIDTH
from fathom.search.formatting import ranges, rounded_count
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.text import counted, joined


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthStanding:
    """One depth at the horizon: its loss, and whether it is ruled out."""

    depth: int
    finished: int
    """Trials that trained to the end."""
    loss: float | None
    """Mean loss, nats; None where no trial finished."""
    error: float
    """Standard error of `loss`; 0 where it is not known."""
    gap: float | None
    """How far `loss` lies above the lowest mean loss of a depth, nats."""
    ruled_out: bool
    """True if the answer is settled, and the depth lies outside its interval and its plateau."""
    best: bool
    """True of the best depth itself."""
    why: str
    """The standing in words, with the distance from the best depth."""

    @property
    def text(self) -> str:
        """The depth and the reason, for hover texts."""
        return f"depth {self.depth}: {self.why}"


def depth_standings(records: Sequence[TrialRecord], optimum: Optimum) -> list[DepthStanding]:
    """Returns the standing of every depth that was tried, ascending."""
    measured = {estimate.depth: estimate for estimate in optimum.depths}
    tried: dict[int, list[TrialRecord]] = {depth: [] for depth in measured}
    for record in records:
        tried.setdefault(record.spec.shape.depth, []).append(record)
    return [_standing(depth, tried[depth], measured.get(depth), optimum) for depth in sorted(tried)]


def _standing(
    depth: int, records: Sequence[TrialRecord], estimate: DepthEstimate | None, optimum: Optimum
) -> DepthStanding:
    possible = _inside(depth, optimum) or depth in optimum.plateau
    out = optimum.kind.decided and not possible
    lowest = lowest_mean(optimum)
    gap = estimate.loss - lowest if estimate and lowest is not None else None
    error = estimate.standard_error if estimate and estimate.standard_error < float("inf") else 0.0
    return DepthStanding(
        depth=depth,
        finished=sum(record.outcome is Outcome.FINISHED for record in records),
        loss=estimate.loss if estimate else None,
        error=error,
        gap=gap,
        ruled_out=out,
        best=gap is not None and depth == optimum.optimal_depth,
        why=_unmeasured(records, out) if gap is None else _measured(depth, gap, out, optimum),
    )


def _measured(depth: int, gap: float, out: bool, optimum: Optimum) -> str:
    if depth == optimum.optimal_depth:
        return "the best"
    so_far = "" if optimum.kind.decided or depth in not_ruled_out(optimum) else " so far"
    above = f"{gap:.4f} nats above the lowest mean{so_far}"
    if out:
        return f"ruled out: outside the 95 % interval, {above}"
    if depth in not_ruled_out(optimum):
        outside = "" if _inside(depth, optimum) else "outside the 95 % interval, but "
        near = f"it may lie within {PLATEAU_WIDTH} nats of the best"
        return f"{outside}not ruled out: {near} ({above})"
    if optimum.kind.decided:
        return f"not ruled out: inside the 95 % interval, {above}"
    return above


def _unmeasured(records: Sequence[TrialRecord], out: bool) -> str:
    stopped = [record.tokens for record in records if record.outcome is Outcome.STOPPED]
    if not stopped:
        outcomes = dict.fromkeys(r.outcome.replace("_", " ") for r in records if r.outcome)
        return f"no loss: {joined(list(outcomes)) if outcomes else 'still running'}"
    at = f"stopped at {rounded_count(max(stopped))} tokens, where others were ahead"
    return f"ruled out: outside the 95 % interval, and {at}" if out else f"no final loss: {at}"


def _inside(depth: int, optimum: Optimum) -> bool:
    if not isinstance(optimum, Located):
        return True
    low, high = optimum.interval
    return low <= depth <= high


def ruled_out_text(standings: Sequence[DepthStanding]) -> str:
    """Returns which depths are ruled out and why, in one line; empty where none is."""
    out = [standing for standing in standings if standing.ruled_out]
    measured = [standing for standing in out if standing.gap is not None]
    parts = [f"{standing.depth} ({standing.gap:+.3f} nats)" for standing in measured]
    if stopped := [standing.depth for standing in out if standing.gap is None]:
        parts.append(f"{ranges(stopped)} (stopped early)")
    return f"Ruled out: depth {', '.join(parts)}." if parts else ""


def standing_row(standing: DepthStanding, costs: Mapping[str, str]) -> dict[str, str]:
    """Returns heading -> text of a depth, for a table, with what it costs."""
    error = f" ± {standing.error:.4f}" if standing.error else ""
    return {
        "depth": str(standing.depth),
        "finished": counted(standing.finished, "trial"),
        "loss (nats)": "" if standing.loss is None else f"{standing.loss:.4f}{error}",
        "above the lowest mean": "" if standing.gap is None else f"{standing.gap:+.4f}",
        **costs,
        "standing": standing.why,
    }
