"""Measures what other first depths or another first rung would save a search: the ceiling first.

python -m benchmarks.answers.spent.levers --searches 20 --first 50000
python -m benchmarks.answers.spent.levers TABLE.csv --total OTHER.csv --searches 2 --first 200

Without tables, the searches are of planted worlds (`benchmarks/worlds/kinds.py`), as many of each
kind. First depths about the best one need an oracle, so what they save bounds what smaller budgets
or past runs could save by saying where to begin. Tokens are shares of the exhaustive ladder's.
`wrong` is identified, and not among the depths that are as good as the best; the width is that of
the identified intervals, the ratio of their ends.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks.printed_table import PrintedTable, add_json_option
from benchmarks.simulate.clock import run, tokens_until_right
from benchmarks.simulate.ours import FathomSearch
from benchmarks.worlds.curve_tables import read_runs
from benchmarks.worlds.kinds import KINDS, planted
from benchmarks.worlds.known import Known, known_budgets
from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.records import TrialRecord, derive_seed
from fathom.search.scheduling.sampling.depth_sampler import spread_depths
from fathom.search.scheduling.sampling.study_sampler import ShapeSampler, ladder_shapes

SPAN = 3.0
"""Factor about a depth within which the first depths of a steered search are spread."""
COLUMNS = {
    "worlds or tables": "", "search": "", "searches": "", "settled": "", "wrong": "",
    "width": ".2f", "until right": ".3f", "never": "", "spent": ".3f",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lever:
    """A change of a search."""

    settings: str = ""
    """YAML that is added to the study."""
    off: float | None = None
    """Factor by which the depth that the first ones lie about is off the best one; None for first
    depths from end to end."""


LEVERS = {
    "as it is": Lever(),
    "first rung at 1/16": Lever("stopping: {first_rung: 0.0625}"),
    "six exploring trials": Lever("trials: 6"),
    "first depths about the best": Lever(off=1.0),
    "first depths about twice or half of it": Lever(off=2.0),
}


class NearSampler(ShapeSampler):
    """A sampler whose first depths lie about one depth, the nearest first."""

    near: Sequence[Shape] = ()

    def draw(self, index: int, visible: Sequence[TrialRecord]) -> Shape:
        """The shape of exploring trial `index`, as the study's own sampler draws it after those."""
        return self.near[index] if index < len(self.near) else super().draw(index, visible)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOutcome:
    """Result of one search; tokens are shares of those of the exhaustive ladder."""

    settled: bool
    wrong: bool
    width: float | None
    """Ratio of the ends of an identified interval."""
    until: float
    spent: float


def main() -> None:
    """Prints a row for each kind of worlds, or for all tables, and each lever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="*", help="sizes without embeddings")
    parser.add_argument("--total", type=Path, nargs="*", default=[], help="tables, total sizes")
    parser.add_argument("--searches", type=int, default=4, help="of each kind, or of each budget")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--levers", nargs="+", choices=LEVERS, default=list(LEVERS))
    add_json_option(parser)
    told = parser.parse_args()
    table = PrintedTable(COLUMNS, told.json)
    seeds = range(told.first, told.first + told.searches)
    tables = [*_budgets(told.tables, Count.NON_EMBEDDING), *_budgets(told.total, Count.TOTAL)]
    rows = {f"{len(tables)} tables": [(known, seed) for known in tables for seed in seeds]}
    if not tables:
        rows = {kind: [(planted(seed, kind), seed) for seed in seeds] for kind in told.kinds}
    for name, budgets in rows.items():
        for lever in told.levers:
            found = [outcome(known, LEVERS[lever], seed) for known, seed in budgets]
            table.add(name, lever, *cells(found))


def outcome(known: Known, lever: Lever, seed: int) -> SearchOutcome:
    """Runs one search to its end."""
    with tempfile.TemporaryDirectory() as home:
        search = FathomSearch(known, lever.settings, seed, Path(home))
        if lever.off:
            best = min(known.depths, key=known.regret)
            _steer(search, best * (lever.off if seed % 2 else 1 / lever.off), seed)
        moments = list(run(known, search, workers=4, limit=known.ladder_tokens))
        found = find_optimum(search.scheduler.records, seed=seed)
        answer = search.answer()
    identified = isinstance(found, Located) and found.kind is Kind.IDENTIFIED
    low, high = found.interval if isinstance(found, Located) else (1, 1)
    return SearchOutcome(
        settled=found.kind.settled,
        wrong=identified and answer not in known.plateau,
        width=high / low if identified else None,
        until=tokens_until_right(moments, known.plateau) / known.ladder_tokens,
        spent=moments[-1].tokens / known.ladder_tokens,
    )


def first_shapes(shapes: tuple[Shape, ...], depth: float, number: int) -> list[Shape]:
    """The shapes of about one ratio at so many depths, the nearest to `depth` first: spread over a
    factor of `SPAN` to either side, and those beyond it where these are too few."""
    by_depth = {shape.depth: shape for shape in ladder_shapes(shapes)}

    def off(other: int) -> float:
        return abs(math.log(other / depth))

    close = [other for other in by_depth if off(other) <= math.log(SPAN)]
    chosen = spread_depths(close, number) if close else []
    further = sorted(set(by_depth).difference(chosen), key=off)
    chosen = [*chosen, *further][:number]
    return [by_depth[other] for other in sorted(chosen, key=off)]


def cells(found: Sequence[SearchOutcome]) -> list[object]:
    """The cells of a row after its names: counts, the mean width, and medians of tokens."""
    widths = [search.width for search in found if search.width]
    until = median(search.until for search in found)
    return [
        len(found),
        sum(search.settled for search in found),
        sum(search.wrong for search in found),
        math.exp(fmean(map(math.log, widths))) if widths else "-",
        "never" if math.isinf(until) else until,
        sum(math.isinf(search.until) for search in found),
        median(search.spent for search in found),
    ]


def _steer(search: FathomSearch, depth: float, seed: int) -> None:
    """Lets a search begin with depths about `depth`."""
    sampler = NearSampler(
        search.config,
        search.known.shapes,
        seed=derive_seed(seed, "sampler", search.known.params),
    )
    sampler.near = first_shapes(search.known.shapes, depth, sampler.at_once)
    search.scheduler.budgets[search.budget.params].sampler = sampler


def _budgets(tables: Sequence[Path], count: Count) -> Iterator[Known]:
    for path in tables:
        found = known_budgets(read_runs(path), count)
        yield from (known for known in found if len(known.depths) > 1)


if __name__ == "__main__":
    main()
