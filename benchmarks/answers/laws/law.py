"""Tests if laws from smaller classes of a table predict the best depths of its larger ones.

python -m benchmarks.answers.laws.law gemstones.csv --below 545M --noise 0.004 --width 0.2

Laws and null laws are fitted to the classes below a size, of which nothing larger is known, not
even the gain from size. The best depths of larger classes are often edges: `miss` is the distance
of ln depth from the lowest point of their curve, which the tested depths may cut, and `wrong side`
counts only what an edge contradicts, which no prediction of a too great depth does at a deep edge.
"""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np

from benchmarks.answers.laws.asked import find_answers
from fathom.models.shape import Count
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.laws.law import Law, fit_laws
from fathom.search.analysis.laws.law_fit import sized_depths
from fathom.search.analysis.laws.null_laws import NullLaw, fit_null_laws
from fathom.search.formatting import format_count
from fathom.search.study.file.options import count_of
from fathom.search.tables.analysis import budget_count
from fathom.search.tables.columns.cells import read_cells
from fathom.search.tables.columns.columns import choose_columns
from fathom.search.tables.grouped.grouping import group_runs
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.read import open_text

HORIZONS = ("20B", "50B", "100B", "200B", "300B", "340B")


def main() -> None:
    """Prints the best depths, and a row for each law and horizon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="CSV or JSON lines of learning curves")
    parser.add_argument("--below", default="545M", help="largest size that laws are fitted to")
    parser.add_argument("--noise", type=float, help="nats between seeds, where there is one seed")
    parser.add_argument("--count", type=Count, choices=list(Count), help="what a size counts")
    parser.add_argument("--width", type=float, default=0.2, help="width of a class")
    parser.add_argument("--horizon", nargs="+", default=HORIZONS, help="tokens")
    told = parser.parse_args()
    question = TableQuestion(count=told.count, width=told.width, noise=told.noise)
    below = count_of("--below", told.below)
    with open_text(told.table) as table:
        columns = choose_columns(table.names, {}, table.label)
        runs = group_runs(read_cells(table, columns), table.label)
    count = budget_count(question, columns, told.table.name)
    small = replace(runs, runs=tuple(run for run in runs.runs if run.params(count) <= below))
    for text in told.horizon:
        asked = replace(question, horizons=(Horizon(count_of("--horizon", text)),))
        (fitted,) = find_answers(small, asked, count, told.table.name)
        (whole,) = find_answers(runs, asked, count, told.table.name)
        larger = [o for o in whole.optima if o.budget > below and isinstance(o, Located)]
        if not larger:
            parser.error(f"{told.table.name} must have sizes above --below, got none at {text}")
        print_horizon(text, fitted.optima, larger)


def print_horizon(tokens: str, fitted: Sequence[Optimum], larger: Sequence[Located]) -> None:
    """Prints the best depths at a horizon and a row for each law."""
    print(f"\n{tokens} tokens. Fitted: {'; '.join(map(_seen, fitted))}.")
    heads = "".join(f" | {_seen(optimum)}" for optimum in larger)
    print(f"\n| law | left-out miss{heads} | mean miss | wrong side | within |")
    print("|---" * (len(larger) + 5) + "|")
    laws: list[Law | NullLaw] = [*fit_laws(fitted), *fit_null_laws(fitted)]
    for law in laws:
        print(_row(law, larger))
    if not laws:
        print("no law")


def _row(law: Law | NullLaw, larger: Sequence[Located]) -> str:
    error = law.leave_one_out_error
    cells = [law.name, "-" if error is None else f"{error:.2f}"]
    misses, wrong, within = [], [], 0
    points = sized_depths(larger)
    for place, optimum in enumerate(larger):
        said = None
        with suppress(ValueError):
            said = law.predict(optimum.budget)
        if said is None or said.interval is None:
            return f"| {law.name} | no depth there |"
        low, high = said.interval
        cells.append(f"{said.depth:.0f} [{low:.0f}-{high:.0f}]")
        point = points.at(np.arange(len(larger)) == place)
        lowest = float(point.log_depth[0])
        misses.append(abs(log(said.depth) - lowest))
        wrong.append(abs(float(point.misses(np.log([said.depth]))[0])))
        within += low <= exp(lowest) <= high
    ends = [f"{np.mean(misses):.2f}", f"{np.mean(wrong):.2f}", f"{within} of {len(larger)}"]
    return f"| {' | '.join([*cells, *ends])} |"


def _seen(optimum: Optimum) -> str:
    size = format_count(optimum.budget)
    if not isinstance(optimum, Located):
        return f"{size} {optimum.kind}"
    low, high = optimum.curve_minimum_interval
    span = f"{optimum.depths[0].depth} to {optimum.depths[-1].depth}"
    return f"{size} {optimum.curve_minimum:.0f} [{low:.0f}-{high:.0f}] of {span}, {optimum.kind}"


if __name__ == "__main__":
    main()
