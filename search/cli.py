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

from models.shape import Count

if TYPE_CHECKING:
    from objectives.objective import Objective
    from search.conclude import Conclusion
    from search.config import StudyConfig
    from search.export.best import BestShape
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
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value, such as train.batch_size=8."),
]
BudgetOption = Annotated[str | None, typer.Option(help="Which budget, for example 10M.")]


def main() -> None:
    """Entry point: a user's mistake is a line and status 2, what the machine refuses (a full
    disk, say) one line and status 1, Ctrl-C is status 130.
    """
    try:
        app()
    except ValueError as error:
        if type(error).__module__.split(".")[0] not in OUR_PACKAGES:
            raise
        for problem in error.args:  # of a study file, each mistake
            _complain(str(problem))
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
    print(f"fathom: interrupted; nothing is lost. To go on:\n  {_command()}", file=sys.stderr)
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
def init(
    study: Annotated[Path, typer.Argument(help="File to write.", metavar="STUDY.yaml")],
    corpus: Annotated[str, typer.Option(help="Your text: a file, a folder or a glob.")],
    tokenizer: Annotated[str, typer.Option(help="bytes, chars or bpe:N.")] = "bytes",
    budgets: Annotated[str | None, typer.Option(help="For example 1M,3M,10M.")] = None,
    hours: Annotated[float, typer.Option(min=0, help="Time that the search may take.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a study for a text, as large as the text and this machine can bear."""
    from search.init import choose, look, study_name
    from search.init_words import refuse_place, study_text, told, write_study

    refuse_place(study, corpus, force=force)
    seen = look(corpus, tokenizer)
    draft = choose(seen, study_name(study), budgets=budgets, hours=hours)
    write_study(study, study_text(seen, draft))
    print(told(seen, draft, study))


@app.command()
def plan(
    study: StudyFile,
    overrides: Overrides = None,
    shapes: Annotated[bool, typer.Option(help="List every feasible shape.")] = False,
    price: Annotated[
        float | None, typer.Option(min=0, help="Of an hour of a GPU, or without one of a core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show shapes, trials, tokens and time before any compute is spent."""
    from rich.console import Console

    from search.config import load, placed
    from search.plan import plan_study, this_machine, vocab_size_of
    from search.tables import plan_json, print_plan

    config = load(study, overrides)
    machine = this_machine(config)
    with placed(study, overrides):
        plans = plan_study(config, vocab_size_of(config), machine)
    if as_json:
        _print_json(plan_json(plans, machine, price=price, with_shapes=shapes))
    else:
        print_plan(config, plans, machine, Console(), price=price, with_shapes=shapes)


@app.command()
def check(
    study: StudyFile,
    overrides: Overrides = None,
    steps: Annotated[int, typer.Option(min=8, help="Length of each short training.")] = 250,
    as_json: Json = False,
) -> None:
    """Show whether one learning rate suits shapes of every depth and width, in two minutes.

    Exit status 0 when it carries over both, 1 when it does not.
    """
    from rich.console import Console

    from search.config import load, placed

    config = load(study, overrides)
    console = Console(stderr=as_json)
    from search.check import check_study
    from search.check_words import check_json, follow, print_check, print_opening
    from search.probe import Probe

    probe = Probe(steps=steps)
    print_opening(config, probe, console)
    with placed(study, overrides):
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
    overrides: Overrides = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say whether a search would work here: every node, storage, tracking, open ports.

    Exit status 0 when it would, 1 when it would not.
    """
    from rich.console import Console

    from search.config import load

    config = load(study, overrides) if study else None
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
    overrides: Overrides = None,
    runs: Runs = Path("runs"),
    extend: Annotated[
        bool,
        typer.Option("--extend", help="Take up again what was stopped at a rung that failed."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Search every budget of a study; the same command again resumes what was interrupted."""
    from search.config import load, placed

    config = load(study, overrides)
    from search.folder import RunFolder
    from search.readiness import refuse_unready

    with placed(study, overrides):
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
        from search.pipeline import run_study
        from search.tables import print_further, print_laws, print_optima

        result = run_study(config, objective, runs, console, studies=studies, extended=extend)
    except KeyboardInterrupt as interrupt:
        _say_how_to_go_on(interrupt)
    print_optima(config, result.conclusion.optima, console)
    print_laws(result.conclusion.laws, console)
    print_further(result.conclusion.further, console)
    for line in warnings(result.conclusion.audits, _command()):
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
    from search.pipeline import report_study
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
    source: Annotated[
        Path, typer.Argument(help="Run folder, runs/NAME, or its best.yaml.", metavar="RUN")
    ],
    budget: BudgetOption = None,
    to: Annotated[
        str, typer.Option("--format", help="yaml, or a folder: hf, litgpt, nanogpt, torchtitan.")
    ] = "yaml",
    out: Annotated[Path | None, typer.Option(help="File (yaml) or folder to write.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder of `fathom train` whose weights to take along.")
    ] = None,
    nearest: Annotated[
        bool, typer.Option("--nearest", help="RMSNorm where the framework has no such layer norm.")
    ] = False,
) -> None:
    """Print the best shape as YAML, ready for `fathom train`, or write it for another framework."""
    from search.export.best import best_file, read_best, select
    from search.folder import write_atomically

    best = best_file(source)
    if to != "yaml" or weights or nearest:
        _export_folder(read_best(best, budget), to, out, weights, nearest=nearest)
        return
    text = select(best, budget)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text)


@app.command()
def train(
    best: Annotated[
        Path, typer.Argument(help="File from `fathom export`, or RUN.", metavar="BEST.yaml")
    ],
    budget: BudgetOption = None,
    tokens: Annotated[str | None, typer.Option(help="Other horizon than the study's.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Other text than the study's, tokenized alike.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for checkpoint and weights.")] = Path("trained"),
    register: Annotated[
        str | None, typer.Option(help="Name for the model in MLflow's registry.")
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Train the exported shape, no search; the same command again resumes."""
    from search.export.best import best_file, read_best

    chosen = read_best(best_file(best), budget)
    if register is not None:
        _check_registration(register, runs)
    from search.export.formats import taking_weights
    from search.train_best import train_best

    try:
        train_best(chosen, tokens=tokens, corpus=corpus, out=out, say=print)
    except KeyboardInterrupt:
        print(f"fathom: interrupted; `{_command()}` goes on after the last line", file=sys.stderr)
        sys.exit(130)
    which = f" --budget {budget}" if budget else ""
    ways = taking_weights(chosen)
    command = f"fathom export {best}{which} --format {ways[0] if ways else 'hf'} --weights {out}"
    print(f"Next: {command}" if ways else f"No other framework takes them; `{command}` says why")
    if register is not None:
        from search.folder import default_tracking_uri
        from search.tracking.register import register_model

        address = register_model(chosen, out / "weights.pt", register, default_tracking_uri(runs))
        print(f"model in MLflow's registry: {address}")


@app.command()
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
    from search.ask.question import question

    asked = question(
        params=params, tokens=tokens, data=data, tokenizer=tokenizer, hours=hours, gpus=gpus,
        count=count,
    )  # fmt: skip
    from rich.console import Console

    from search.ask.answer import answer_json
    from search.ask.story import carry_out, conclude, prepare_study, print_answer

    console = Console(stderr=as_json)
    try:
        prepared = prepare_study(asked, out or Path(f"{asked.name}.yaml"), console)
        if only_plan:
            return
        result = carry_out(prepared, runs, console)
    except KeyboardInterrupt as interrupt:
        _say_how_to_go_on(interrupt)
    found = conclude(asked, prepared, result)
    print_answer(found, prepared, result, console)
    if as_json:
        _print_json(answer_json(found) if found else None)
    if found is None:
        sys.exit(1)


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
def schema(
    out: Annotated[Path | None, typer.Option(help="Write to a file.")] = None,
) -> None:
    """Print the JSON Schema of study files, for editors that complete and check them."""
    from search.config_schema import schema_text
    from search.folder import write_atomically

    if out is None:
        print(schema_text(), end="")
    else:
        write_atomically(out, schema_text())


@app.command()
def ui(
    runs: Runs = Path("runs"),
    study: Annotated[Path | None, typer.Option(help="Study file with its own tracking.")] = None,
    overrides: Overrides = None,
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
) -> None:
    """Serve MLflow's page on loopback, on the store that the runs used."""
    from search.config import load
    from search.folder import default_tracking_uri
    from search.tracking.ui import open_ui

    uri = load(study, overrides).tracking.uri if study else None
    open_ui(uri or default_tracking_uri(runs), port=port)


def _export_folder(
    best: "BestShape", to: str, out: Path | None, weights: Path | None, *, nearest: bool
) -> None:
    """For another framework; apart, since weights need torch."""
    from functools import partial

    from search.export.formats import model_of, write_folder

    model = model_of(best, to, nearest=nearest, weights=weights)
    carry = None
    if weights is not None:
        from search.export.weights import write_weights

        carry = partial(write_weights, model, to, weights)
    print(*write_folder(model, to, out, carry), sep="\n")


def _command() -> str:
    """What goes on with this run; without a password that an address may hold."""
    from search.tracking.address import without_credentials

    words = [argument for argument in sys.argv[1:] if argument != "--extend"]  # it is noted down
    return without_credentials(shlex.join(["fathom", *words]))


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
    from search.pipeline import prepare

    return prepare(config)


def _report_json(study: str, conclusion: "Conclusion") -> dict[str, Any]:
    from search.report.writer import report_json

    return report_json(
        study, conclusion.optima, conclusion.laws, conclusion.audits, conclusion.further
    )


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
