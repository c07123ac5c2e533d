"""The command `analyse`: the statistics of a search, applied to training curves that exist
already."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fathom.models.shape import Count
from fathom.search.commands.arguments import ExitVerdict, Json, Maps
from fathom.search.commands.output import command_again, exit_by_verdict, print_reply

if TYPE_CHECKING:
    from fathom.search.contract.reply import Reply
    from fathom.search.tables.analysis import Analysis

Source = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, JSON, Markdown or parquet; a folder of logs, of tables, of Ray Tune's "
        "results or of TensorBoard's event files; a run folder; MLflow's or Optuna's address; "
        "wandb:ENTITY/PROJECT.",
        metavar="SOURCE",
    ),
]
CountRule = Annotated[
    Count | None, typer.Option(help="Parameters that a size counts: total or non_embedding.")
]
Budgets = Annotated[
    list[str] | None,
    typer.Option("--params", help="Size, such as 100M; by default the sizes with the most depths."),
]
Width = Annotated[
    float, typer.Option(help="How far a size may be from a budget, as a share of it.")
]
Horizons = Annotated[
    list[str] | None,
    typer.Option("--horizon", help="Training tokens; by default those the runs share."),
]
Several = Annotated[
    str | None,
    typer.Option(
        "--horizons",
        metavar="LIST",
        help="Several: 20,40,160 tokens a parameter, or 2B,8B. Adds a law over both.",
    ),
]
Noise = Annotated[
    float | None,
    typer.Option(help="Noise between seeds, if you know it and the table has one seed."),
]
LossUnit = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT", help="Unit of the loss, such as bits_per_byte; by default by its name."
    ),
]
TokensPerByte = Annotated[
    float | None,
    typer.Option(help="Tokens for each byte or character of the loss; without it, 0.25 a byte."),
]
Maximise = Annotated[bool, typer.Option("--maximise", help="Higher is better, as for accuracy.")]
At = Annotated[
    str | None,
    typer.Option(metavar="COIN", help="Find the best size too, at equal flops, seconds or tokens."),
]
BestOf = Annotated[
    list[str] | None,
    typer.Option("--best-of", metavar="COLUMN", help="Use its best value for each shape."),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="COLUMN=VALUE", help="Use only the rows with this value."),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="COLUMN", help="Answer separately for each value."),
]
Experiment = Annotated[
    str | None, typer.Option(help="Name or id of an experiment of MLflow, or a study of Optuna.")
]
Lines = Annotated[
    list[str] | None,
    typer.Option(
        "--line",
        metavar="PATTERN",
        help="Pattern of the numbers in a log line: 'step (?P<step>\\d+).* loss (?P<loss>\\S+)'.",
    ),
]
ReportFolder = Annotated[
    Path | None, typer.Option(help="Folder for the report page, its figures and tables.")
]


def analyse(
    source: Source,
    maps: Maps = None,
    count: CountRule = None,
    budgets: Budgets = None,
    width: Width = 0.1,
    horizons: Horizons = None,
    several: Several = None,
    noise: Noise = None,
    loss_unit: LossUnit = None,
    tokens_per_byte: TokensPerByte = None,
    maximise: Maximise = False,
    at: At = None,
    best_of: BestOf = None,
    where: Where = None,
    by: By = None,
    experiment: Experiment = None,
    lines: Lines = None,
    report: ReportFolder = None,
    as_json: Json = False,
    exit_verdict: ExitVerdict = False,
) -> None:
    """Say how deep models should be from runs that exist: tables, logs, event files, trackers.

    Nothing is trained, and no GPU is needed. Columns are recognised by their usual names.
    """
    from fathom.search.analysing.source import answer_source, question_of, write_report_of

    asked = question_of(
        count=count, budgets=budgets, width=width, horizons=horizons, several=several,
        noise=noise, best_of=best_of, where=where, by=by, unit=loss_unit,
        tokens_per_byte=tokens_per_byte, maximise=maximise, at=at,
    )  # fmt: skip
    analysis = answer_source(source, maps or [], asked, experiment, lines or [])
    page = None if report is None else write_report_of(analysis, report)
    if not as_json:
        _print(analysis, page)
    if as_json or exit_verdict:
        reply = _reply(analysis)
        if as_json:
            print_reply(reply)
        if exit_verdict:
            exit_by_verdict(reply)


def _reply(analysis: "Analysis") -> "Reply":
    """The answers of an analysis in the form that programs read."""
    if analysis.columns:
        from fathom.search.contract.table_answers import table_reply

        return table_reply(analysis, command_again())
    from fathom.search.contract.studies import run_folder_reply

    return run_folder_reply(analysis)


def _print(analysis: "Analysis", page: Path | None) -> None:
    """Prints the answers of an analysis, and the path of the report's page."""
    from fathom.search.report.terminal.answer_tables import print_analysis
    from fathom.search.report.terminal.tables import print_whole, terminal

    console = terminal()
    print_analysis(analysis, console)
    if page is not None:
        print_whole(f"\nReport      {page}", console)
