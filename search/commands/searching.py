"""Commands that search or read a run: `run`, `report`, `ask` and `ui`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fathom.models.shape import Count
from fathom.search.commands.arguments import Json, Overrides, RunPath, Runs, StudyFile
from fathom.search.commands.output import command_again, print_json, say_how_to_go_on

if TYPE_CHECKING:
    from rich.console import Console

    from fathom.objectives.contract import Objective
    from fathom.search.conclusion import Conclusion
    from fathom.search.pipeline import RunResult
    from fathom.search.scheduling.optuna_studies import Studies
    from fathom.search.study.config import StudyConfig
    from fathom.search.study.preflight import ReadyStudy


def run(
    study: StudyFile,
    overrides: Overrides = None,
    runs: Runs = Path("runs"),
    extend: Annotated[
        bool,
        typer.Option("--extend", help="Take up again what was stopped at a rung that failed."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Search every budget of a study; the same command again resumes what was interrupted."""
    from fathom.search.study.config import load, placed

    config = load(study, overrides)
    from fathom.search.study.preflight import check_ready

    with placed(study, overrides):
        ready = check_ready(config, runs)
    studies = _open_database(ready)
    from rich.console import Console

    console = Console(stderr=as_json)
    console.print(f"Study {config.study}: reading the text and starting Ray", style="dim")
    try:
        idle = ready.has_report and not extend
        objective = _prepare(config) if idle else _prepare_and_start_ray(config)
        from fathom.search.pipeline import run_study

        result = run_study(ready, console, objective=objective, studies=studies, extended=extend)
    except KeyboardInterrupt as interrupt:
        say_how_to_go_on(interrupt)
    _print_result(result, runs, console)
    if as_json:
        print_json(_report_json(result.conclusion))
    if not any(optimum.optimal_depth for optimum in result.conclusion.optima):
        print(f"fathom: no trial finished; {result.folder.records} says why", file=sys.stderr)
        sys.exit(1)


def report(run_folder: RunPath, as_json: Json = False) -> None:
    """Conclude again from a run's records: the table, report.html, figures, and MLflow."""
    from rich.console import Console

    from fathom.search.pipeline import report_study
    from fathom.search.report.terminal.answer_tables import print_conclusion

    result = report_study(run_folder)
    if as_json:
        print_json(_report_json(result.conclusion))
        return
    console = Console()
    print_conclusion(result.conclusion, console)
    console.print(f"\nReport      {result.folder.report}", highlight=False)


def ask(
    params: Annotated[str, typer.Option(help="Model size, for example 1B.")],
    hours: Annotated[float, typer.Option(help="Time that the search may take.")],
    data: Annotated[str, typer.Option(help="Text: a path, a glob or a known name.")] = "stdlib",
    tokens: Annotated[
        str | None, typer.Option(help="Its training tokens; by default 20 a parameter.")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="bytes, chars or bpe:N.")] = "bytes",
    gpus: Annotated[int, typer.Option(min=0, help="Trials at a time, one on each GPU.")] = 0,
    count: Annotated[Count, typer.Option(help="Parameters that a size counts.")] = (
        Count.NON_EMBEDDING
    ),
    out: Annotated[Path | None, typer.Option(help="The study file to write.")] = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Write the study and stop there.")
    ] = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say how deep a model of some size should be, by searching smaller ones that fit the time.

    Writes the study that it searches, to be edited and run again; the same question goes on.
    """
    from fathom.search.commands.ask.question import question

    asked = question(
        params=params, tokens=tokens, data=data, tokenizer=tokenizer, hours=hours, gpus=gpus,
        count=count,
    )  # fmt: skip
    from rich.console import Console

    from fathom.search.commands.ask.answer import answer_json
    from fathom.search.commands.ask.run import carry_out, conclude, prepare_study, print_answer

    console = Console(stderr=as_json)
    try:
        prepared = prepare_study(asked, out or Path(f"{asked.name}.yaml"), console)
        if only_plan:
            return
        result = carry_out(prepared, runs, console)
    except KeyboardInterrupt as interrupt:
        say_how_to_go_on(interrupt)
    found = conclude(asked, prepared, result)
    print_answer(found, prepared, result, console)
    if as_json:
        print_json(answer_json(found) if found else None)
    if found is None:
        sys.exit(1)


def ui(
    runs: Runs = Path("runs"),
    study: Annotated[Path | None, typer.Option(help="Study file with its own tracking.")] = None,
    overrides: Overrides = None,
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
) -> None:
    """Serve MLflow's page on loopback, on the store that the runs used."""
    from fathom.search.run_folder import default_tracking_uri
    from fathom.search.study.config import load
    from fathom.search.tracking.ui import open_ui

    uri = load(study, overrides).tracking.uri if study else None
    open_ui(uri or default_tracking_uri(runs), port=port)


def _open_database(ready: "ReadyStudy") -> "Studies | None":
    """The study's database for Optuna, refused before anything starts; None if it names none."""
    if ready.config.tracking.optuna is None:
        return None
    from fathom.search.scheduling.optuna_studies import open_database

    return open_database(ready.config, ready.folder)


def _print_result(result: "RunResult", runs: Path, console: "Console") -> None:
    """Prints what was found, which rungs failed their audit, and where everything is kept."""
    from fathom.search.report.terminal.answer_tables import print_conclusion
    from fathom.search.scheduling.extend import warnings

    folder = result.folder
    print_conclusion(result.conclusion, console)
    for line in warnings(result.conclusion.audits, command_again()):
        console.print(line, style="yellow", highlight=False)
    console.print(f"\nReport      {folder.report}\nShapes      {folder.best}", highlight=False)
    console.print(f"MLflow      fathom ui --runs {runs}", highlight=False)


def _prepare_and_start_ray(config: "StudyConfig") -> "Objective":
    """The study's objective; Ray starts meanwhile, since torch takes seconds to import."""
    from concurrent.futures import ThreadPoolExecutor

    from fathom.search.cluster.ray_session import start_ray

    with ThreadPoolExecutor(1) as aside:
        prepared = aside.submit(_prepare, config)
        start_ray(config.resources)
    return prepared.result()


def _prepare(config: "StudyConfig") -> "Objective":
    from fathom.objectives.prepare import prepare

    return prepare(config.objective)


def _report_json(conclusion: "Conclusion") -> dict[str, Any]:
    from fathom.search.report.writer import report_json

    return report_json(conclusion)
