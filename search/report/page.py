"""The page: every section of `report.html`, put into the template beside this file."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from fathom.search.analysis.law import Law
from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.papers.findings import PaperFindings
from fathom.search.formatting import format_count
from fathom.search.records import TrialRecord
from fathom.search.report.caveats import unsupported
from fathom.search.report.certainty import certainty
from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.page_figures import interactive, palette, plotly_script
from fathom.search.report.law_section import law_part
from fathom.search.report.markup import MISSING, facts_list, html_table, prose
from fathom.search.report.papers_section import papers_links, papers_section
from fathom.search.report.provenance import facts_of
from fathom.search.report.text import (
    answer,
    counted,
    finding,
    interval,
    plateau,
    question,
    trials,
    width_words,
)
from fathom.search.scheduling.audit import RungAudit

TEMPLATE = Path(__file__).with_name("template.html")
WIDE = ' class="wide"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """Everything that a report is made of."""

    study: str
    records: Sequence[TrialRecord]
    optima: Sequence[Optimum]
    laws: Sequence[Law]
    audits: Mapping[int, Sequence[RungAudit]]
    """By budget."""
    papers: PaperFindings
    settings: str
    """The resolved config, as text."""
    versions: Mapping[str, str]
    """Library to version."""
    loss_unit: str
    """Of the objective, in words."""

    def of(self, optimum: Optimum) -> list[TrialRecord]:
        """The records of one budget."""
        return [record for record in self.records if record.spec.budget == optimum.budget]


def page(report: PageContent, charts: Sequence[Chart]) -> str:
    """The whole page, with everything in it that it needs to be read without a network."""
    across = [chart for chart in charts if chart.budget is None]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        study=escape(report.study),
        extent=_extent(report),
        navigation=_navigation(report),
        answers=_answers(report.optima),
        table=_table(report.optima),
        law=_figures(across) + law_part(report.laws, report.optima),
        papers=papers_section(report.papers),
        budgets="".join(_budget(report, optimum, charts) for optimum in report.optima),
        unsupported=_unsupported(report),
        provenance=_provenance(report),
        plotly=plotly_script(),
        charts=_script_json({chart.key: interactive(chart) for chart in charts}),
        palette=_script_json(palette(charts)),
    )


def _script_json(value: object) -> str:
    """JSON that cannot end the script element around it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _extent(report: PageContent) -> str:
    sizes = counted(len(report.optima), "budget")
    trials = counted(len(report.records), "trial")
    return f"{sizes}, {trials}; losses are {report.loss_unit}"


def _navigation(report: PageContent) -> str:
    links = [("table", "Table"), ("law", "Across budgets")]
    links += papers_links(report.papers)
    links += [(f"budget-{own.budget}", format_count(own.budget)) for own in report.optima]
    links += [("unsupported", "Not supported"), ("provenance", "Provenance")]
    return "".join(f'<a href="#{anchor}">{escape(text)}</a>' for anchor, text in links)


def _answers(optima: Sequence[Optimum]) -> str:
    if not optima:
        return '<p class="answer">No trial has ended yet, so there is no answer yet.</p>'
    return "".join(_answer(optimum) for optimum in optima)


def _answer(optimum: Optimum) -> str:
    """The sentence of `answer`, with its parts marked for the eye."""
    asked = f'<span class="question">{escape(question(optimum))}:</span>'
    found = re.sub(r"^(no depth yet|depth \d+)", r"<b>\1</b>", escape(finding(optimum)))
    found = re.sub(r"\[?\d+(-\d+| or \w+)\]?", r'<span class="range">\g<0></span>', found)
    return (
        f'<div class="answer"><p class="sentence">{asked} {found}, {_verdict(optimum)}</p>'
        f'<p class="reason">{prose(optimum.reason)}</p></div>'
    )


def _verdict(optimum: Optimum) -> str:
    return f'<span class="verdict {optimum.verdict}">{optimum.verdict}</span>'


def _table(optima: Sequence[Optimum]) -> str:
    rows = [_table_row(optimum) for optimum in optima]
    if not rows:
        return ""
    return html_table([name for name, _ in rows[0]], [[cell for _, cell in row] for row in rows])


def _table_row(optimum: Optimum) -> list[tuple[str, str]]:
    shape = optimum.shape
    sizes = {
        "d_model": width_words(optimum) or MISSING,
        "d_ff / d_model": f"{shape.ff_ratio:.2f}" if shape else MISSING,
        "heads": str(shape.n_heads) if shape else MISSING,
        "parameters, total": f"{shape.params_total:,}" if shape else MISSING,
        "non-embedding": f"{shape.params_non_embedding:,}" if shape else MISSING,
    }
    return [
        ("budget", f"<b>{format_count(optimum.budget)}</b> {optimum.count.words}"),
        ("tokens", format_count(optimum.tokens)),
        ("depth", f"<b>{optimum.optimal_depth or MISSING}</b>"),
        ("95 % interval", interval(optimum) or MISSING),
        ("plateau", plateau(optimum) or MISSING),
        ("verdict", _verdict(optimum)),
        *sizes.items(),
        ("loss (nats)", MISSING if optimum.loss is None else f"{optimum.loss:.4f}"),
        ("trials", trials(optimum) or "none"),
    ]


def _figures(charts: Sequence[Chart]) -> str:
    return "".join(
        f'<figure id="{chart.key}"{WIDE if chart.wide else ""}><h3>{escape(chart.title)}</h3>'
        f'<div class="plot" data-chart="{chart.key}" role="img" aria-label="{escape(chart.title)}">'
        f"</div><figcaption>{escape(chart.caption)} "
        f'<a href="figures/{chart.key}.svg">SVG</a> <a href="figures/{chart.key}.png">PNG</a>'
        "</figcaption></figure>"
        for chart in charts
    )


def _budget(report: PageContent, optimum: Optimum, charts: Sequence[Chart]) -> str:
    own = [chart for chart in charts if chart.budget == optimum.budget]
    shown = _figures(own) or "<p>No trial of this budget has a loss to show.</p>"
    sure = facts_list(certainty(optimum))
    return (
        f'<section id="budget-{optimum.budget}">'
        f"<h2>{format_count(optimum.budget)} {optimum.count.unit}</h2>"
        f'<p class="lead">{escape(answer(optimum))}.</p>'
        f'{sure}<div class="figures">{shown}</div>'
        f"<h3>Can the stopping be trusted?</h3>{_audit(report.audits.get(optimum.budget, ()))}"
        "</section>"
    )


def _audit(rungs: Sequence[RungAudit]) -> str:
    if not rungs:
        return "<p>No trial reached a rung, so there is nothing to audit.</p>"
    heads = ["rung (tokens)", "finished", "pairs", "agreement", "lean", "place of the best"]
    heads += ["stopped", "never stopped", "of these spared", "regret (nats)", "depths cut off"]
    sentences = "".join(f"<li>{prose(rung.sentence)}</li>" for rung in rungs)
    table = html_table(heads, [_audit_row(rung) for rung in rungs])
    return (
        f"<ul>{sentences}</ul><details><summary>Figures of the audit</summary>{table}"
        '<p class="note">'
        "Agreement is Kendall's tau between the order at the rung and the order at the end,"
        " over the pairs of trials that end further apart than seeds explain; lean is the rank"
        " correlation of depth with the places that a trial gains from rung to end, so above 0"
        " deep trials are judged too harshly. Both are of the order by the loss at the rung or"
        " by the one foreseen there, whichever is nearer to the end. Spared are those of the"
        " trials that are never stopped that the rule would have stopped; regret is by how"
        " much the best of them ended ahead of the best explored trial that went on.</p></details>"
    )


def _audit_row(rung: RungAudit) -> list[str]:
    return [
        format_count(rung.rung),
        str(rung.finished),
        str(rung.pairs),
        MISSING if rung.agreement is None else f"{rung.agreement:.2f}",
        MISSING if rung.depth_lean is None else f"{rung.depth_lean:+.2f}",
        MISSING if rung.place_of_best is None else str(rung.place_of_best),
        str(rung.stopped),
        str(rung.exempt),
        str(rung.spared),
        MISSING if rung.regret is None else f"{rung.regret:.4f}",
        ", ".join(map(str, rung.cut_depths)) or "none",
    ]


def _unsupported(report: PageContent) -> str:
    limits = unsupported(report.records, report.optima, report.laws, report.audits)
    items = "".join(f"<li>{escape(limit)}</li>" for limit in limits)
    return f"<p>These data do not show</p><ul>{items}</ul>"


def _provenance(report: PageContent) -> str:
    facts = facts_of(report.records, report.optima, report.versions)
    settings = escape(report.settings) or "not recorded"
    return f"{facts_list(facts)}<details><summary>Settings</summary><pre>{settings}</pre></details>"
