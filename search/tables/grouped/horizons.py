"""Horizons that a question names: in tokens, or in tokens per parameter."""

import re
from dataclasses import dataclass

from fathom.objectives.keys import parse_count
from fathom.search.formatting import format_count

MOST_PER_PARAMETER = 100_000
"""Largest plain number that is read as tokens per parameter."""
PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Horizon:
    """A horizon in tokens, or in tokens per parameter."""

    amount: float
    per_parameter: bool = False

    def tokens(self, size: int) -> float:
        """The tokens of the horizon for a model of `size` parameters."""
        return self.amount * size if self.per_parameter else self.amount

    @property
    def text(self) -> str:
        """The horizon in words, such as `20 tokens a parameter`."""
        number = format_count(self.amount)
        return f"{number} tokens a parameter" if self.per_parameter else f"{number} tokens"


def parse_horizons(text: str) -> tuple[Horizon, ...]:
    """The horizons in a comma-separated list: `20,40,160` are tokens per parameter, `2B,8B` tokens.

    Raises:
        ValueError: when a part is neither of these.
    """
    return tuple(dict.fromkeys(_horizon(part.strip()) for part in text.split(",")))


def _horizon(text: str) -> Horizon:
    if not PLAIN.fullmatch(text):
        return Horizon(parse_count(text))
    if not 0 < (ratio := float(text)) <= MOST_PER_PARAMETER:
        raise ValueError(
            f"must be tokens per parameter, at most {MOST_PER_PARAMETER:,}, such as 20, or tokens "
            f"with a suffix, such as 2B, got {text}"
        )
    return Horizon(ratio, per_parameter=True)
