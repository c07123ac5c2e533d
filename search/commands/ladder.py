"""A ladder of models beside a law: which rung is off because of its shape, and by how much."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite, log
from pathlib import Path
from statistics import median

from rich.console import Console

from fathom.models.shape import Count
from fathom.search.analysis.ladder_check import (
    BEYOND,
    LadderRung,
    bend,
    check_rung,
    ladder_by_law,
)
from fathom.search.analysis.law import Prediction, usable
from fathom.search.analysis.published import LEVINE, levine2020
from fathom.search.analysis.weighed_laws import law_words
from fathom.search.commands.predict import optima_of, part_law_at
from fathom.search.conclusion.findings import laws_of
from fathom.search.contract.reply import StatedLadder, StatedRung
from fathom.search.formatting import rounded_count
from fathom.search.report.terminal.tables import empty_table, print_whole
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import load_kept
from fathom.search.tables.columns import parse_maps
from fathom.search.tables.ladder_file import SIZES, read_ladder

HEADS = ("model", "size", "shape", "by law", "95 %", "costs (nats)", "standing", "instead")
LEAST = ("95 %", "standing")
"""Columns that a narrow terminal leaves out, the first one first."""


@dataclass(frozen=True, kw_only=True)
class LadderLaw:
    """What a law says of a rung."""

    name: str
    count: Count
    """How the law counts sizes."""
    predict: Callable[[LadderRung], Prediction]
    """Raises ValueError where the law has no depth of at least 1."""
    takes_tokens: bool = False
    """True if the law is over parameters and tokens."""
    curvature: float | None
    """Nats that a unit of ln depth away from the best costs; None where the law does not say."""


def check_ladder(
    files: Sequence[Path], law: str, doubling: float | None, maps: Sequence[str]
) -> StatedLadder:
    """Each rung of a ladder beside a law: `levine2020`, a run folder, or the JSON of an analysis.

    Raises:
        ConfigError: when there is no such law, or it needs what the ladder does not have.
        TableError: when the ladder can't be read.
    """
    if doubling is not None and not (isfinite(doubling) and doubling > 0):
        raise ConfigError(
            f"`--doubling` must be what twice the best depth costs, nats above 0, got {doubling:g}"
        )
    found = _law_at(law)
    curvature = doubling / log(2) ** 2 if doubling else found.curvature
    checked = []
    for rung in read_ladder(files, parse_maps(maps), found.count):
        if found.takes_tokens and rung.tokens is None:
            raise ConfigError(
                f"{found.name} needs the tokens of each model, and {rung.name} has none; give the "
                "ladder a column `tokens`"
            )
        prediction = None
        with suppress(ValueError):
            prediction = found.predict(rung)
        checked.append(check_rung(rung, prediction, curvature))
    pairs = zip(checked, ladder_by_law(checked), strict=True)
    rungs = (StatedRung.model_validate(e).model_copy(update={"instead": i}) for e, i in pairs)
    return StatedLadder(law=found.name, count=found.count, rungs=tuple(rungs), bend=bend(checked))


def _law_at(law: str) -> LadderLaw:
    if law == LEVINE:
        return LadderLaw(
            name=LEVINE,
            count=Count.NON_EMBEDDING,
            predict=lambda rung: levine2020(rung.params),
            curvature=None,
        )
    if not Path(law).is_dir() or RunFolder(Path(law)).token_law.exists():
        return _token_law_at(law)
    optima = optima_of(law)
    fitted = laws_of(optima, Path(law))
    count = optima[0].count
    if count not in SIZES:
        raise ConfigError(
            f"`--law` must count parameters as {Count.TOTAL.value} or {Count.NON_EMBEDDING.value}, "
            f"got a run that counts {count.label}"
        )
    known = [found.curves.parabola.c2 for found in usable(optima)]
    return LadderLaw(
        name=f"{law_words(fitted.name)} of {law}",
        count=count,
        predict=lambda rung: fitted.predict(rung.params),
        curvature=_curvature(known),
    )


def _token_law_at(law: str) -> LadderLaw:
    found = part_law_at(law, "--law")
    return LadderLaw(
        name=f"the law of {law} over parameters and tokens",
        count=_count_of(Path(law)),
        predict=lambda rung: found.law.predict(rung.params, rung.tokens or 0),
        takes_tokens=True,
        curvature=_curvature([known.curvature or 0.0 for known in found.losses]),
    )


def _count_of(law: Path) -> Count:
    """How a law over parameters and tokens counts sizes: as its study, or its table."""
    if law.is_dir():
        return load_kept(RunFolder(law).config).count
    first = next(iter(json.loads(law.read_bytes()).get("answers", [])), None)
    return Count(first["question"]["count"]) if first else Count.TOTAL


def _curvature(known: Sequence[float]) -> float | None:
    """The middle of what budgets say that a unit of ln depth costs; None where none does."""
    rising = [curvature for curvature in known if curvature > 0]
    return median(rising) if rising else None


def print_ladder(ladder: StatedLadder, console: Console) -> None:
    """Prints each rung, which ones are off, and how far a line through the ladder bends."""
    unit = Count(ladder.count).unit_in_full
    table = empty_table(f"A ladder by {ladder.law} ({unit})", HEADS, LEAST)
    for each in ladder.rungs:
        table.add_row(*_cells(each))
    console.print(table)
    for line in sentences(ladder):
        print_whole(line, console)


def _cells(each: StatedRung) -> tuple[str, ...]:
    found = each.prediction
    interval = found.interval if found else None
    star = "*" if found and found.extrapolated else ""
    return (
        each.rung.name,
        rounded_count(each.rung.params),
        _shape(each.rung),
        f"{found.depth:.1f}{star}" if found else "-",
        f"{interval[0]:.1f}-{interval[1]:.1f}" if interval else "-",
        "-" if each.cost is None else f"{each.cost:.4f}",
        _standing(each),
        _shape(each.instead) if each.instead else "-",
    )


def _shape(rung: LadderRung) -> str:
    return f"{rung.depth} x {rung.d_model}" if rung.d_model else str(rung.depth)


def _standing(each: StatedRung) -> str:
    if each.factor is None:
        return "no depth by the law"
    if not each.is_off:
        return "as the law says"
    return f"too {'deep' if each.factor > 1 else 'shallow'}"


def sentences(ladder: StatedLadder) -> list[str]:
    """Which rungs are off, by how much, and how far a line through all of them bends."""
    lines = [_off_text(each) for each in ladder.rungs if each.is_off]
    if not lines:
        lines = ["No rung is off by this law."]
    bent, largest = ladder.bend, ladder.rungs[-1].rung.params
    if bent is not None:
        high = "high" if bent > 0 else "low"
        lines.append(
            f"By shape alone, a line through these losses over ln parameters lies {abs(bent):.4f} "
            f"nats too {high} at {rounded_count(BEYOND * largest)}, {BEYOND} times the largest."
        )
    elif ladder.rungs[0].cost is None:
        lines.append(
            "This law does not say what a depth costs in nats; --doubling says what twice the best "
            "depth costs."
        )
    if any(each.prediction and each.prediction.extrapolated for each in ladder.rungs):
        lines.append("* outside the sizes that the law was fitted on")
    return lines


def _off_text(each: StatedRung) -> str:
    assert each.factor is not None, "a rung that is off has a depth by the law"
    times = max(each.factor, 1 / each.factor)
    cost = ""
    if each.cost is not None:
        cost = f", which costs {each.cost:.4f} nats"
        if each.cost_interval:
            low, high = each.cost_interval
            cost += f" [{low:.4f} to {high:.4f}]"
    return f"{each.rung.name} is {_standing(each)} by a factor of {times:.2f}{cost}."
