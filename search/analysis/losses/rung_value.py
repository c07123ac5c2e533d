"""The value of a trial at a rung: a median over its last evaluations."""

from collections.abc import Sequence

MEDIAN_OF = 3
"""Number of evaluations whose median is a trial's loss at a rung; the default of
`stopping.median_of`."""
LOOK_BACK = 4
"""Factor between a rung's tokens and the tokens from which the slope there is measured; over
shorter spans, noise dominates."""


def rung_value(losses: Sequence[float], median_of: int = MEDIAN_OF) -> float:
    """The median of the last `median_of` losses of a curve, which is robust to spikes."""
    return median(losses[-median_of:])


def median(values: Sequence[float]) -> float:
    """The median, as by `statistics.median` but in a third of the time: a large study needs
    millions of medians."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
