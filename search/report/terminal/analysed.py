"""What a table shows, on a terminal."""

from rich.console import Console
from rich.markup import escape

from fathom.search.analysis.null_laws import as_good
from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion import Findings
from fathom.search.formatting import format_count, rounded_count
from fathom.search.report.analysed import columns_text, heading, noise_text
from fathom.search.report.caveats import unsupported
from fathom.search.report.terminal.answer_tables import optimum_cells
from fathom.search.report.terminal.tables import empty_table
from fathom.search.report.text import law_formula, null_law_text
from fathom.search.tables.analysis import Analysis


def print_analysis(analysis: Analysis, console: Console) -> None:
    """Prints what was read, the answers with their reasons, the law, and what is not supported."""
    _print(console, heading(analysis))
    if columns := columns_text(analysis):
        _print(console, f"columns: {columns}")
    for note in analysis.notes:
        _print(console, f"note: {note}")
    console.print()
    _print_answers(analysis, console)
    several = len(analysis.findings) > 1
    for found in analysis.findings:
        horizon = f" at {_horizon(found)}" if several else ""
        for law in found.laws[:1]:
            _print(console, f"law{horizon}: {law_formula(law)} ({law.name})")
            for null in as_good(law, found.null_laws):
                _print(console, f"     {null_law_text(null)} predicts as well")
        if found.unfinished:
            _print(console, f"Unfinished; to resume: {found.resume}")
    limits: dict[str, list[str]] = {}
    for found in analysis.findings:
        for limit in unsupported(found):
            limits.setdefault(limit, []).append(_horizon(found))
    if limits:
        _print(console, "\nThese data do not show")
    for limit, horizons in limits.items():
        everywhere = len(horizons) == len(analysis.findings)
        at = "" if everywhere else f" ({', '.join(horizons)})"
        _print(console, f"- {limit.rstrip('.')}{at}.")


def _print_answers(analysis: Analysis, console: Console) -> None:
    """Prints a table with a row for each budget and horizon, and the reasons of the verdicts."""
    pairs = [(found, known) for found in analysis.findings for known in found.optima]
    pairs.sort(key=lambda pair: (pair[1].budget, pair[1].tokens))
    unit = pairs[0][1].horizon_unit
    heads = ["budget", unit, "depth", "95 %", "plateau", "loss", "verdict", "noise"]
    if not unit:
        heads.remove("")
    count = pairs[0][0].count
    title = f"{escape(analysis.label)}: optimal depth ({count.unit_in_full})"
    table = empty_table(title, tuple(heads))
    for found, optimum in pairs:
        cells = optimum_cells(optimum)
        names = ("budget", "tokens", "depth", "95 % interval", "plateau", "loss (nats)", "verdict")
        row = [cells[name] or "-" for name in names if unit or name != "tokens"]
        table.add_row(*row, noise_text(found, optimum, analysis.noise))
    console.print(table)
    reasons: dict[str, list[str]] = {}
    for found, optimum in pairs:
        reasons.setdefault(found.reason(optimum), []).append(_label(optimum, many=len(pairs) > 1))
    for reason, labels in reasons.items():
        _print(console, f"{', '.join(dict.fromkeys(labels))}: {reason}")


def _label(optimum: Optimum, *, many: bool) -> str:
    at = f" at {rounded_count(optimum.tokens)}" if many and optimum.horizon_unit else ""
    return format_count(optimum.budget) + at


def _horizon(found: Findings) -> str:
    optimum = found.optima[0]
    return f"{rounded_count(optimum.tokens)} {optimum.horizon_unit}".strip()


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
