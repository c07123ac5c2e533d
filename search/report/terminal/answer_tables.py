"""The findings of a study or a table on a terminal: answers, law and paper analyses."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fathom.models.shape import Shape
from fathom.models.spend import OTHER_COINS
from fathom.models.unit import NATS
from fathom.search.analysis.answer.interim import DepthLoss
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.null_laws import as_good
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import budget_text, format_count, rounded_count
from fathom.search.report.terminal.picture import DepthPicture, pictures
from fathom.search.report.terminal.tables import empty_table, print_text, print_whole
from fathom.search.report.words.analysed import (
    columns_text,
    heading,
    noise_text,
    token_law_lines,
)
from fathom.search.report.words.caveats import OF_THE_TRAININGS, unsupported
from fathom.search.report.words.metrics import metric_text
from fathom.search.report.words.other_depths import other_depths
from fathom.search.report.words.sizes import amount_law_text, size_lines
from fathom.search.report.words.text import (
    active_text,
    answer_row,
    depth_text,
    groups_text,
    interval,
    law_formula,
    layers_text,
    null_law_text,
    offered_text,
    short_interval,
    unfinished_text,
    untrained_text,
)
from fathom.search.tables.analysis import Analysis
from fathom.search.words import probabilities_text

COLUMNS = (
    *("budget", "tokens", "depth", "95 % interval", "not ruled out", "loss (nats)", "verdict"),
    "best shape",
)
SHORTER = {"95 % interval": "95 %", "loss (nats)": "loss"}
"""Headings that are shorter on a terminal."""
LEAST = ("tokens", "not ruled out", "best shape", "loss")
"""Columns that a narrow terminal leaves out, in the order in which it does."""
STYLES = {Kind.IDENTIFIED: "green", Kind.PLATEAU: "cyan", Kind.EDGE: "yellow"}
"""Colours of verdicts; others are red."""


def print_conclusion(conclusion: Findings, console: Console) -> None:
    """Prints everything that a study has found: its answers and the paper analyses."""
    print_answers(conclusion, console)
    print_papers(conclusion, console)


def _spent(conclusion: Findings) -> str:
    """The amount that each trial could spend, as text, if it was not tokens; empty where the
    budgets state it."""
    spends = any(optimum.spend.coin in OTHER_COINS for optimum in conclusion.optima)
    return f", {conclusion.horizon_text}" if spends and not conclusion.count.frees_size else ""


def print_answers(conclusion: Findings, console: Console) -> None:
    """Prints a table with one row for each budget, the reason of each verdict, and the best law."""
    table = empty_table(
        f"{conclusion.title}: optimal depth ({conclusion.count.unit_in_full}{_spent(conclusion)})",
        tuple(SHORTER.get(name, name) for name in COLUMNS),
        LEAST,
    )
    for optimum in conclusion.optima:
        cells = optimum_cells(optimum)
        table.add_row(*(cells[name] or "-" for name in COLUMNS))
    table.caption = "best shape, as in best.yaml: depth x d_model, ff_ratio"
    table.caption_justify, table.explained = "left", "best shape"
    if conclusion.optima:
        console.print(table)
    if console.is_terminal and not console.options.ascii_only:
        drawn = [picture for known in conclusion.optima if (picture := _picture(known))]
        console.print(pictures(drawn, console.width))
    for optimum in conclusion.optima:
        label = budget_text(optimum.budget, optimum.count)
        likely = probabilities_text(optimum)
        chances = f" (probability to be the best: depth {likely})" if likely else ""
        console.print(f"\n{label}: {conclusion.reason(optimum)}{chances}", highlight=False)
        if untrained := untrained_text(optimum):
            console.print(f"{label}: {untrained}", highlight=False)
        _print_beside(label, conclusion, optimum, console)
    if conclusion.optima:
        console.print()
    if unfinished := unfinished_text(conclusion):
        print_whole(unfinished, console)
    for name, (say, _) in OF_THE_TRAININGS.items():
        if found := say(conclusion):
            print_text(f"{name}: {found}", console)
    _print_law(conclusion, console)


def print_horizons(study: str, answers: Sequence[tuple[str, Optimum]], console: Console) -> None:
    """Prints a table with a row for each budget and horizon of a study; `answers` are pairs of a
    horizon in words and its answer."""
    names = ("depth", "95 % interval", "verdict", "best shape")
    headings = ("budget", "horizon", *(SHORTER.get(name, name) for name in names))
    table = empty_table(f"{study}: all horizons", headings)
    for horizon, optimum in sorted(answers, key=lambda answer: answer[1].budget):
        cells = optimum_cells(optimum)
        texts = (cells[name] or "-" for name in names)
        table.add_row(format_count(optimum.budget), horizon, *texts)
    console.print(table)


def _print_law(found: Findings, console: Console, at: str = "") -> None:
    """Prints the best law, with `at` naming its horizon, and the laws with one constant that
    predict as well."""
    if found.amount_law:
        print_text(amount_law_text(found.amount_law), console)
    for law in found.laws[:1]:
        print_text(f"law{at}: {law_formula(law)} ({law.name})", console)
        for null in as_good(law, found.null_laws):
            print_text(f"     {null_law_text(null)} predicts as well", console)


def print_next(commands: Sequence[str], console: Console) -> None:
    """Prints the commands to type next, one a line."""
    for number, command in enumerate(commands):
        print_whole(f"{'' if number else 'Next':<12}{command}", console)


def print_papers(conclusion: Findings, console: Console) -> None:
    """Prints the metrics by depth and the published analyses, if there are any."""
    metrics = conclusion.depth_metrics
    for line in (*map(metric_text, metrics), *conclusion.papers.lines(metrics)):
        console.print(line, highlight=False, markup=False)


def optimum_cells(optimum: Optimum) -> dict[str, str | Text]:
    """Returns the cells of a budget by heading, short enough for 80 columns together."""
    return {
        **answer_row(optimum),
        "tokens": rounded_count(optimum.tokens),
        optimum.spend.coin: rounded_count(optimum.spend.amount),
        "95 % interval": short_interval(optimum),
        "best shape": _short(optimum.shape) if optimum.shape else "",
        "verdict": Text(optimum.kind.value, STYLES.get(optimum.kind, "red")),
    }


def _picture(optimum: Optimum) -> DepthPicture | None:
    """Returns the losses of the depths that finished; None with fewer than two."""
    losses = [DepthLoss(o.depth, o.loss, o.standard_error, True) for o in optimum.depths]
    if len(losses) < 2:
        return None
    best = optimum.optimal_depth
    return DepthPicture(
        title=f"{budget_text(optimum.budget, optimum.count)}: "
        f"{depth_text(optimum)}{interval(optimum, ' [', ']')}, {optimum.kind.value}",
        losses=losses,
        curve=optimum.curves.power if best and optimum.curves else None,
        interval=optimum.interval,
        best=best,
    )


def _short(shape: Shape) -> str:
    sizes = f"{layers_text(shape)} x {shape.d_model}{groups_text(shape)}, {shape.ff_ratio:.2f}"
    return sizes + active_text(shape, unit="")


def print_analysis(analysis: Analysis, console: Console) -> None:
    """Prints what was read, the answers with their reasons, the law, and what is not supported."""
    print_whole(heading(analysis), console)
    if columns := columns_text(analysis):
        print_text(f"columns: {columns}", console)
    for note in analysis.notes:
        print_text(f"note: {note}", console)
    console.print()
    for part, size in analysis.sizes:
        for line in size_lines(size, part):
            print_text(line, console)
    if any(found.optima for found in analysis.findings):
        _print_table(analysis, console)
    several = len(analysis.findings) > 1
    for found in analysis.findings:
        _print_law(found, console, f" at {_question(found)}" if several else "")
        if found.unfinished:
            print_whole(f"Unfinished; to resume: {found.resume}", console)
    for line in token_law_lines(analysis):
        print_text(line, console)
    limits: dict[str, list[str]] = {}
    for found in analysis.findings:
        for limit in unsupported(found) if found.optima else ():
            limits.setdefault(limit, []).append(_question(found))
    if limits:
        print_text("\nThese data do not show", console)
    for limit, questions in limits.items():
        everywhere = len(questions) == len(analysis.findings)
        at = "" if everywhere else f" ({', '.join(questions)})"
        print_text(f"- {limit.rstrip('.')}{at}.", console)


def _print_table(analysis: Analysis, console: Console) -> None:
    """Prints a table with a row for each budget and horizon, and the reasons of the verdicts."""
    pairs = [(found, known) for found in analysis.findings for known in found.optima]
    pairs.sort(key=lambda pair: (pair[1].budget, pair[1].tokens))
    parts = [pair[0].part_text for pair in pairs]
    coin, unit = pairs[0][1].spend.coin, pairs[0][1].unit
    shown = {"tokens": coin, NATS.label: unit.label}
    names = [shown.get(name, name) for name in COLUMNS[:-1] if coin or name != "tokens"]
    heads = [SHORTER.get(name, name).removesuffix(f" ({unit})") for name in names]
    count = pairs[0][0].count
    title = f"{analysis.label}: optimal depth ({count.unit_in_full})"
    first = ("of",) if any(parts) else ()
    table = empty_table(title, (*first, *heads, "noise"))
    for part, (found, optimum) in zip(parts, pairs, strict=True):
        cells = optimum_cells(optimum)
        row = [*([part] * len(first)), *(cells[name] or "-" for name in names)]
        table.add_row(*row, noise_text(found, optimum, analysis.noise))
    console.print(table)
    _print_reasons(pairs, console, analysis.noise)


def _print_reasons(
    pairs: Sequence[tuple[Findings, Optimum]], console: Console, noise: float | None
) -> None:
    """Prints the reason of each verdict once, and further lines on each budget."""
    named = [
        _label(optimum, many=len(pairs) > 1) + (f" of {found.part_text}" if found.part else "")
        for found, optimum in pairs
    ]
    reasons: dict[str, list[tuple[str, Findings, Optimum]]] = {}
    for name, (found, optimum) in zip(named, pairs, strict=True):
        reasons.setdefault(found.reason(optimum), []).append((name, found, optimum))
    for reason, alike in reasons.items():
        print_text(f"\n{', '.join(dict.fromkeys(name for name, *_ in alike))}: {reason}", console)
        for name, found, optimum in alike:
            _print_beside(name, found, optimum, console, noise)
    console.print()


def _print_beside(
    name: str, found: Findings, optimum: Optimum, console: Console, noise: float | None = None
) -> None:
    """Prints what other depths of a budget cost, its best size, and what to train next."""
    if costs := other_depths(found, optimum):
        print_text(f"{name}, {costs}", console)
    for line in size_lines(optimum.best_size) if optimum.best_size else ():
        print_text(line, console)
    if offered := offered_text(found, optimum, noise):
        print_text(f"{name}: {offered}", console)


def _label(optimum: Optimum, *, many: bool) -> str:
    at = f" at {rounded_count(optimum.tokens)}" if many and optimum.spend.coin else ""
    return budget_text(optimum.budget, optimum.count) + at


def _question(found: Findings) -> str:
    """The part of a table and the horizon that findings are about, as text."""
    return ", ".join(text for text in (found.part_text, found.horizon_text) if text)
