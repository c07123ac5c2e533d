"""The command line. Each verb imports what it needs when it runs: `--help`, `plan`, `predict` and
`export` must answer at once, and torch, ray and mlflow take seconds to import. This is the one file
where imports stand inside functions.
"""

import errno
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from objectives.objective import Objective
    from search.conclude import Conclusion
    from search.config import StudyConfig
    from search.folder import RunFolder
    from search.studies import Studies

OUR_PACKAGES = {"models", "objectives", "search"}

app = typer.Typer(
    name="fathom",
    help="Finds how deep a transformer should be, for a fixed number of parameters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

StudyFile = Annotated[Path, typer.Argument(help="Study file (YAML).", metavar="STUDY.yaml")]
RunPath = Annotated[Path, typer.Argument(help="Run folder, runs/NAME.", metavar="RUN")]
Runs = Annotated[Path, typer.Option(help="Folder that holds the run folders.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
BudgetOption = Annotated[str | None, typer.Option(help="Which budget, for example 10M.")]


def main() -> None:
    """Entry point: a user's mistake is one line and status 2, what the machine refuses (a full
    disk, say) one line and status 1, Ctrl-C is status 130.
    """
    try:
        app()
    except ValueError as error:
        if type(error).__module__.split(".")[0] not in OUR_PACKAGES:
            raise
        _complain(str(error))
        sys.exit(2)
    except OSError as error:
        if error.errno is None:
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "; free some, then the same command goes on where this one stopped" if full else ""
        where = f": {error.filename}" if error.filename else ""
        _complain(f"{error.strerror}{where}{remedy}")
        sys.exit(1)
    except KeyboardInterrupt:
        print("fathom: interrupted", file=sys.stderr)
        sys.exit(130)


def _say_how_to_go_on(interrupt: KeyboardInterrupt) -> NoReturn:
    """Status 130; at once where the user has insisted: Ray ends with this process."""
    words = [argument for argument in sys.argv[1:] if argument != "--extend"]  # it is noted down
    command = shlex.join(["fathom", *words])
    print(f"fathom: interrupted; nothing is lost. To go on:\n  {command}", file=sys.stderr)
    from search.ending import AtOnce

    if isinstance(interrupt, AtOnce):
        sys.stderr.flush()
        os._exit(130)
    sys.exit(130)


def _complain(text: str) -> None:
    """One line: no password, and nothing that a file put into it commands the terminal."""
    from search.tracking.address import without_credentials

    line = without_credentials(" ".join(text.split()))
    safe = "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)
    print(f"fathom: {safe}", file=sys.stderr)


@app.command()
def plan(
    study: StudyFile,
    shapes: Annotated[bool, typer.Option(help="List every feasible shape.")] = False,
    as_json: Json = False,
) -> None:
    """Show shapes, trials, tokens and time before any compute is spent."""
    from search.config import load
    from search.plan import plan_study, this_machine, vocab_size_of
    from search.tables import plan_json, print_plan

    config = load(study)
    machine = this_machine(config)
    plans = plan_study(config, vocab_size_of(config), machine)
    if as_json:
        _print_json(plan_json(plans, with_shapes=shapes))
    else:
        print_plan(config, plans, machine, with_shapes=shapes)


@app.command()
def check(
    study: StudyFile,
    steps: Annotated[int, typer.Option(min=8, help="Length of each short training.")] = 250,
    as_json: Json = False,
) -> None:
    """Show whether one learning rate suits shapes of every depth and width, in two minutes.

    Exit status 0 when it carries over both, 1 when it does not.
    """
    from rich.console import Console

    from search.config import load

    config = load(study)
    console = Console(stderr=as_json)
    from search.check import check_study
    from search.check_words import check_json, follow, print_check, print_opening
    from search.probe import Probe

    probe = Probe(steps=steps)
    print_opening(config, probe, console)
    result = check_study(config, follow(console), probe)
    if as_json:
        _print_json(check_json(result))
    else:
        print_check(result, console)
    if not result.carries_over:
        sys.exit(1)


@app.command()
def doctor(
    study: Annotated[
        Path | None, typer.Argument(help="Study file (YAML).", metavar="STUDY.yaml")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say whether a search would work here: every node, storage, tracking, open ports.

    Exit status 0 when it would, 1 when it would not.
    """
    from rich.console import Console

    from search.config import load

    config = load(study) if study else None
    from search.doctor.examine import examine
    from search.doctor.words import findings_json, print_findings, would_work

    findings = examine(config, runs)
    if as_json:
        _print_json(findings_json(findings))
    else:
        print_findings(findings, Console())
    if not would_work(findings):
        sys.exit(1)


@app.command()
def run(
    study: StudyFile,
    runs: Runs = Path("runs"),
    extend: Annotated[
        bool,
        typer.Option("--extend", help="Take up again what was stopped at a rung that failed."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Search every budget of a study; the same command again resumes what was interrupted."""
    from search.config import load

    config = load(study)
    from search.folder import RunFolder
    from search.readiness import refuse_unready

    refuse_unready(config, runs)
    studies = _open_studies(config, RunFolder(runs / config.study))
    from rich.console import Console

    console = Console(stderr=as_json)
    console.print(f"Study {config.study}: reading the text and starting Ray", style="dim")
    try:
        # A study with a report has been through, and most likely nothing is left to train.
        over = RunFolder(runs / config.study).report.exists() and not extend
        objective = _prepare(config) if over else _prepare_and_start_ray(config)
        from search.extend import warnings
        from search.run import run_study
        from search.tables import print_further, print_laws, print_optima

        result = run_study(config, objective, runs, console, studies=studies, extended=extend)
    except KeyboardInterrupt as interrupt:
        _say_how_to_go_on(interrupt)
    print_optima(config, result.conclusion.optima, console)
    print_laws(result.conclusion.laws, console)
    print_further(result.conclusion.further, console)
    for line in warnings(result.conclusion.audits, f"fathom run {study}"):
        console.print(line, style="yellow", highlight=False)
    folder = result.folder
    console.print(f"\nReport      {folder.report}\nShapes      {folder.best}", highlight=False)
    console.print(f"MLflow      fathom ui --runs {runs}", highlight=False)
    if as_json:
        _print_json(_report_json(config.study, result.conclusion))
    if not any(optimum.optimal_depth for optimum in result.conclusion.optima):
        print(f"fathom: no trial finished; {folder.records} says why", file=sys.stderr)
        sys.exit(1)


@app.command()
def report(run_folder: RunPath, as_json: Json = False) -> None:
    """Conclude again from a run's records: the table, report.html, figures, and MLflow."""
    from rich.console import Console

    from search.config import load
    from search.run import report_study
    from search.tables import print_further, print_laws, print_optima

    result = report_study(run_folder)
    config = load(result.folder.config)
    if as_json:
        _print_json(_report_json(config.study, result.conclusion))
        return
    console = Console()
    print_optima(config, result.conclusion.optima, console)
    print_laws(result.conclusion.laws, console)
    print_further(result.conclusion.further, console)
    console.print(f"\nReport      {result.folder.report}", highlight=False)


@app.command()
def export(
    run_folder: RunPath,
    budget: BudgetOption = None,
    out: Annotated[Path | None, typer.Option(help="Write to a file.")] = None,
) -> None:
    """Print the best shape as YAML, ready for `fathom train`."""
    from search.config import ConfigError
    from search.export import select
    from search.folder import RunFolder, write_atomically
    from search.readiness import refuse_foreign

    folder = RunFolder(run_folder)
    refuse_foreign(folder)
    if not folder.best.exists():
        raise ConfigError(f"{run_folder} has no best.yaml yet; `fathom run` or `report` writes it")
    text = select(folder.best, budget)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text)


@app.command()
def train(
    best: Annotated[Path, typer.Argument(help="File from `fathom export`.", metavar="BEST.yaml")],
    budget: BudgetOption = None,
    tokens: Annotated[str | None, typer.Option(help="Other horizon than the study's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for checkpoint and weights.")] = Path("trained"),
    register: Annotated[
        str | None, typer.Option(help="Name for the model in MLflow's registry.")
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Train the exported shape, no search; the same command again resumes."""
    from search.export import read_best

    chosen = read_best(best, budget)
    if register is not None:
        _check_registration(register, runs)
    from search.train_best import train_best

    try:
        train_best(chosen, tokens=tokens, out=out, say=print)
    except KeyboardInterrupt:
        print("fathom: interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)
    if register is not None:
        from search.folder import default_tracking_uri
        from search.tracking.register import register_model

        address = register_model(chosen, out / "weights.pt", register, default_tracking_uri(runs))
        print(f"model in MLflow's registry: {address}")


@app.command()
def predict(
    params: Annotated[
        str | None, typer.Option(help="Model size, for example 10M; without it, a table.")
    ] = None,
    law: Annotated[str, typer.Option(help="levine2020, or a run folder.")] = "levine2020",
    as_json: Json = False,
) -> None:
    """Say how deep a model of some size should be, by a published law or a run's own.

    Without a size, the table: the sizes of GPT-3 by levine2020, a run's budgets by its own law.
    """
    from search.predict import predict as ask
    from search.predict import predict_table
    from search.predict_tables import prediction_json, print_prediction, print_table, table_json

    if params is None:
        rows = predict_table(law)
        if as_json:
            _print_json(table_json(rows))
        else:
            print_table(rows)
        return
    prediction = ask(params, law)
    if as_json:
        _print_json(prediction_json(prediction))
    else:
        print_prediction(prediction)


@app.command()
def ui(
    runs: Runs = Path("runs"),
    study: Annotated[Path | None, typer.Option(help="Study file with its own tracking.")] = None,
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
) -> None:
    """Serve MLflow's page on loopback, on the store that the runs used."""
    from search.config import load
    from search.folder import default_tracking_uri
    from search.tracking.ui import open_ui

    uri = load(study).tracking.uri if study else None
    open_ui(uri or default_tracking_uri(runs), port=port)


def _check_registration(name: str, runs: Path) -> None:
    """Before training, which takes longer."""
    from search.folder import default_tracking_uri
    from search.tracking.address import check_form, check_model_name

    check_model_name(name)
    check_form(default_tracking_uri(runs))


def _open_studies(config: "StudyConfig", folder: "RunFolder") -> "Studies | None":
    """The database for Optuna's studies, refused before anything starts; None without one."""
    if config.tracking.optuna is None:
        return None
    from search.studies_database import DatabaseStudies

    return DatabaseStudies(config.tracking.optuna, folder)


def _prepare_and_start_ray(config: "StudyConfig") -> "Objective":
    """Both at a time: Ray's start is mostly waiting, and torch takes seconds to import."""
    from concurrent.futures import ThreadPoolExecutor

    from search.cluster import start_ray

    with ThreadPoolExecutor(1) as aside:
        prepared = aside.submit(_prepare, config)
        start_ray(config.resources)
    return prepared.result()


def _prepare(config: "StudyConfig") -> "Objective":
    from search.run import prepare

    return prepare(config)


def _report_json(study: str, conclusion: "Conclusion") -> dict[str, Any]:
    from search.report.writer import report_json

    return report_json(
        study, conclusion.optima, conclusion.laws, conclusion.audits, conclusion.further
    )


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
