"""The page of a study of several horizons: their answers beside each other."""

from collections.abc import Sequence
from pathlib import Path

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.token_law import TokenLaw
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.findings import flat_optimum_row
from fathom.search.conclusion.token_laws import why_no_token_law
from fathom.search.formatting import format_count
from fathom.search.report.charts.page_figures import FigureData, page_figure
from fathom.search.report.charts.paper_figures import save_static
from fathom.search.report.charts.tokens import depth_against_tokens
from fathom.search.report.pages.data import save_tables
from fathom.search.report.pages.page import drawn_sounding, rendered, table_row
from fathom.search.report.pages.sounding import sounding
from fathom.search.report.pages.writer import drafted
from fathom.search.report.words import text
from fathom.search.study.file.study_file import dump
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_name, horizon_words


def horizons_rows(answers: Sequence[Conclusion]) -> list[dict[str, str]]:
    """Returns one row for each budget and horizon: texts by heading."""
    found = [(answer, optimum) for answer in answers for optimum in answer.optima]
    return [
        {"budget": "", "horizon": horizon_words(answer.config)} | table_row(optimum)
        for answer, optimum in sorted(found, key=lambda pair: pair[1].budget)
    ]


def law_sentence(answers: Sequence[Conclusion], law: TokenLaw | None) -> str:
    """Returns the law over parameters and tokens in words, or why there is none."""
    if law:
        return text.sentence(text.token_law_text(law))
    why = why_no_token_law(_optima(answers))
    return text.sentence(f"no law over parameters and tokens: {why}")


def summary(answers: Sequence[Conclusion]) -> list[str]:
    """Returns a sentence for each budget: its best depths by horizon."""
    found: dict[int, list[str]] = {}
    for answer in answers:
        for optimum in answer.optima:
            depth = f"{optimum.optimal_depth or '?'} after {horizon_words(answer.config)}"
            found.setdefault(optimum.budget, []).append(depth)
    return [
        f"At {format_count(budget)}, best depths are {', '.join(depths)}."
        for budget, depths in sorted(found.items())
    ]


def write_horizons(
    folder: Path, page: str, answers: Sequence[Conclusion], law: TokenLaw | None
) -> None:
    """Writes the page, its figure and its table into the run folder of the study."""
    chart = depth_against_tokens(_optima(answers), law)
    rows = [
        {"horizon": horizon_name(answer.config), **flat_optimum_row(optimum)}
        for answer in answers
        for optimum in answer.optima
    ]
    with drafted(folder, page) as draft:
        save_static([chart] if chart else [], draft / "figures")
        save_tables(draft / "tables", {"optima": rows} if rows else {})


def _optima(answers: Sequence[Conclusion]) -> list[Optimum]:
    return [optimum for answer in answers for optimum in answer.optima]


def horizons_page(
    config: StudyConfig,
    answers: Sequence[Conclusion],
    law: TokenLaw | None,
    *,
    link: str,
) -> str:
    """Returns the HTML of the page; `link` is the address of a horizon's report, with braces in
    place of the name of its study."""
    chart, data = depth_against_tokens(_optima(answers), law), FigureData()
    charts = [chart] if chart else []
    soundings = [
        drawn_sounding(sounded, data, horizon=horizon_words(answer.config))
        for answer in answers
        if (sounded := sounding(answer, key=f"sounding-{horizon_name(answer.config)}"))
    ]
    links = {horizon_words(answer.config): link.format(answer.title) for answer in answers}
    return rendered(
        "horizons.html",
        [*charts, *(each["said"].chart for each in soundings)],
        data,
        study=config.study,
        sentences=summary(answers),
        links=links,
        rows=horizons_rows(answers),
        figures_across=[page_figure(drawn, data) for drawn in charts],
        soundings=soundings,
        law=law_sentence(answers, law),
        settings=dump(config, exclude={"tracking"}),
    )
