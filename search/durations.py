"""Durations as people say them."""


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
