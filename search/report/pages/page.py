"""The report page: the values of its sections and of their sources, rendered by templates."""

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fathom.models.spend import Coin
from fathom.search.analysis.answer.definitions import depth_standings
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import DepthLaw, predictions
from fathom.search.analysis.laws.weighed_laws import WeighedLaws
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import budget_text, format_count
from fathom.search.records import Stage, TrialRecord
from fathom.search.report.charts.chart import Chart, Marker
from fathom.search.report.charts.colours import ACCENT, DEPTHS
from fathom.search.report.charts.page_figures import (
    SYMBOLS,
    FigureData,
    PageFigure,
    page_figure,
    palette,
)
from fathom.search.report.pages.card import card_text
from fathom.search.report.pages.hero import hero, next_commands
from fathom.search.report.pages.sounding import SoundingValues, sounding
from fathom.search.report.words import text
from fathom.search.report.words.analysed import analysis_facts
from fathom.search.report.words.caveats import unsupported
from fathom.search.report.words.certainty import certainty
from fathom.search.report.words.depth_standing import standing_row
from fathom.search.report.words.latency import (
    BudgetLatency,
    choice_text,
    latency_rows,
    request_text,
)
from fathom.search.report.words.metrics import metrics_values
from fathom.search.report.words.other_depths import compute_note, cost_cells, cost_note
from fathom.search.report.words.sizes import amount_law_text, size_lines, size_text
from fathom.search.scheduling.audit import RungAudit
from fathom.search.study.file.study_file import dump
from fathom.search.tables.analysis import Analysis
from fathom.search.version import MLFLOW, installed_version, own_version
from fathom.search.words import NOT_RULED_OUT

MARKS = {
    Marker.DOT.value: "finished",
    Marker.HOLLOW.value: "stopped",
    Marker.ABOVE.value: "off the scale",
    Marker.STAR.value: "the answer",
}
"""Marks of all charts -> what they mean."""
TEMPLATES = Path(__file__).with_name("templates")
BEYOND = (3, 10)
"""Multiples of the largest fitted budget for which the page also shows what the laws predict."""
DECIDING_PACKAGES = ("torch", "ray", "optuna", "numpy", "scipy")
"""Packages whose versions a result may depend on."""
COUNT_MEANING = {
    "total": "every trained parameter",
    "non-embedding": "every trained parameter but token embedding, positions and unembedding",
    "matrices": "weights of attention and feed-forward, 12 depth d_model² where d_ff is 4 d_model",
    "active": "every trained parameter but those of experts that a token is not routed to",
    "flops": "operations of a forward pass for a token",
    "heads": "heads of all layers together; parameters differ between depths",
    "width": "d_model; parameters grow with depth",
    "FLOPs": "operations of a whole training, of models of any size",
    "seconds": "training steps of a whole training, of models of any size",
}


@dataclass(frozen=True, slots=True)
class Live:
    """Parts of a page that are present only when a server shows it."""

    stamp: str
    """Mark of the report's version; it differs once the report has changed."""
    state: str
    study_page: str
    """Address of the study in MLflow; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run on the page of all runs."""

    name: str
    state: str
    answers: Sequence[tuple[str, int, str]]
    """Size, depth and verdict of each budget in its last report."""
    picture: str
    """PNG of its last report, in base64; empty without one."""


def index_page(runs: Sequence[ListedRun]) -> str:
    """Returns the HTML of the page of all runs, with a link to each run by its name."""
    return (
        environment()
        .get_template("index.html")
        .render(runs=runs, accent=ACCENT, hues=(), symbols={}, soundings=(), data="")
    )


def page(
    conclusion: Conclusion,
    charts: Sequence[Chart],
    live: Live | None = None,
    latencies: Sequence[BudgetLatency] = (),
) -> str:
    """Returns the HTML of the whole page, readable without a network."""
    trials = text.counted(len(conclusion.records), "trial")
    return _render(
        conclusion,
        charts,
        latencies,
        extent=f"{trials}; losses are {conclusion.config.objective.loss_unit}",
        steps=next_commands(conclusion),
        offered=[
            f"{budget_text(optimum.budget, optimum.count)}: {offered}"
            for optimum in conclusion.optima
            if (offered := text.offered_text(conclusion, optimum))
        ],
        provenance=provenance(conclusion),
        settings=dump(conclusion.config, exclude={"tracking"}),  # the addresses of its stores
        of_study=True,
        live=live,
        card=card_text(conclusion) if conclusion.optima else "",
        latencies={each.budget: _latency_values(each) for each in latencies},
        source="records.jsonl in this folder",
    )


def analysis_page(analysis: Analysis, charts: Sequence[Chart]) -> str:
    """Returns the HTML of the page on a table, which has one horizon."""
    [found] = analysis.findings
    return _render(
        found,
        charts,
        extent=f"{text.counted(analysis.runs, 'run')} of a table",
        steps=None,
        offered=(),
        provenance=analysis_facts(analysis),
        settings="",
        of_study=False,
        live=None,
        card="",
        latencies={},
        source=analysis.label,
    )


def rendered(template: str, charts: Sequence[Chart], data: FigureData, **values: Any) -> str:
    """Returns the HTML of a template, rendered with the colours of its charts, the drawings of
    marks, and the values that a page shows where a reader points."""
    return (
        environment()
        .get_template(template)
        .render(
            accent=ACCENT,
            hues=palette(charts),
            symbols={marker.value: drawing for marker, drawing in SYMBOLS.items()},
            data=data.encoded,
            **values,
        )
    )


def environment() -> Environment:
    """Returns the environment of the page's templates."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["not_ruled_out"] = NOT_RULED_OUT
    found.filters["sections"] = re.compile(r'<section id="([^"]+)"><h2>(.*?)</h2>').findall
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return found


def _render(
    conclusion: Findings,
    charts: Sequence[Chart],
    timed: Sequence[BudgetLatency] = (),
    *,
    extent: str,
    **values: Any,
) -> str:
    optima, data = conclusion.optima, FigureData()
    drawn = [page_figure(chart, data) for chart in charts if chart.budget is not None]
    data.trials = [trial_row(record) for record in conclusion.records]
    top, amount = hero(conclusion, data), conclusion.amount_law
    sounded = sounding(conclusion, timed)
    small = [card["figure"].chart for card in top["cards"] if card["figure"]]
    return rendered(
        "report.html",
        [*charts, *small],
        data,
        study=conclusion.title,
        extent=", ".join(
            [text.counted(len(optima), "budget"), text.count_text(conclusion.count), extent]
        ),
        unfinished=text.unfinished_text(conclusion),
        hero=top,
        soundings=[drawn_sounding(sounded, data)] if sounded else [],
        optima=[table_row(optimum) for optimum in optima],
        seconds=text.seconds_text(conclusion),
        amount_law=text.sentence(amount_law_text(amount)) if amount else "",
        laws=[text.law_text(law) for law in conclusion.laws],
        null_laws=text.null_laws_text(conclusion.laws, conclusion.null_laws),
        predictions=_predictions(conclusion.weighed_laws, optima),
        budgets=[_budget(conclusion, optimum, drawn) for optimum in optima],
        limits=unsupported(conclusion),
        marks=MARKS,
        trials=len(data.trials),
        scale=DEPTHS,
        papers=conclusion.papers.sections,
        **values,
    )


def drawn_sounding(
    sounded: SoundingValues, data: FigureData, *, horizon: str = "", study: str = ""
) -> dict[str, Any]:
    """Returns a sounding as the templates take it; on a page with several, `horizon` in words or
    the name of the `study` tells them apart."""
    figure = page_figure(sounded.chart, data)
    return {"said": sounded, "figure": figure, "horizon": horizon, "study": study}


def trial_row(record: TrialRecord) -> dict[str, str | float | None]:
    """Returns a trial's values by heading, for the table that a reader can sort."""
    spec = record.spec
    return {
        "trial": spec.trial,
        "budget": spec.budget,
        "depth": spec.shape.depth,
        "d_model": spec.shape.d_model,
        "ff_ratio": round(spec.shape.ff_ratio, 2),
        "stage": spec.stage.value,
        "seed": spec.seed,
        "learning rate": float(f"{spec.learning_rate:.3g}"),
        "outcome": record.outcome.value.replace("_", " ") if record.outcome else "running",
        "tokens": record.tokens,
        "loss (nats)": None if record.loss is None else round(record.loss, 4),
    }


def table_row(optimum: Optimum) -> dict[str, str]:
    """Returns a budget's answer as texts by heading, with the counting rule beside its size."""
    row, best = text.answer_row(optimum), optimum.best_size
    size = {"best size": size_text(best)} if best else {}
    return {"budget": f"{row.pop('budget')} {row.pop('count')}", **size, **row}


def _predictions(laws: WeighedLaws | None, optima: Sequence[Optimum]) -> list[dict[str, str]]:
    """Returns one row for each size, as texts by heading: the measured depth, and the predictions
    of the laws, together, weighed by fit, and each alone."""
    if laws is None:
        return []
    measured = {optimum.budget: optimum for optimum in optima}
    largest = laws.params_range[1]
    sizes = sorted({*measured, *(multiple * largest for multiple in BEYOND)})
    return [_prediction_row(size, measured.get(size), laws) for size in sizes]


def _prediction_row(size: int, optimum: Optimum | None, laws: WeighedLaws) -> dict[str, str]:
    known = optimum if optimum and optimum.optimal_depth is not None else None
    depth = f"{known.optimal_depth}{text.interval(known, ' [', ']')}" if known else ""
    several = len(laws.laws) > 1
    whose = "both laws, weighed" if several else f"{laws.name} law"
    return {
        "parameters": format_count(size),
        "measured depth": depth,
        "verdict": known.kind.value if known else "",
        f"{whose}, 95 % interval": _prediction(laws, size),
        **{f"{law.name} law alone": _prediction(law, size) for law in laws.laws if several},
    }


def _prediction(law: DepthLaw, size: int) -> str:
    for found in predictions(law, [size]):  # none where less than one layer is best
        low, high = found.interval or (found.depth, found.depth)
        beyond = ", extrapolated" if found.extrapolated else ""
        return f"{found.depth:.1f} [{low:.1f} to {high:.1f}]{beyond}"
    return ""


def _budget(
    conclusion: Findings, optimum: Optimum, figures: Sequence[PageFigure]
) -> dict[str, Any]:
    rungs = conclusion.audits_of(optimum.budget)
    records = conclusion.records_of(optimum.budget)
    label = format_count(optimum.budget)
    standings = depth_standings(records, optimum)
    costs = cost_cells(conclusion, optimum, [standing.depth for standing in standings])
    return {
        "verdict": optimum.kind.value,
        "size": optimum.budget,
        "anchor": f"budget-{optimum.budget}",
        "label": label,
        "heading": f"{label} {optimum.count.unit}",
        "answer": text.finding(optimum),
        "reason": text.sentence(conclusion.reason(optimum)),
        "certainty": certainty(optimum),
        "depths": [standing_row(known, optimum, costs[known.depth]) for known in standings],
        "notes": [
            *(size_lines(optimum.best_size) if optimum.best_size else ()),
            cost_note(optimum),
            compute_note(conclusion, optimum),
        ],
        "figures": [figure for figure in figures if figure.chart.budget == optimum.budget],
        "metrics": metrics_values(conclusion.depth_metrics, optimum.budget),
        "sentences": [text.sentence(rung.sentence) for rung in rungs],
        "audit": [_audit_row(rung) for rung in rungs],
    }


def _latency_values(each: BudgetLatency) -> dict[str, Any]:
    """Template values of the section on the times of a budget's depths."""
    if not each.is_current:
        stale = "latency.json has times of other shapes than those that are the best of their "
        return {"sentence": f"{stale}depths now; `fathom latency` times these.", "rows": []}
    asked = text.sentence(request_text(each.latency))
    return {"sentence": f"{asked} {choice_text(each)}", "rows": latency_rows(each)}


def _audit_row(rung: RungAudit) -> dict[str, str]:
    in_tokens = {"rung (tokens)": format_count(rung.rung)}
    return {
        **(in_tokens if rung.unit == Coin.TOKENS else {"rung": rung.place}),
        "finished": str(rung.finished),
        "pairs": str(rung.pairs),
        "rank correlation": text.optional(rung.rank_correlation, ".2f"),
        "depth bias": text.optional(rung.depth_bias, "+.2f"),
        "place of the best": text.optional(rung.place_of_best, "d"),
        "stopped": str(rung.stopped),
        "too close to stop": str(rung.undecided),
        "audit trials": str(rung.audit_trials),
        "of these, the rule would prune": str(rung.audit_trials_pruned),
        "regret (nats)": text.optional(rung.regret, ".4f"),
        "depths cut off": ", ".join(map(str, rung.cut_depths)) or "none",
    }


def provenance(conclusion: Conclusion) -> dict[str, str]:
    """Returns facts on the source of a report by heading; an unknown fact is empty."""
    records, optima = conclusion.records, conclusion.optima
    rules = dict.fromkeys(optimum.count.label for optimum in optima)
    versions = {name: version(name) for name in DECIDING_PACKAGES}
    packages = {
        "python": platform.python_version(),
        "fathom-depth": own_version() or "not installed",
        **versions,
        "mlflow": installed_version(*MLFLOW),
    }
    return {
        "Source": f"records.jsonl, {text.counted(len(records), 'trial')}",
        "Command": f"fathom run {conclusion.config.study}.yaml, with the study file on the card",
        "Horizon": "; ".join(f"{_whole(o)} at {budget_text(o.budget, o.count)}" for o in optima),
        "Counting rule": "; ".join(f"{rule}: {COUNT_MEANING[rule]}" for rule in rules),
        "Layer": conclusion.config.model.layer_meaning,
        **_sampler(conclusion),
        **_from_records(records),
        "Versions": ", ".join(f"{name} {number}" for name, number in packages.items()),
    }


def _sampler(conclusion: Conclusion) -> dict[str, str]:
    """A heading with the sampler's name, if a repeated search would draw other shapes; otherwise
    empty."""
    known = conclusion.fingerprint
    if known is None or known.reproducible:
        return {}
    return {"Sampler": f"{conclusion.config.sampler}: not reproducible, as it takes no seed"}


def _whole(optimum: Optimum) -> str:
    """The horizon of an answer as text, with its tokens not rounded."""
    tokens = f"{optimum.tokens:,} tokens"
    spend = optimum.spend
    if spend.coin is Coin.TOKENS:
        return tokens
    return f"{spend.amount:.6g} {spend.coin} ({tokens} of the best shape)"


def _from_records(records: Sequence[TrialRecord]) -> dict[str, str]:
    if not records:
        return {}
    rates = sorted({record.spec.learning_rate for record in records})
    ended = [record.ended for record in records if record.ended is not None]
    facts = {
        f"Seeds, {stage}": _spanned({r.spec.seed for r in records if r.spec.stage is stage})
        for stage in Stage
    }
    facts["Learning rate"] = ", ".join(f"{rate:g}" for rate in rates)
    facts["First trial started"] = _moment(min(record.started for record in records))
    if ended:
        facts["Last trial ended"] = _moment(max(ended))
    return facts


def _spanned(seeds: set[int]) -> str:
    if len(seeds) < 2:
        return "".join(map(str, seeds))
    return f"{len(seeds)} different, {min(seeds)} to {max(seeds)}; tables/trials.csv has each"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
