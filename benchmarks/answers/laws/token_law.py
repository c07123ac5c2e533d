"""Measures the law of depth over parameters and tokens: where it is known, and on published runs.

python -m benchmarks.answers.laws.token_law planted
python -m benchmarks.answers.laws.token_law gemstones/curves.csv

`planted`: ladders of final losses in worlds whose law is known, from losses to the law; how often
the 95 % intervals hold the drift, and the best depth of a size ten times the largest.

A table: the law from horizons of 20, 40 and 160 tokens a parameter, and the depths at others that
it was not fitted to. Then each model is left out in turn: the sign of the drift, and if its
interval holds the drift of all horizons and models. The noise between seeds is stated.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.answers.laws.asked import find_answers
from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.worlds.laws import draw_world, table_of
from fathom.models.shape import Count
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.law import usable
from fathom.search.analysis.laws.law_fit import sized_depths
from fathom.search.analysis.laws.token_law import TokenLaw, fit_token_law
from fathom.search.formatting import format_count, rounded_count
from fathom.search.tables.columns.cells import read_cells
from fathom.search.tables.columns.columns import choose_columns
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.grouping import group_runs
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.runs import Runs
from fathom.search.tables.sources.read import open_text

SIZES = (3_000_000, 10_000_000, 30_000_000)
RATIOS = (5.0, 20.0, 80.0)
LARGER = 10
FITTED = (20.0, 40.0, 160.0)
HELD_OUT = (10.0, 30.0, 60.0, 80.0, 120.0, 240.0, 320.0, 480.0, 640.0)
GEMSTONES = (104_000_000, 507_000_000)
NOISE, WIDTH = 0.004, 0.2


def main() -> None:
    """Prints a table, of planted laws or of a table of runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="`planted`, or a CSV of learning curves")
    parser.add_argument("--studies", type=int, default=200, help="planted studies of each kind")
    add_json_option(parser)
    told = parser.parse_args()
    if told.source == "planted":
        planted(told.studies, told.json)
    else:
        published(Path(told.source), told.json)


def answers(runs: Runs, ratios: Sequence[float], question: TableQuestion) -> list[Optimum]:
    """The best depths of runs at several tokens a parameter; horizons without any are left out."""
    found: list[Optimum] = []
    for ratio in ratios:
        asked = replace(question, horizons=(Horizon(ratio, per_parameter=True),))
        try:
            [at_ratio] = find_answers(runs, asked, question.count or Count.TOTAL, "runs")
        except TableError:
            continue
        found += at_ratio.optima
    return found


def planted(studies: int, file: Path | None) -> None:
    """Prints how often the intervals hold, and for how many studies there is a law."""
    columns = {"errors within a budget": "", "with a law": "", "drift held": "", "depth held": "",
               "factor of the interval": ".1f"}  # fmt: skip
    table = PrintedTable(columns, file)
    for name, shared in (("independent", 0.0), ("half shared", 0.5), ("shared", 1.0)):
        held = list(_planted(studies, shared))
        there = [found for found in held if found is not None]
        drift, depth = (sum(found[i] for found in there) / len(there) for i in (0, 1))
        width = float(np.median([found[2] for found in there]))
        table.add(name, f"{len(there)} of {studies}", f"{drift:.0%}", f"{depth:.0%}", width)


def _planted(studies: int, shared: float) -> Iterator[tuple[bool, bool, float] | None]:
    """Yields if the drift and the depth lie in their intervals, and the factor between the ends of
    the second."""
    question = TableQuestion(count=Count.NON_EMBEDDING, budgets=SIZES)
    for study in range(studies):
        generator = np.random.default_rng([study, round(10 * shared)])
        world = draw_world(generator, shared=shared)
        runs = table_of(world, generator, SIZES, RATIOS, seeds=2)
        law = fit_token_law(answers(runs, RATIOS, question))
        if law is None:
            yield None
            continue
        params = LARGER * SIZES[-1]
        tokens = RATIOS[1] * params
        low, high = law.predict(params, tokens).interval or (0.0, 0.0)
        inside = low <= world.best_depth(params, tokens) <= high
        yield _holds(law, world.depth[2]), inside, high / low


def _holds(law: TokenLaw, drift: float) -> bool:
    low, high = law.drift_interval
    return low <= drift <= high


def published(path: Path, file: Path | None) -> None:
    """Prints a row for each best depth that the law was not fitted to."""
    with open_text(path) as opened:
        columns = choose_columns(opened.names, {}, opened.label)
        runs = group_runs(read_cells(opened, columns), opened.label)
    question = TableQuestion(count=Count.TOTAL, budgets=GEMSTONES, width=WIDTH, noise=NOISE)
    fitted, others = answers(runs, FITTED, question), answers(runs, HELD_OUT, question)
    law, whole = fit_token_law(fitted), fit_token_law([*fitted, *others])
    if law is None or whole is None:
        raise SystemExit(f"{path} has no law over parameters and tokens")
    heads = ("size", "tokens", "best depth [95 %]", "verdict", "by the law [95 %]", "inside")
    table = PrintedTable(dict.fromkeys(heads, ""), file)
    inside = [_row(table, law, optimum) for optimum in usable(others)]
    table.figure("inside", sum(inside), "best depths")
    table.figure("held_out", len(inside), "best depths")
    for name, known in (("drift", law), ("drift_of_all", whole)):
        low, high = known.drift_interval
        drift = f"{known.c:.2f} [{low:.2f} to {high:.2f}]"
        table.figure(name, drift, "ln depth for each unit of ln tokens")
    found = [known for known in _left_out(runs, question) if known]
    table.figure("models", len(runs.runs), "models left out, one at a time")
    table.figure("laws", len(found), "models left out, with a law")
    table.figure("wrong", sum(known.c <= 0 for known in found), "laws of the wrong sign")
    table.figure("holds", sum(_holds(known, whole.c) for known in found), "laws")


def _left_out(runs: Runs, question: TableQuestion) -> Iterator[TokenLaw | None]:
    """Yields the law without each model in turn."""
    for place in range(len(runs.runs)):
        rest = replace(runs, runs=(*runs.runs[:place], *runs.runs[place + 1 :]))
        yield fit_token_law(answers(rest, FITTED, question))


def _row(table: PrintedTable, law: TokenLaw, optimum: Located) -> bool:
    """Adds a best depth and what the law says of it; True if they agree."""
    said = law.predict(optimum.budget, optimum.tokens)
    low, high = said.interval or (0.0, 0.0)
    agrees = _agrees(optimum, low, high)
    measured = (optimum.curve_minimum, *optimum.curve_minimum_interval)
    table.add(
        format_count(optimum.budget),
        rounded_count(optimum.tokens),
        "{:.0f} [{:.0f}-{:.0f}]".format(*measured),
        optimum.kind.value,
        f"{said.depth:.0f} [{low:.0f}-{high:.0f}]",
        "yes" if agrees else "no",
    )
    return agrees


def _agrees(optimum: Located, low: float, high: float) -> bool:
    """True if an interval holds the lowest point of a curve, or reaches the side on which it is."""
    point = sized_depths([optimum])
    side, depth = float(point.side[0]), optimum.curve_minimum
    return high >= depth if side > 0 else low <= depth if side < 0 else low <= depth <= high


if __name__ == "__main__":
    main()
