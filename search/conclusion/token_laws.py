"""Laws of depth over parameters and tokens: fits them to several findings, writes and reads
them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isfinite, log
from pathlib import Path
from typing import Any

import numpy as np

from fathom.models.shape import Shape
from fathom.models.spend import Coin
from fathom.objectives.files.reading import open_regular
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import usable
from fathom.search.analysis.laws.loss_law import LowestLoss, lowest_losses
from fathom.search.analysis.laws.token_law import FEWEST_POINTS, TokenLaw, fit_token_law
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import printable
from fathom.search.record_json import DAMAGE, from_values, problem_of, to_values
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.errors import ConfigError

KEY = "token_laws"
"""Key of the laws in the JSON of an analysis, and in a file of a run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLaw:
    """The law of depth over parameters and tokens of a study, a table or a part of a table, and the
    losses for a law of loss."""

    part: Mapping[str, str] = field(default_factory=dict)
    """Column -> its value in the runs of the law, if a table is answered in parts."""
    law: TokenLaw
    losses: tuple[LowestLoss, ...] = ()
    """The lowest loss of each budget at each horizon."""
    template: Shape | None = None
    """The best shape of the largest budget, whose options larger shapes get; None for a table,
    which need not state such options."""


def token_laws_of(findings: Sequence[Findings]) -> tuple[PartLaw, ...]:
    """The laws of the parts of a table, or of a study, that have answers at several horizons."""
    parts: dict[tuple[tuple[str, str], ...], list[Findings]] = {}
    for found in findings:
        parts.setdefault(tuple(found.part.items()), []).append(found)
    laws = []
    for part, several in parts.items():
        optima = [optimum for found in several for optimum in found.optima]
        if len(several) > 1 and (law := part_law(optima)):
            laws.append(replace(law, part=dict(part)))
    return tuple(laws)


def part_law(optima: Sequence[Optimum]) -> PartLaw | None:
    """The law through the optima of several budgets and horizons; None if none can be fitted."""
    law = fit_token_law(optima)
    if law is None:
        return None
    shapes = {o.budget: o.shape for o in optima if o.shape and not o.shape.own_counts}
    template = shapes[max(shapes)] if shapes else None
    return PartLaw(law=law, losses=lowest_losses(optima), template=template)


def why_no_token_law(optima: Sequence[Optimum]) -> str:
    """The reason why no law over parameters and tokens was fitted, as the end of a sentence."""
    for optimum in optima:
        if not optimum.count.of_parameters or optimum.spend.coin is not Coin.TOKENS:
            unit = optimum.spend.coin or "no horizon"
            return (
                f"it is over parameters and tokens, but these are {optimum.count.unit} and {unit}"
            )
    if (there := len(usable(optima))) < FEWEST_POINTS:
        return (
            f"it takes {FEWEST_POINTS} best depths whose verdict is identified, plateau or edge, "
            f"got {there}"
        )
    return "the measured best depths do not separate size from tokens"


def _checked(found: PartLaw) -> PartLaw:
    """The law `found`, unchanged; raises ValueError if it has a number that no fit can give."""
    law = found.law
    numbers = [law.a, law.b, law.c, law.scatter, *chain.from_iterable(law.covariance)]
    for known in found.losses:
        numbers += [known.loss, known.curvature or 0.0, log(known.params), log(known.tokens)]
        numbers.append(log(known.error))
    if not all(map(isfinite, numbers)) or np.linalg.eigvalsh(law.covariance)[0] < 0:
        raise ValueError("a law has impossible numbers")
    return found


def laws_json(laws: Sequence[PartLaw]) -> list[dict[str, Any]]:
    """The laws as JSON values."""
    return [to_values(found) for found in laws]


def write_token_laws(file: Path, laws: Sequence[PartLaw]) -> None:
    """Writes the laws into a file that `read_token_law` reads."""
    write_atomically(file, json.dumps({KEY: laws_json(laws)}, indent=1) + "\n")


def read_token_law(file: Path) -> PartLaw:
    """The only law in a file of a run folder, or in the output of `fathom analyse --json`.

    Raises:
        ConfigError: when the file has no law, or the laws of several parts of a table.
    """
    name = printable(str(file))
    try:
        with open_regular(file) as opened:
            values = json.loads(opened.read())
        laws = [_checked(from_values(PartLaw, found)) for found in values[KEY]]
    except (*DAMAGE, OSError) as error:
        raise ConfigError(
            f"{name} must be the output of `fathom analyse --json` at several horizons: "
            f"{problem_of(error)}"
        ) from None
    if len(laws) != 1:
        remedy = "name one part with --where" if laws else "its answers say what each budget needs"
        raise ConfigError(
            f"{name} must have one law over parameters and tokens, got {len(laws)}; {remedy}"
        )
    return laws[0]
