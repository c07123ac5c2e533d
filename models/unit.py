"""The unit of a loss in a table, and its conversion to nats, the unit of all statistics."""

import re
from dataclasses import dataclass, replace
from math import log


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of losses, or a quantity to maximise as a unit of its own."""

    name: str = "nats"
    nats: float = 1.0
    """Nats that equal a difference of one in this unit."""
    zero: float | None = None
    """Value of a quantity to maximise at a loss of 0 nats; None if less is better."""

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """Heading of a loss with its unit; the name of a quantity to maximise."""
        return f"loss ({self})" if self.zero is None else self.name

    def value(self, nats: float) -> float:
        """A loss of `nats` nats in this unit."""
        own = nats / self.nats
        return own if self.zero is None else self.zero - own

    def difference(self, nats: float) -> float:
        """A difference of `nats` nats in this unit; above 0 is worse."""
        return nats / self.nats

    def interval(self, nats: tuple[float, float]) -> tuple[float, float]:
        """Both ends of an interval of a difference in this unit."""
        low, high = nats
        return self.difference(low), self.difference(high)

    def per_token(self, tokens: float) -> "Unit":
        """The unit of a loss per token, if this unit is per byte or character and each of these is
        `tokens` tokens."""
        return replace(self, nats=self.nats / tokens)


NATS = Unit()
TOKENS_PER_BYTE = 0.25
"""Tokens per byte of text, with usual tokenizers."""
UNITS = {
    "nats": NATS,
    "bits": Unit("bits", log(2)),
    "bits_per_byte": Unit("bits per byte", log(2)),
    "bits_per_character": Unit("bits per character", log(2)),
    "nats_per_byte": Unit("nats per byte"),
    "nats_per_character": Unit("nats per character"),
}
"""Units by their names for `--loss-unit`."""
NAMES = {
    "bits_per_byte": "bpb bits_per_byte",
    "bits_per_character": "bpc bits_per_char bits_per_character bits_per_chr",
    "nats_per_byte": "npb nats_per_byte",
    "nats_per_character": "npc nats_per_char nats_per_character",
    "bits": "bpt bits_per_token bits loss_bits",
}
"""Words that stand for each unit in the names of columns, by the unit's name."""
IN_NAME = {
    unit: re.compile(rf"(^|_)({'|'.join(words.split())})($|_)") for unit, words in NAMES.items()
}


def unit_in(name: str) -> str:
    """The unit in the name of a column, in small letters and underscores; empty without one.

    >>> unit_in("val_bpb"), unit_in("val_loss")
    ('bits_per_byte', '')
    """
    return next((unit for unit, words in IN_NAME.items() if words.search(name)), "")
