"""What a study knows of its target so far, and what its next trainings would bring.

It stands in the run folder, so that `fathom status` and a report tell it while a search runs and
after it was cut short. The next start of the search writes it anew.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, sqrt

from fathom.models.shape import Shape
from fathom.search.analysis.law import LOGARITHMIC, POWER
from fathom.search.analysis.weighed_laws import AtSize
from fathom.search.record_json import DAMAGE, DamagedFileError, from_values, problem_of, to_values
from fathom.search.run_folder import RunFolder, write_atomically

HOUR = 3600.0
NAMED = 3
"""Next trainings that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A training that narrows the answer at the target."""

    budget: int
    shape: Shape
    seed: int
    tokens: int
    flops: float
    """Operations of the training."""
    seconds: float
    """Time that it takes: what the study gives it, or as trainings of its budget took by the
    operation; 0 where not known."""
    gain: float
    """Share of the variance of ln depth at the target that is expected to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnHour:
    """What the trainings of another hour of one trial at a time are expected to bring."""

    trainings: int
    width: float
    """Factor between the ends of the interval after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The best depth at the target so far, and the trainings that would narrow it most."""

    params: int
    until_width: float
    depth: float | None
    """Median of the best depth; None before a law fits the budgets."""
    interval: tuple[float, float] | None
    """95 % interval of the best depth."""
    weights: dict[str, float]
    """Law -> its probability among the laws."""
    offers: tuple[Offer, ...]
    """The best next trainings, the best first; none once the interval is narrow enough, or nothing
    narrows it."""
    hour: AnHour | None
    """None where no training ends within an hour."""

    def __post_init__(self) -> None:
        low, high = self.interval or (1.0, 1.0)
        if not 0 < low <= high < inf or (self.depth is None) is not (self.interval is None):
            raise ValueError("`interval` must hold the depths from its low to its high end")
        if unknown := set(self.weights) - {LOGARITHMIC, POWER}:
            raise ValueError(f"`weights` must be of laws, not of {len(unknown)} others")

    @property
    def width(self) -> float | None:
        """Factor between the ends of the interval."""
        return self.interval and self.interval[1] / self.interval[0]

    @property
    def is_narrow(self) -> bool:
        """True if the interval is as narrow as the study asks for."""
        return self.width is not None and self.width <= self.until_width


def outlook_of(
    params: int, until_width: float, found: AtSize | None, offers: Sequence[Offer]
) -> Outlook:
    """The outlook from what is known at the target and from all offers, the best first."""
    return Outlook(
        params=params,
        until_width=until_width,
        depth=found.depth if found else None,
        interval=found.interval if found else None,
        weights=found.weights if found else {},
        offers=tuple(offers[:NAMED]),
        hour=_an_hour(found, offers) if found else None,
    )


def narrowed(width: float, gains: Sequence[float]) -> float:
    """Factor between the ends of an interval of `width` once these shares of its variance went, one
    after the other."""
    left = 1.0
    for gain in gains:
        left *= 1 - gain
    narrower: float = width ** sqrt(left)
    return narrower


def _an_hour(found: AtSize, offers: Sequence[Offer]) -> AnHour | None:
    bought = list(_within(offers, HOUR))
    if not bought:
        return None
    width = narrowed(found.width, [offer.gain for offer in bought])
    return AnHour(trainings=len(bought), width=width)


def _within(offers: Sequence[Offer], seconds: float) -> Iterator[Offer]:
    """Yields the offers, the best first, that fit the time one after the other."""
    for offer in offers:
        if offer.seconds and offer.seconds <= seconds:
            seconds -= offer.seconds
            yield offer


def write_outlook(folder: RunFolder, outlook: Outlook) -> None:
    """Writes the outlook into its folder."""
    write_atomically(folder.target, json.dumps(to_values(outlook)) + "\n")


def read_outlook(folder: RunFolder) -> Outlook | None:
    """The outlook in a run folder; None where there is none.

    Raises:
        DamagedFileError: when the file is none that Fathom wrote.
    """
    try:
        return from_values(Outlook, json.loads(folder.target.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except DAMAGE as error:
        raise DamagedFileError(
            f"{folder.target}: {problem_of(error)}; delete it: `fathom run` writes it anew"
        ) from error
