"""The files of a report: the page, figures for papers, and tables as CSV."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fathom.objectives.files.durable import put_all_in_place
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.findings import Findings
from fathom.search.report.charts.card_picture import SLIDE, AnswerPicture, save_picture
from fathom.search.report.charts.chart import Chart
from fathom.search.report.charts.cost import loss_against_flops, loss_against_step_time
from fathom.search.report.charts.depth import loss_against_depth, metric_against_depth
from fathom.search.report.charts.paper_figures import save_static
from fathom.search.report.charts.sizes import loss_over_sizes
from fathom.search.report.charts.token_time import loss_against_token_time
from fathom.search.report.charts.trials import learning_curves
from fathom.search.report.charts.units import in_unit
from fathom.search.report.pages.card import CARD, PICTURE, save_card
from fathom.search.report.pages.data import rows_by_kind, save_tables
from fathom.search.report.pages.hero import strip_charts
from fathom.search.report.pages.page import analysis_page, page
from fathom.search.report.pages.sounding import sounding
from fathom.search.report.words.latency import BudgetLatency, kept_latency
from fathom.search.report.words.metrics import metrics_by_kind
from fathom.search.report.words.text import summary
from fathom.search.run_folder import RunFolder
from fathom.search.tables.analysis import Analysis
from fathom.search.version import program

PARTS = {"figures": (".png", ".svg"), "tables": (".csv",)}
"""Folder of a report -> endings in the names of its files."""


def write_report(conclusion: Conclusion, run_folder: Path) -> Path:
    """Writes `report.html`, `figures/`, `tables/` and, if a trial has ended, the card into the run
    folder; returns the page's path.

    The same conclusion gives the same bytes. Files are written to a temporary folder and then
    moved, the page last, so that an interruption leaves an earlier report whole.
    """
    latencies = kept_latency(conclusion, RunFolder(run_folder))
    charts = make_charts(conclusion, latencies)
    text = page(conclusion, charts, latencies=latencies)
    return _write(run_folder, text, charts, conclusion)


def write_analysis(analysis: Analysis, folder: Path) -> Path:
    """Writes the report of a table at one horizon into a folder, like the report of a study."""
    [found] = analysis.findings
    charts = make_charts(found, of_trials=False)
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder, analysis_page(analysis, charts), charts, found)


def write_card(conclusion: Conclusion, folder: Path) -> str:
    """Writes `card.md` and `card.png` into a folder; returns the Markdown."""
    with TemporaryDirectory(dir=folder, prefix=".card-") as aside:
        found = save_card(conclusion, Path(aside))
        put_all_in_place(_card_moves(Path(aside), folder))
    return found


def _write(folder: Path, text: str, charts: Sequence[Chart], found: Findings) -> Path:
    with drafted(folder, text) as draft:
        if isinstance(found, Conclusion) and found.optima:
            save_card(found, draft)
        save_static(charts, draft / "figures")
        _save_answer(found, draft / "figures")
        save_tables(draft / "tables", rows_by_kind(found))
    return folder / "report.html"


def _save_answer(found: Findings, folder: Path) -> None:
    """Saves `answer.png` and `answer.svg` with the answer of every budget; none without any."""
    charts = tuple(chart for chart in strip_charts(found) if chart is not None)
    shown = AnswerPicture(
        heading=found.title, claim=summary(found.optima), charts=charts, source="",
        program=program(),
    )  # fmt: skip
    for ending in PARTS["figures"] if charts else ():
        save_picture(shown, folder / f"answer{ending}", SLIDE)


@contextmanager
def drafted(folder: Path, text: str) -> Iterator[Path]:
    """Context with a draft folder for a report's figures and tables; at its end they are moved to
    `folder`, with a page of the given text."""
    with TemporaryDirectory(dir=folder, prefix=".report-") as aside:
        draft = Path(aside)
        for part in PARTS:
            (draft / part).mkdir()
        yield draft
        (draft / "report.html").write_text(text, encoding="utf-8")
        _publish(draft, folder)


def make_charts(
    conclusion: Findings, latencies: Sequence[BudgetLatency] = (), *, of_trials: bool = True
) -> tuple[Chart, ...]:
    """Returns every chart that has something to show: across budgets first, then by budget.

    Charts of trials over tokens, time and operations need trials that Fathom has trained.
    """
    timed = {each.budget: each for each in latencies if each.is_current}
    sounded = sounding(conclusion)
    charts = [sounded.chart if sounded else None]
    for optimum in conclusion.optima:
        records = conclusion.records_of(optimum.budget)
        charts += [
            loss_over_sizes(records, optimum),
            in_unit(loss_against_depth(records, optimum), optimum.unit),
            *(
                metric_against_depth(metrics, optimum)
                for metrics in metrics_by_kind(conclusion.depth_metrics, optimum.budget).values()
            ),
        ]
        if of_trials:
            charts += [
                learning_curves(records, optimum),
                loss_against_step_time(records, optimum),
                loss_against_flops(records, optimum),
            ]
        if optimum.budget in timed:
            charts.append(loss_against_token_time(timed[optimum.budget]))
    return tuple(chart for chart in charts if chart is not None)


def _publish(draft: Path, folder: Path) -> None:
    """Moves new files over old ones, the page last, then removes old files that have no new
    version."""
    moves = []
    for part in PARTS:
        (folder / part).mkdir(exist_ok=True)
        moves += [(file, folder / part / file.name) for file in sorted((draft / part).iterdir())]
    moves += _card_moves(draft, folder)
    put_all_in_place([*moves, (draft / "report.html", folder / "report.html")])
    new = {path for _, path in moves}
    for part, suffixes in PARTS.items():
        for path in (folder / part).iterdir():
            if path.suffix in suffixes and path not in new:
                path.unlink()


def _card_moves(draft: Path, folder: Path) -> list[tuple[Path, Path]]:
    """Returns source and destination of each file of the card; none without a card."""
    made = [draft / name for name in (CARD, PICTURE)]
    return [(file, folder / file.name) for file in made if file.exists()]
