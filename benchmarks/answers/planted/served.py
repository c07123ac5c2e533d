"""Measures how often the depths that `fathom latency` names are right, on planted losses and times.

python -m benchmarks.answers.planted.served

Whole searches in worlds whose losses are known, and times of their shapes that are known as well.
What `fathom latency` would measure is the true time and an error; eight shapes are measured, and
the others are interpolated. Each study is asked under several limits on the time of a
token. A named depth is right if its true time is under the limit, and its true loss at most 0.005
nats above the lowest among the finished depths that are truly under it.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.random import Generator

from benchmarks.answers.planted.coverage import CASES, DEEPEST, MISLEADING, Planted
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.study import search_records
from fathom.models.shape import Shape
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.spending.serving_choice import Limits
from fathom.search.laboratory.latency.find import MOST_MEASURED
from fathom.search.report.words.latency import BudgetLosses, joined
from fathom.search.serving.time_model import spread, with_modelled
from fathom.search.serving.values import Duration, Latency, Request, ShapeTimes
from fathom.search.study.file.study_file import parse

SEARCHED = f"space: {{depth: [1, {DEEPEST}]}}\n"
EVERY_DEPTH = (
    "space: {depth: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]}\n"
    "sampler: ladder\n"
    "confirm: {depths: 16, seeds: 3, rates: [1]}\n"
)
LIMITS = 5
"""Limits that each study is asked under."""
REQUEST = Request(batch=1, prompt=32, tokens=32)
FIXED, LAYER, WIDTH = 1e-4, 2e-4, 1e-6
"""Seconds of a planted token, of each of its layers, and of each feature of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKind:
    """A kind of study that is asked for a depth under a limit."""

    losses: str
    """Kind of the planted losses, in `CASES`."""
    study: str = SEARCHED
    misfit: float = 0.04
    """Standard deviation by which times of shapes differ from the model of times, relative."""
    error: float = 0.01
    """Relative standard error of a measured time."""
    shared: float = 0.0
    """Relative standard error that all times of a study have in common, as on a data sheet."""

    @property
    def name(self) -> str:
        """The kind in words: its losses, and in what it differs from the others."""
        parts = [self.losses]
        parts += ["every depth trained"] if self.study is EVERY_DEPTH else []
        parts += ["times of a data sheet"] if self.shared else []
        parts += ["times 15 % off their model"] if self.misfit > 0.1 else []
        return ", ".join(parts)


KINDS = (
    *(
        ServedKind(losses=losses)
        for losses in (
            *("symmetric", "steep when shallow", "a wall when shallow", "flat"),
            *("deeper is better", "best at an end", "stalls", "starved"),
            *("two humps", "wide notch", "narrow notch", "plateau and cliff"),
        )
    ),
    ServedKind(losses="symmetric", study=EVERY_DEPTH),
    ServedKind(losses="flat", study=EVERY_DEPTH),
    ServedKind(losses="symmetric", study=EVERY_DEPTH, misfit=0.15),
    ServedKind(losses="symmetric", shared=0.15),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What was named under one limit, and if it was right; None where nothing was."""

    best: bool | None
    """If the depth that is said to be the best is right."""
    fastest: bool | None
    is_faster: bool
    """True if the fastest as good depth is another than the best."""


def main() -> None:
    """Prints a row for each kind, and keeps the numbers of all together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=60, help="studies of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first: other worlds")
    add_json_option(parser)
    arguments = parser.parse_args()
    heads = ("planted", "asked", "best named", "right", "fastest named", "right ", "a faster one")
    table = PrintedTable(dict.fromkeys(heads, ""), arguments.json)
    found: dict[str, list[Named]] = {"simple": [], "misleading": []}
    for kind in KINDS:
        numbers = range(arguments.first, arguments.first + arguments.studies)
        of_kind = [named for number in numbers for named in asked(kind, number)]
        table.add(kind.name, *cells(of_kind))
        found["misleading" if kind.losses in MISLEADING else "simple"] += of_kind
    for name, (value, unit, form) in figures_of(found).items():
        table.figure(name, value, unit, form)


def figures_of(found: Mapping[str, Sequence[Named]]) -> dict[str, tuple[float, str, str]]:
    """Returns the figures that the pages name: those of worlds with several minima or a step, which
    are misleading, and those of all others."""
    figures: dict[str, tuple[float, str, str]] = {}
    for group, answers in found.items():
        for which in ("best", "fastest"):
            said = [right for named in answers if (right := getattr(named, which)) is not None]
            share = sum(said) / max(1, len(said))
            figures[f"{group}_{which}_named"] = (len(said), "answers", ",")
            figures[f"{group}_{which}_right"] = (share, "share of the named", ".1%")
        figures[f"{group}_asked"] = (len(answers), "questions", ",")
    return figures


def cells(found: Sequence[Named]) -> list[str]:
    """Returns the cells of a row: how many were named, and which share of these is right."""
    bests = [named.best for named in found if named.best is not None]
    fastest = [named.fastest for named in found if named.fastest is not None]
    faster = sum(named.is_faster for named in found)
    return [str(len(found)), *_share(bests), *_share(fastest), str(faster)]


def _share(rights: Sequence[bool]) -> tuple[str, str]:
    return str(len(rights)), f"{np.mean(rights):.1%}" if rights else "-"


def asked(kind: ServedKind, number: int) -> Iterator[Named]:
    """Yields what one study of a kind names under each of its limits."""
    plant, _, changes = CASES[kind.losses]
    planted = plant(np.random.default_rng([number, len(kind.losses)]))
    losses = _searched(kind, planted, changes, number)
    generator = np.random.default_rng([number, KINDS.index(kind)])
    true = {shape.depth: _true_seconds(shape, kind, generator) for shape in losses.shapes}
    latency = _measured(losses, true, kind, generator)
    low, high = log(min(true.values())), log(max(true.values()))
    for limit in np.exp(generator.uniform(low, high, LIMITS)).tolist():
        yield _named(planted, losses, latency, true, limit)


def _searched(kind: ServedKind, planted: Planted, changes: str, number: int) -> BudgetLosses:
    """The losses of a study of the planted world."""
    config = parse(
        "study: planted\nobjective: {name: language, context: 64}\ntrain: {evaluations: 8}\n"
        f"budgets: [{planted.world.budget}]\nseed: {number}\n{kind.study}{changes}"
    )
    records = search_records(config, planted.world)
    optimum, posterior = find_with_posterior(records, seed=config.seed)
    return BudgetLosses(optimum=optimum, posterior=posterior)


def _true_seconds(shape: Shape, kind: ServedKind, generator: Generator) -> float:
    modelled = FIXED + shape.depth * (LAYER + WIDTH * shape.d_model)
    return float(modelled * np.exp(generator.normal(0, kind.misfit)))


def _measured(
    losses: BudgetLosses, true: dict[int, float], kind: ServedKind, generator: Generator
) -> Latency:
    """What `fathom latency` knows of the true times."""
    common = float(np.exp(generator.normal(0, kind.shared)))
    places = spread(len(losses.shapes), MOST_MEASURED).tolist()
    timed = [losses.shapes[place] for place in places]
    others = [shape for shape in losses.shapes if shape not in timed]
    error = float(np.hypot(kind.error, kind.shared))
    measured = []
    for shape in timed:
        seconds = true[shape.depth] * common * (1 + generator.normal(0, kind.error))
        token = Duration(seconds, error * seconds)
        measured.append(ShapeTimes(shape=shape, prefill=token, token=token, measured=True))
    times, worst = with_modelled(measured, others)
    return Latency(
        budget=losses.optimum.budget, request=REQUEST, number=4, device="planted", times=times,
        model_error=worst,
    )  # fmt: skip


def _named(
    planted: Planted, losses: BudgetLosses, latency: Latency, true: dict[int, float], limit: float
) -> Named:
    """What is named under a limit on the seconds of a token."""
    choice = joined(losses, latency, Limits(token_seconds=limit)).choice
    if choice is None or choice.best is None:
        return Named(best=None, fastest=None, is_faster=False)
    under = [depth for depth, seconds in true.items() if seconds <= limit]
    lowest = min(map(planted.curve, under), default=0.0)

    def is_right(depth: int) -> bool:
        return depth in under and planted.curve(depth) <= lowest + PLATEAU_WIDTH

    return Named(
        best=is_right(choice.best) if choice.best_is_sure else None,
        fastest=None if choice.fastest is None else is_right(choice.fastest),
        is_faster=choice.fastest not in (None, choice.best),
    )


if __name__ == "__main__":
    main()
