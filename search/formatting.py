"""Durations and rows of whole numbers as people say them."""

from collections.abc import Sequence


def format_seconds(seconds: float) -> str:
    """40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def format_hours(hours: float) -> str:
    """Hours of a processor, with two digits: 0.034, 1.2, 340."""
    return f"{float(f'{hours:.2g}'):g}"


def ranges(depths: Sequence[int]) -> str:
    """Ascending whole numbers in short: `1-4, 6, 8-12`."""
    parts: list[list[int]] = []
    for depth in depths:
        if parts and depth == parts[-1][-1] + 1:
            parts[-1].append(depth)
        else:
            parts.append([depth])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
