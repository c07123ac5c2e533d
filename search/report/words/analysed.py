"""Sentences on the answers of a table, on how its columns were read, and on the source of the
noise."""

from collections.abc import Iterator

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.losses.depth_estimates import seed_noise
from fathom.search.conclusion.findings import Findings
from fathom.search.conclusion.token_laws import why_no_token_law
from fathom.search.formatting import budget_text, printable
from fathom.search.report.words.text import counted, token_law_text
from fathom.search.tables.analysis import Analysis


def heading(analysis: Analysis) -> str:
    """The extent of a table in one line."""
    if not analysis.columns:
        return f"{analysis.label}: a run folder, {counted(analysis.rows, 'trial')}"
    return (
        f"{analysis.label}: {counted(analysis.rows, 'row')}, {counted(analysis.runs, 'run')} of "
        f"{counted(analysis.shapes, 'shape')}"
    )


def columns_text(analysis: Analysis) -> str:
    """Sentence that says how each column was read; empty for a run folder."""
    return ", ".join(
        ours if ours == theirs else f"{ours} = {printable(theirs)}"
        for ours, theirs in analysis.columns.items()
    )


def noise_text(found: Findings, optimum: Optimum, stated: float | None) -> str:
    """The noise between seeds behind an answer, and the source of that number."""
    if stated is not None:
        return f"{stated:.4f} stated"
    if found.searched:
        return f"{optimum.noise:.4f} unexplained"
    freedom = seed_noise(found.records_of(optimum.budget)).degrees_of_freedom
    return f"{optimum.unit.difference(optimum.noise):.4f} " + ("measured" if freedom else "assumed")


def analysis_facts(analysis: Analysis) -> dict[str, str]:
    """Facts on the source of the numbers by heading, for the page."""
    [found] = analysis.findings
    return {
        "Source": heading(analysis),
        "Columns": columns_text(analysis),
        "Assumed": "; ".join(analysis.notes),
        "Noise between seeds": "; ".join(
            f"{budget_text(o.budget, o.count)}: {noise_text(found, o, analysis.noise)}"
            for o in found.optima
        ),
    }


def token_law_lines(analysis: Analysis) -> Iterator[str]:
    """Yields the law over parameters and tokens of each part, or why a table at several horizons
    has none."""
    for found in analysis.token_laws:
        part = ", ".join(f"{printable(name)}={printable(it)}" for name, it in found.part.items())
        yield f"law over tokens{f' of {part}' if part else ''}: {token_law_text(found.law)}"
    if len({found.horizon_text for found in analysis.findings}) > 1 and not analysis.token_laws:
        optima = [optimum for found in analysis.findings for optimum in found.optima]
        yield f"no law over parameters and tokens: {why_no_token_law(optima)}"
