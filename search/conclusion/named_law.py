"""A law with its name and its fit, read from a file or a run folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.models.shape import Count
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import DepthLaw, usable, usual_curvature
from fathom.search.analysis.laws.published import LEVINE, Levine2020
from fathom.search.analysis.laws.weighed_laws import law_words
from fathom.search.conclusion.findings import laws_of
from fathom.search.conclusion.token_laws import PartLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLaw:
    """A law with its name, and what it was fitted to."""

    name: str
    """What a sentence calls it."""
    law: DepthLaw
    count: Count
    """Rule by which it counts sizes."""
    curvature: float | None = None
    """Nats that a unit of ln depth away from the best costs; None where the law does not say."""
    optima: tuple[Optimum, ...] = ()
    """Answers of the budgets of a run; empty for another law."""
    over_tokens: PartLaw | None = None
    """A law over parameters and tokens with the losses beside it; None for any other law."""


PUBLISHED: Mapping[str, NamedLaw] = {
    LEVINE: NamedLaw(name=LEVINE, law=Levine2020(), count=Count.NON_EMBEDDING)
}
"""Published laws by the name that `--law` takes."""


def law_over_tokens(name: str, found: PartLaw) -> NamedLaw:
    """The law over parameters and tokens that a file or a folder of this name has."""
    return NamedLaw(
        name=f"the law of {name} over parameters and tokens",
        law=found.law,
        count=found.law.count,
        curvature=usual_curvature(lowest.curvature for lowest in found.losses),
        over_tokens=found,
    )


def law_over_sizes(name: str, optima: Sequence[Optimum]) -> NamedLaw:
    """The weighed laws of the budgets of a run of this name.

    Raises:
        ConfigError: when no law fits them; the message says what is missing.
    """
    laws = laws_of(optima, Path(name))
    return NamedLaw(
        name=f"{law_words(laws.name)} of {name}",
        law=laws,
        count=optima[0].count,
        curvature=usual_curvature(optimum.curvature for optimum in usable(optima)),
        optima=tuple(optima),
    )
