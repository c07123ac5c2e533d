"""What a study has found as tables for people."""

from rich.console import Console

from fathom.search.analysis.law import Law
from fathom.search.analysis.law_fit import LOGARITHMIC
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.analysis.verdict import Verdict
from fathom.search.formatting import format_count, ranges, rounded_count
from fathom.search.report.papers_text import papers_lines
from fathom.search.report.terminal.tables import empty_table
from fathom.search.report.text import interval
from fathom.search.study.config import StudyConfig

VERDICT_STYLES = {
    Verdict.IDENTIFIED: "green",
    Verdict.PLATEAU: "cyan",
    Verdict.EDGE: "yellow",
    Verdict.INSUFFICIENT: "red",
}


def print_findings(
    config: StudyConfig,
    optima: tuple[Optimum, ...],
    laws: tuple[Law, ...],
    console: Console,
    *,
    papers: PaperFindings | None = None,
) -> None:
    """All that a study has found: the optima, the law, and what else is given."""
    _print_optima(config, optima, console)
    _print_laws(laws, console)
    if papers:
        print_papers(papers, console)


def _print_optima(config: StudyConfig, optima: tuple[Optimum, ...], console: Console) -> None:
    """The answer: one line a budget, then why for each verdict."""
    table = empty_table(
        f"{config.study}: optimal depth ({config.count.unit_in_full})",
        (
            "budget",
            "tokens",
            "depth",
            "95 %",
            "plateau",
            "d_model",
            "ff_ratio",
            "loss",
            "verdict",
        ),
    )
    for optimum in optima:
        table.add_row(*_optimum_row(optimum))
    console.print(table)
    for optimum in optima:
        console.print(f"{format_count(optimum.budget)}: {optimum.reason}", highlight=False)


def _print_laws(laws: tuple[Law, ...], console: Console) -> None:
    """The law across budgets, or nothing."""
    for law in laws[:1]:
        formula = (
            f"ln d_model = {law.a:.3f} + {law.b:.4f} depth"
            if law.name == LOGARITHMIC
            else f"ln depth = {law.a:.3f} + {law.b:.4f} ln params"
        )
        console.print(f"law: {formula} ({law.name})", highlight=False)


def print_papers(papers: PaperFindings, console: Console) -> None:
    """What else the records say, or nothing."""
    for line in papers_lines(papers):
        console.print(line, highlight=False, markup=False)


def _optimum_row(optimum: Optimum) -> list[str]:
    shape = optimum.shape
    style = VERDICT_STYLES[optimum.verdict]
    return [
        format_count(optimum.budget),
        rounded_count(optimum.tokens),
        str(optimum.optimal_depth or "-"),
        # Shorter than in the report, to leave room for the plateau in 80 columns.
        interval(optimum).replace(" or deeper", "+") or "-",
        ranges(optimum.plateau) or "-",
        str(shape.d_model) if shape else "-",
        f"{shape.ff_ratio:.2f}" if shape else "-",
        f"{optimum.loss:.4f}" if optimum.loss is not None else "-",
        f"[{style}]{optimum.verdict.value}[/]",
    ]
