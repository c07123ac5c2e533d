"""A law with its name and the answers behind it, from a file or a run folder."""

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
    """A law with its name, and the answers or losses that it was fitted to."""

    name: str
    """Words for the law in a sentence."""
    law: DepthLaw
    count: Count
    """Rule by which the law counts sizes."""
    curvature: float | None = None
    """Cost in nats of a depth one unit of ln depth away from the best; None where not known."""
    optima: tuple[Optimum, ...] = ()
    """Answers of the run's budgets; empty for a law that is not of a run."""
    over_tokens: PartLaw | None = None
    """The law over parameters and tokens, with the losses for a law of loss; None for any other
    law."""


PUBLISHED: Mapping[str, NamedLaw] = {
    LEVINE: NamedLaw(name=LEVINE, law=Levine2020(), count=Count.NON_EMBEDDING)
}
"""Name that `--law` takes -> published law."""


def law_over_tokens(name: str, found: PartLaw) -> NamedLaw:
    """A law over parameters and tokens as a `NamedLaw`; `name` is its file or folder."""
    return NamedLaw(
        name=f"the law of {name} over parameters and tokens",
        law=found.law,
        count=found.law.count,
        curvature=usual_curvature(lowest.curvature for lowest in found.losses),
        over_tokens=found,
    )


def law_over_sizes(name: str, optima: Sequence[Optimum]) -> NamedLaw:
    """The weighted laws through the budgets of a run as a `NamedLaw`; `name` is the run's path.

    Raises:
        ConfigError: when no law fits the budgets; the message says what is missing.
    """
    laws = laws_of(optima, Path(name))
    return NamedLaw(
        name=f"{law_words(laws.name)} of {name}",
        law=laws,
        count=optima[0].count,
        curvature=usual_curvature(optimum.curvature for optimum in usable(optima)),
        optima=tuple(optima),
    )
