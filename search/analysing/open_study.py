"""The study that would settle what a table of runs leaves open, for `fathom init --from`."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.judging import FEWEST_SEEDS, MOST_SEEDS, seeds_to_resolve
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.formatting import exact_count, printable
from fathom.search.study.file.errors import ConfigError
from fathom.search.tables.analysis import Analysis

BESIDE = 1.5
"""Factor by which the depths of the study reach beyond those in question."""
DEFAULT_SEEDS = 4


@dataclass(frozen=True, slots=True)
class OpenStudy:
    """Size and keys of a study, with the reason for them."""

    size: str
    keys: Mapping[str, object]
    reason: str


def open_study(analysis: Analysis) -> OpenStudy:
    """The study of the largest size whose best depth the table leaves open, or of the largest size
    if none is open: depths around those in question, and the seeds that the noise requires.

    Raises:
        ConfigError: when the table shows no depth of any size.
    """
    answers = [known for found in analysis.findings for known in found.optima if known.depths]
    if not answers:
        raise ConfigError(
            f"`--from` must name runs that show a best depth, but {printable(analysis.label)} "
            "shows none (`fathom analyse` says why); name sizes with --params instead"
        )
    optimum = max(answers, key=lambda known: (not known.kind.settled, known.budget))
    if optimum.best_size:
        raise ConfigError(
            f"`--from` must name runs of fixed sizes, but {printable(analysis.label)} searched the "
            "size, too; copy its config.yaml, and widen `space` there or add to `budgets`"
        )
    seeds = min(max(FEWEST_SEEDS, seeds_to_resolve(optimum.noise)), MOST_SEEDS)
    keys: dict[str, object] = {
        "count": optimum.count.value,
        "space": {"depth": _depths(optimum)},
        "confirm": {"seeds": max(seeds, DEFAULT_SEEDS)},
    }
    size = exact_count(optimum.budget)
    noise = f"{optimum.unit.difference(optimum.noise):.4f} {optimum.unit}"
    return OpenStudy(
        size,
        keys,
        f"{printable(analysis.label)}, {size}: {optimum.kind.value}; seeds differ by {noise}",
    )


def _depths(optimum: Optimum) -> list[int]:
    """The shallowest and the deepest depth of a study that would settle the size of `optimum`."""
    remedy = optimum.verdict.remedy
    if isinstance(remedy, v.Depths):
        return [remedy.shallowest, remedy.deepest]
    more = remedy.depths if isinstance(remedy, v.TheseDepths) else ()
    depths = {*(optimum.interval or ()), *optimum.plateau, *more}
    return [max(1, int(min(depths) / BESIDE)), ceil(max(depths) * BESIDE)]
