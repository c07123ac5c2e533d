"""The standing of each depth of a budget in words: its cost, and why it is ruled out or not."""

from collections.abc import Mapping
from math import inf

from fathom.search.analysis.answer.definitions import DepthStanding, Standing, is_inside
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.formatting import rounded_count
from fathom.search.records import Outcome
from fathom.search.report.words.other_depths import cost_text
from fathom.search.report.words.text import counted, joined, loss_text
from fathom.search.words import plateau_width


def standing_text(known: DepthStanding, optimum: Optimum) -> str:
    """Returns the standing of a depth and its reason."""
    match known.standing:
        case Standing.ANSWER:
            return "the best" if optimum.kind.decided else "the best estimate"
        case Standing.NOT_RULED_OUT:
            return f"not ruled out: it may lie within {plateau_width(optimum.unit)} of the best"
        case Standing.RULED_OUT:
            return "ruled out: outside the 95 % interval, and worse than the best (95 %)"
        case Standing.NOT_FINISHED:
            return _unfinished(known)
        case Standing.IN_DOUBT if not optimum.kind.decided:
            return "in doubt: this verdict rules no depth out"
        case Standing.IN_DOUBT:
            inside = is_inside(known.depth, optimum)
            why = "inside the 95 % interval" if inside else "it may cost nothing"
            return f"in doubt: {why}"


def _unfinished(known: DepthStanding) -> str:
    stopped = [record.tokens for record in known.records if record.outcome is Outcome.STOPPED]
    if stopped:
        at = f"stopped at {rounded_count(max(stopped))} tokens"
        return f"no final loss: {at}, where others were ahead"
    outcomes = dict.fromkeys(r.outcome.replace("_", " ") for r in known.records if r.outcome)
    return f"no loss: {joined(list(outcomes)) if outcomes else 'still running'}"


def hover_text(known: DepthStanding, optimum: Optimum) -> str:
    """Returns the depth, its standing and what it costs, for hover texts."""
    unit = optimum.unit
    cost = f"; {cost_text(known.cost, unit, f' {unit}')}" if known.cost else ""
    return f"depth {known.depth}: {standing_text(known, optimum)}{cost}"


def standing_row(
    known: DepthStanding, optimum: Optimum, costs: Mapping[str, str]
) -> dict[str, str]:
    """Returns a row of a table: texts on a depth and its cost, by heading."""
    mean, unit = known.estimate, optimum.unit
    known_error = mean is not None and 0 < mean.standard_error < inf
    error = f" ± {unit.difference(mean.standard_error):.4f}" if mean and known_error else ""
    return {
        "depth": str(known.depth),
        "finished": counted(known.finished, "trial"),
        f"mean of its trials ({unit})": f"{unit.value(mean.loss):.4f}{error}" if mean else "",
        unit.label: loss_text(known.loss, unit),
        **costs,
        "standing": standing_text(known, optimum),
    }
