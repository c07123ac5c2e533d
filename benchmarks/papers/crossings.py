"""Losses of depths over sizes, where they cross, and the law through that (Levine et al. 2020)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp

from fathom.papers.analyses.crossings.find import Crossing
from fathom.papers.analyses.crossings.find import find as find_crossings
from fathom.papers.analyses.crossings.show import crossing_law_text
from fathom.search.analysis.laws.published import LEVINE_A, LEVINE_B
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.formatting import format_count, rounded_count
from fathom.search.records import Stage, TrialRecord
from fathom.search.study.keys.config import StudyConfig


def crossing_tables(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Tables of loss by depth and size, crossings and law: at one rate and at the best rates.

    All seeds count, unlike in a run's report: every depth was trained to the end with each seed,
    so that no depth was chosen by its exploring trials.
    """
    equal = [
        replace(record, spec=replace(record.spec, stage=Stage.CONFIRM))
        for record in records
        if record.loss is not None
    ]
    at_one = [record for record in equal if record.spec.rate_scale == 1]
    yield "At one rate:"
    yield from _tables(at_one, seed=config.seed)
    if len(at_one) < len(equal):
        yield "\nEach shape at the best of its rates:"
        yield from _tables(equal, seed=config.seed)


def _tables(records: Sequence[TrialRecord], *, seed: int) -> Iterator[str]:
    """The loss of each depth at each size, the crossings of neighbours, and the law."""
    yield ""
    yield from _loss_table(records)
    yield ""
    found = find_crossings(records, seed=seed)
    if found is None:
        yield "No two sizes have two depths in common."
        return
    yield "| depths | finding | parameters [95 %] | published law |"
    yield "|---|---|---|---|"
    yield from (_row(pair) for pair in found.pairs if pair.neighbours)
    yield f"\nLaw: {crossing_law_text(found.law)}."


def _loss_table(records: Sequence[TrialRecord]) -> Iterator[str]:
    """Table of each depth's loss with its standard error, from which crossings are found."""
    budgets = sorted({record.spec.budget for record in records})
    cells: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for budget in budgets:
        for estimate in estimate_depths([r for r in records if r.spec.budget == budget]).depths:
            cells[estimate.depth][budget] = f"{estimate.loss:.3f} ± {estimate.standard_error:.3f}"
    yield f"| layers | {' | '.join(map(format_count, budgets))} |"
    yield f"|---{'|---' * len(budgets)}|"
    for depth, losses in sorted(cells.items()):
        yield f"| {depth} | {' | '.join(losses.get(budget, 'none') for budget in budgets)} |"


def _row(pair: Crossing) -> str:
    size = "none"
    if pair.params and pair.interval:
        low, high = map(rounded_count, pair.interval)
        size = f"{rounded_count(pair.params)} [{low} to {high}]"
    published = 12 * pair.depth * exp(2 * (LEVINE_A + LEVINE_B * pair.depth))
    return f"| {pair.shallow}, {pair.deep} | {pair.kind} | {size} | {rounded_count(published)} |"
