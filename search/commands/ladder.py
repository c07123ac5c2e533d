"""A ladder of models compared with a law: which models are off because of their shapes, and by how
much."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import isfinite, log
from pathlib import Path

from rich.console import Console

from fathom.models.shape import Count
from fathom.search.analysis.laws.law import predictions
from fathom.search.analysis.spending.ladder_check import (
    BEYOND,
    LadderRung,
    bend,
    check_rung,
    ladder_by_law,
)
from fathom.search.conclusion.law_at import law_at
from fathom.search.contract.reply import StatedLadder, StatedRung
from fathom.search.formatting import rounded_count
from fathom.search.report.terminal.tables import empty_table, print_text
from fathom.search.study.file.errors import ConfigError
from fathom.search.tables.columns.columns import parse_maps
from fathom.search.tables.grouped.ladder_file import SIZES, read_ladder
from fathom.search.tables.grouped.model_config import Built

HEADS = ("model", "size", "shape", "by law", "95 %", "costs (nats)", "standing", "instead")
LEAST = ("95 %", "standing")
"""Columns that a narrow terminal leaves out, in the order in which it does."""


def check_ladder(
    files: Sequence[Path], law: str, doubling: float | None, maps: Sequence[str]
) -> StatedLadder:
    """Compares each model of a ladder with a law: `levine2020`, a run folder, or the JSON of an
    analysis.

    Raises:
        ConfigError: when there is no such law, or it needs what the ladder does not have.
        TableError: when the ladder can't be read.
    """
    if doubling is not None and not (isfinite(doubling) and doubling > 0):
        raise ConfigError(
            f"`--doubling` must be the cost of twice the best depth, above 0 nats, got {doubling:g}"
        )
    found = law_at(law)
    if found.count not in SIZES:
        raise ConfigError(
            f"`--law` must count parameters as {Count.TOTAL.value} or {Count.NON_EMBEDDING.value}, "
            f"got a run that counts {found.count.label}"
        )
    curvature = doubling / log(2) ** 2 if doubling else found.curvature
    checked = []
    for rung in read_ladder(files, parse_maps(maps), found.count, _build):
        if found.over_tokens and rung.tokens is None:
            raise ConfigError(
                f"{found.name} needs the tokens of each model, and {rung.name} has none; give the "
                "ladder a column `tokens`"
            )
        prediction = next(predictions(found.law, [rung.params], rung.tokens), None)
        checked.append(check_rung(rung, prediction, curvature))
    pairs = zip(checked, ladder_by_law(checked), strict=True)
    rungs = (StatedRung.model_validate(e).model_copy(update={"instead": i}) for e, i in pairs)
    return StatedLadder(law=found.name, count=found.count, rungs=tuple(rungs), bend=bend(checked))


def _build(values: Mapping[str, object]) -> Built:
    """A model for which Fathom has no formula, as transformers builds it.

    Raises:
        ValueError: when it is not installed, or builds none.
    """
    if not (find_spec("transformers") and find_spec("torch")):
        raise ValueError("run `pip install transformers torch` to count models of its type")
    from fathom.search.tables.grouped.built_model import built_size

    return built_size(values)


def print_ladder(ladder: StatedLadder, console: Console) -> None:
    """Prints each model of a ladder, which ones are off, and how far a line through the ladder
    bends."""
    unit = Count(ladder.count).unit_in_full
    table = empty_table(f"A ladder by {ladder.law} ({unit})", HEADS, LEAST)
    for each in ladder.rungs:
        table.add_row(*_cells(each))
    console.print(table)
    for line in sentences(ladder):
        print_text(line, console)


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
    """Returns sentences on which models are off, by how much, and how far a line through all of
    them bends."""
    lines = [_off_text(each) for each in ladder.rungs if each.is_off]
    if not lines:
        lines = ["By this law no model is too shallow or too deep."]
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
