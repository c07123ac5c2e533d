"""Output of `fathom compare`: what it prints, and its reply for programs."""

from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console

from fathom.search.conclusion.comparison import CONFIDENCE, ComparedStudies
from fathom.search.contract.reply import (
    Difference,
    Reply,
    StatedDepthRatio,
    StudyComparison,
    StudyLoss,
)
from fathom.search.report.pages.comparison import notes_of, tables_of
from fathom.search.report.terminal.tables import empty_table, print_text


def print_comparison(comparison: ComparedStudies, console: Console) -> None:
    """Prints the tables of a comparison, and notes on how to read them."""
    for heading, rows in tables_of(comparison).items():
        heads = tuple(head for head in rows[0] if any(row[head] for row in rows))
        table = empty_table(heading, heads)
        for row in rows:
            table.add_row(*(row[head] for head in heads))
        console.print(table)
    for note in notes_of(comparison):
        print_text(note, console)


def comparison_reply(comparison: ComparedStudies) -> Reply:
    """The reply for programs: best depths, best losses and their differences."""
    best = tuple(
        StudyLoss(study=study.name, budget=budget, **asdict(best))
        for study in comparison.studies
        for budget, best in study.best.items()
    )
    differences = tuple(
        Difference(
            budget=pair.budget, one=pair.one, other=pair.other,
            settled=pair.losses.is_settled, **asdict(pair.losses),
        )
        for pair in comparison.pairs
        if pair.losses
    )  # fmt: skip
    found = StudyComparison(
        confidence=CONFIDENCE,
        differing=dict(comparison.differing),
        best=best,
        depths=tuple(_depths(comparison)),
        differences=differences,
        no_differences=comparison.no_losses,
    )
    return Reply(command="compare", comparison=found)


def _depths(comparison: ComparedStudies) -> Iterator[StatedDepthRatio]:
    """Yields the ratio of best depths for each pair of studies, at each budget and over several."""
    for pair in comparison.pairs:
        found = pair.depths
        costs = (found.first_in_other, found.other_in_first) if found else (None, None)
        yield StatedDepthRatio(
            budgets=(pair.budget,),
            one=pair.one,
            other=pair.other,
            **(asdict(found.ratio) if found else {}),
            settled=found is not None and found.ratio.is_settled,
            costs=tuple(cost.nats if cost else None for cost in costs),
            cost_intervals=tuple(cost.interval if cost else None for cost in costs),
            why_not=pair.why_not,
        )
    for together in comparison.together:
        yield StatedDepthRatio(
            budgets=together.budgets,
            one=together.one,
            other=together.other,
            **asdict(together.ratio),
            settled=together.ratio.is_settled,
        )
