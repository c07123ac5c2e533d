"""Numbers as people write them: counts, durations and ranges of whole numbers; texts and
commands as a terminal may show them."""

import shlex
from collections.abc import Sequence

from fathom.models.shape import Count
from fathom.models.spend import Spend

SUFFIXES = (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3))


def format_count(number: float) -> str:
    """A number in short, with at most three digits after the point: 300k, 1M, 1.5B.

    >>> format_count(1_500_000)
    '1.5M'
    """
    for suffix, size in SUFFIXES:
        if abs(number) >= size:
            return f"{number / size:.3f}".rstrip("0").rstrip(".") + suffix
    return f"{number:g}"


def budget_text(budget: float, count: Count) -> str:
    """A budget in short, with its unit unless that is parameters: 1M, 12 seconds, 96 heads."""
    return format_count(budget) + ("" if count.of_parameters else f" {count.unit}")


def exact_count(number: int) -> str:
    """A number in short if that is exact, otherwise in full: 1.5M, 1234567."""
    size = next((size for _, size in SUFFIXES if number >= size), 1)
    return format_count(number) if number * 1000 % size == 0 else str(number)


def rounded_count(number: float) -> str:
    """A number in short, rounded to three significant digits: 1.23M, 1e+15."""
    rounded = f"{number:.3g}"
    return format_count(float(rounded)) if abs(number) < 10**15 else rounded


def spend_text(spend: Spend) -> str:
    """Spend of a training as text, rounded to three significant digits: 1.23M tokens, 1e+15 FLOPs;
    empty if it is not known."""
    return f"{rounded_count(spend.amount)} {spend.coin}" if spend.coin else ""


def format_seconds(seconds: float) -> str:
    """A duration in seconds, minutes or hours: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"


def format_hours(hours: float) -> str:
    """A number of hours with two significant digits: 0.034, 1.2, 340."""
    return f"{float(f'{hours:.2g}'):g}"


def format_bytes(count: float) -> str:
    """`count` bytes as TB, as GB below one TB, or as MB below one GB."""
    if count >= 1e12:
        return f"{count / 1e12:.3g} TB"
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def ranges(depths: Sequence[int]) -> str:
    """Ascending whole numbers with runs joined: `1-4, 6, 8-12`."""
    parts: list[list[int]] = []
    for depth in depths:
        if parts and depth == parts[-1][-1] + 1:
            parts[-1].append(depth)
        else:
            parts.append([depth])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def printable(text: str) -> str:
    """The text in one printable line, with escapes for control characters and the like."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """The text with escapes for control characters and the like, except for line ends."""
    return "".join(
        char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text
    )


def shell_command(*words: object) -> str:
    """The words as a command for a shell, quoted so that each is taken literally."""
    return " ".join(map(_quoted, map(str, words)))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_in_ansi_c, word)) + "'"


def _in_ansi_c(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
