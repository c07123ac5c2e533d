"""The law that a person names: the published one, that of a run folder, or that of an analysis."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.models.shape import Count
from fathom.search.analysis.law import DepthLaw, usable, usual_curvature
from fathom.search.analysis.optimum import Optimum, find_optima
from fathom.search.analysis.published import LEVINE, Levine2020
from fathom.search.analysis.weighed_laws import law_words
from fathom.search.conclusion.findings import laws_of
from fathom.search.conclusion.token_laws import PartLaw, read_token_law
from fathom.search.formatting import shell_command
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import load_kept
from fathom.search.study.own_records import read_records


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
    """The law with the losses beside it, if it is over parameters and tokens."""


def law_at(law: str, *, needs_tokens: str = "") -> NamedLaw:
    """The law that `levine2020`, a run folder, its best.yaml, or the JSON of an analysis of several
    horizons has; an option that `needs_tokens` takes a law over parameters and tokens.

    Raises:
        ConfigError: when there is none, or it is not over tokens though an option needs that.
        RunFolderError: when the run folder is damaged.
    """
    if law == LEVINE:
        if needs_tokens:
            raise ConfigError(
                f"`{needs_tokens}` needs a law over parameters and tokens, which --law {LEVINE} is "
                "not; leave it out"
            )
        return NamedLaw(name=LEVINE, law=Levine2020(), count=Count.NON_EMBEDDING)
    path, folder = Path(law), RunFolder(Path(law).parent)
    if path != folder.best:
        folder = RunFolder(path)
        if path.exists() and not path.is_dir():
            return law_over_tokens(law, read_token_law(path))
    folder.check_files()
    if folder.token_law.exists():
        return law_over_tokens(law, read_token_law(folder.token_law))
    return law_over_sizes(law, _optima(folder, needs_tokens))


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


def _optima(folder: RunFolder, needs_tokens: str) -> tuple[Optimum, ...]:
    """The answers of a run folder of one horizon."""
    path = folder.path
    folder.check_config()
    if not folder.config.exists():
        raise ConfigError(
            f"`--law` must be {LEVINE}, a run folder, or the JSON of `fathom analyse`, got {path}"
        )
    config = load_kept(folder.config)
    if config.horizons:
        again = shell_command("fathom", "report", path)
        raise ConfigError(
            f"{path} has no law over parameters and tokens; `{again}` says why; the folder of one "
            "horizon in it may have a law over parameters"
        )
    if needs_tokens:
        raise ConfigError(
            f"`{needs_tokens}` must be left out with {path}, which was searched at one horizon; a "
            "table of several has a law over tokens: see `fathom analyse --horizons`"
        )
    return find_optima(read_records(folder, config), seed=config.seed)
