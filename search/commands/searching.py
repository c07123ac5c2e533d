"""Commands that search a study or read a run: `run`, `status`, `report` and `ui`."""

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fathom.search.commands.arguments import (
    ExitVerdict,
    HorizonOption,
    Json,
    Overrides,
    RunPath,
    Runs,
    StudyFile,
    Trust,
)
from fathom.search.commands.output import (
    command_again,
    exit_by_verdict,
    exit_interrupted,
    print_reply,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fathom.search.study.keys.config import StudyConfig
    from fathom.search.study.preflight import Cap, ReadyStudy
    from fathom.search.tracking.writing.publishing import RunResult, StudyResult


LONGEST_REASON = 300
"""Most characters of a reason in the line that says why trials failed."""


def run(
    study: StudyFile,
    overrides: Overrides = None,
    trust: Trust = False,
    runs: Runs = Path("runs"),
    extend: Annotated[
        bool, typer.Option("--extend", help="Resume trials that stopped at an untrusted rung.")
    ] = False,
    max_hours: Annotated[
        float | None,
        typer.Option(min=0, help="End after this many hours, counting earlier runs."),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="End before trials cost more than this, counting earlier runs."),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(min=0, help="Cost of an hour of a GPU, or of a core without one."),
    ] = None,
    as_json: Json = False,
    exit_verdict: ExitVerdict = False,
) -> None:
    """Search every budget of a study; the same command again resumes what was interrupted."""
    from fathom.search.report.terminal.tables import terminal

    console, began = terminal(stderr=as_json), time.monotonic()
    cap = _cap(max_cost, price)
    config = _read(study, overrides, console, trust=trust)
    ready = _prepare(config, study, overrides, runs, console, trust=trust)
    try:
        ready = replace(ready, max_hours=max_hours, cap=cap)
        result = _search(ready, console, extend=extend)
    except KeyboardInterrupt as interrupt:
        exit_interrupted(interrupt)
    _print_end(result, runs, time.monotonic() - began, console)
    _reply(result, as_json=as_json, exit_verdict=exit_verdict)


def _reply(result: "StudyResult", *, as_json: bool, exit_verdict: bool) -> None:
    """Prints the answers of a study as JSON, and exits with the status of its verdict, each if
    asked for.

    Exits with 1 if a run has no finished trial.
    """
    from fathom.search.contract.studies import study_reply

    told = partial(study_reply, "run", result.runs)
    if as_json:
        print_reply(told())
    for run in result.runs:
        answered = any(optimum.lowest_depth for optimum in run.conclusion.optima)
        if not (answered or run.conclusion.unfinished):
            print(f"fathom: {_no_trial_finished(run)}", file=sys.stderr)
            sys.exit(1)
    if exit_verdict:
        exit_by_verdict(told())


def _no_trial_finished(run: "RunResult") -> str:
    """A sentence with the outcomes of a run's trials, the commonest reason and a remedy."""
    from fathom.search.formatting import printable, shell_command

    records = run.conclusion.records
    counts = Counter(str(record.outcome) for record in records)
    ended = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    reasons = Counter(record.reason for record in records).most_common(1)
    most = f" ({printable(reasons[0][0])[:LONGEST_REASON]})" if reasons else ""
    return (
        f"no trial finished: {ended or 'none began'}{most}; fix that, then delete the run folder, "
        "as these trials are not repeated: " + shell_command("rm", "-r", run.folder.path)
    )


def _cap(cost: float | None, price: float | None) -> "Cap | None":
    """The cap on the cost of trials; None without one. Either both numbers must be given, or
    neither."""
    from fathom.search.study.file.errors import ConfigError
    from fathom.search.study.preflight import Cap

    if cost is None and price is None:
        return None
    if cost is None or price is None:
        missing = "--price" if price is None else "--max-cost"
        raise ConfigError(
            f"`{missing}` is missing: a cap needs a cost and the price of an hour of a GPU (of a "
            "core if trials use none); for example --max-cost 50 --price 2.5"
        )
    return Cap(cost, price)


def _print_run(result: "RunResult", console: "Console") -> None:
    """Prints the answer of one run."""
    from fathom.search.report.terminal.answer_tables import print_conclusion
    from fathom.search.scheduling.extend import waits, warnings

    audits, count = result.conclusion.audits, result.conclusion.count
    print_conclusion(result.conclusion, console)
    for line in waits(audits, count):
        console.print(line, highlight=False)
    for line in warnings(audits, count, command_again()):
        console.print(line, style="yellow", highlight=False)


def _print_end(result: "StudyResult", runs: Path, seconds: float, console: "Console") -> None:
    """Prints the end of a search: the answers of several runs beside each other, the study's files,
    the commands to type next, and the time taken."""
    from rich.text import Text

    from fathom.search.cluster.early_end import taken_seconds
    from fathom.search.formatting import format_seconds, shell_command
    from fathom.search.report.terminal.answer_tables import print_next
    from fathom.search.report.terminal.tables import print_whole

    folder = result.folder
    _print_together(result, console)
    whole = sum(taken_seconds(run.folder) for run in result.runs)
    all_runs = f", {format_seconds(whole)} with earlier runs" if whole > 1.1 * seconds else ""
    print_whole(f"\nTook        {format_seconds(seconds)}{all_runs}", console)
    page = (str(folder.report), f"link {folder.report.absolute().as_uri()}")
    console.print(Text.assemble("Report      ", page), soft_wrap=True, highlight=False)
    print_whole(f"Shapes      {folder.best}", console)
    print_whole(f"Browse      {shell_command('fathom', 'ui', '--runs', runs)}", console)
    print_next(result.next_steps, console)


def _print_together(result: "StudyResult", console: "Console") -> None:
    """Prints the answers of a study's horizons beside each other, if there are several."""
    from fathom.search.report.terminal.answer_tables import print_horizons
    from fathom.search.report.terminal.tables import print_text
    from fathom.search.study.planning.horizons import horizon_words

    if result.config.horizons:
        found = ((horizon_words(c.config), o) for c in result.conclusions for o in c.optima)
        print_horizons(result.config.study, list(found), console)
        print_text(result.law_sentence, console)


def _read(
    study: Path, overrides: list[str] | None, console: "Console", *, trust: bool
) -> "StudyConfig":
    """Reads a study from its file, and checks that it is allowed to run."""
    from fathom.search.report.terminal.steps import Steps

    with Steps(console) as steps:
        if console.is_terminal:
            steps.begin("reading the study")
        from fathom.search.study.file.study_file import load
        from fathom.search.study.preflight import check_kept_study, check_trusted_study

        check_kept_study(study)
        config = load(study, overrides)
        check_trusted_study(config, study, trust=trust)
        return config


def _prepare(
    config: "StudyConfig",
    study: Path,
    overrides: list[str] | None,
    runs: Path,
    console: "Console",
    *,
    trust: bool,
) -> "ReadyStudy":
    """The study of a file, checked."""
    from fathom.search.report.terminal.steps import Steps

    with Steps(console) as steps:
        if console.is_terminal:
            steps.begin("checking the study")
        from fathom.search.scheduling.sampling.study_sampler import check_sampler
        from fathom.search.study.file.study_file import placed
        from fathom.search.study.preflight import check_ready

        with placed(study, overrides):
            check_sampler(config)
            return check_ready(config, runs, trust=trust)


def _search(ready: "ReadyStudy", console: "Console", *, extend: bool) -> "StudyResult":
    """Searches a checked study, and prints the answer of each run; Ray starts while PyTorch is
    being imported."""
    from fathom.search.report.terminal.steps import Steps
    from fathom.search.run_folder import locked

    with locked(ready.folder), Steps(console) as steps:
        steps.begin(f"Study {ready.config.study}")
        if extend or not all(run.has_report for run in ready.runs):  # else likely all is trained
            from fathom.search.cluster.session.ray_session import start_ray

            steps.begin("starting Ray")
            with ThreadPoolExecutor(1) as aside:  # torch takes seconds to import, Ray to start
                aside.submit(import_module, "torch")
                start_ray(ready.config.resources, command_again(), ready.config.own_code)
                steps.begin("loading PyTorch")
        from fathom.search.pipeline import run_study

        def show(result: "RunResult") -> None:
            steps.end()
            _print_run(result, console)

        return run_study(ready, steps, extended=extend, show=show)


def report(
    run_folder: RunPath,
    trust: Annotated[
        bool, typer.Option("--trust", help="Write to the MLflow store and places that RUN names.")
    ] = False,
    card: Annotated[
        bool, typer.Option("--card", help="Print the answer as Markdown, and nothing else.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for --card; by default RUN.")] = None,
    horizon: HorizonOption = None,
    as_json: Json = False,
    exit_verdict: ExitVerdict = False,
) -> None:
    """Conclude again from a run's records: the table, report.html, figures, and MLflow.

    With --card, only the answer as one page of Markdown for a paper or a pull request, and its
    picture: card.md and card.png (1200 x 630 pixels).
    """
    _check_card(out, card=card, with_others=as_json or exit_verdict)
    if card:
        _print_card(run_folder, horizon, out)
        return
    from fathom.search.contract.studies import study_reply
    from fathom.search.report.terminal.tables import print_text, terminal
    from fathom.search.study.runs import one_run
    from fathom.search.tracking.writing.publishing import report_study

    path = run_folder if horizon is None else one_run(run_folder, horizon).folder.path
    result = report_study(path, trust=trust)
    for run in result.runs:
        if run.untracked:
            print_text(
                f"fathom: nothing is written to MLflow: {run.untracked}", terminal(stderr=True)
            )
    told = partial(study_reply, "report", result.runs)
    if as_json:
        print_reply(told())
    else:
        _print_report(result, terminal())
    if exit_verdict:
        exit_by_verdict(told())


def _print_report(result: "StudyResult", console: "Console") -> None:
    """Prints the answer of each run of a study, several answers also beside each other, and the
    commands to type next."""
    from fathom.search.report.terminal.answer_tables import print_conclusion, print_next
    from fathom.search.report.terminal.tables import print_whole
    from fathom.search.scheduling.extend import warnings

    for run in result.runs:
        print_conclusion(run.conclusion, console)
        found = run.conclusion
        for line in warnings(found.audits, found.count, run.folder.resume_command):
            console.print(line, style="yellow", highlight=False)
    _print_together(result, console)
    print_whole(f"\nReport      {result.folder.report}", console)
    print_next(result.next_steps, console)


def _check_card(out: Path | None, *, card: bool, with_others: bool) -> None:
    """Raises `ConfigError` for options that can't be used with `--card`, or that need it."""
    from fathom.search.study.file.errors import ConfigError

    if card and with_others:
        raise ConfigError(
            "`--card` prints Markdown for people; leave out --json and --exit-verdict, or --card"
        )
    if out is not None and not card:
        raise ConfigError(f"`--out` says where to write --card, got {out} alone; add --card")


def _print_card(path: Path, horizon: str | None, out: Path | None) -> None:
    """Prints the card of a run, and writes the card and its picture into a folder, by default the
    run's.

    Raises:
        ConfigError: if the run has no answer yet, or the folder is a file.
        RunFolderError: if there is no such run, or there are several and no horizon is named.
    """
    from fathom.search.conclusion.conclude import conclude_run
    from fathom.search.formatting import visible
    from fathom.search.report.pages.writer import write_card
    from fathom.search.scheduling.journal import read_run
    from fathom.search.study.file.errors import ConfigError
    from fathom.search.study.runs import one_run

    run = one_run(path, horizon)
    folder = out or run.folder.path
    conclusion = conclude_run(run.folder, run.config, read_run(run.folder, run.config))
    if not conclusion.optima:
        raise ConfigError(f"{run.folder.path} has no ended trial; run `fathom run` first")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"`--out` must be a folder, got the file {folder}; name another place")
    folder.mkdir(parents=True, exist_ok=True)
    print(visible(write_card(conclusion, folder)), end="")
    print(f"fathom: written to {folder / 'card.md'} and {folder / 'card.png'}", file=sys.stderr)


def status(
    run_folder: Annotated[
        Path | None, typer.Argument(help="Run folder, runs/NAME; all runs without one.")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
    exit_verdict: ExitVerdict = False,
) -> None:
    """Show how far a search is, from its files alone, while it runs or afterwards.

    Without a run folder, a line for each run.
    """
    from fathom.search.commands import run_status
    from fathom.search.report.terminal.tables import terminal

    if run_folder is None:
        if as_json:
            print_reply(run_status.all_runs_reply(runs))
        else:
            run_status.print_runs(runs, terminal())
        if exit_verdict:
            exit_by_verdict(run_status.all_runs_reply(runs))
        return
    from fathom.search.study.runs import runs_of

    found = tuple(map(run_status.status_of, runs_of(run_folder)))
    if as_json:
        print_reply(run_status.status_reply(found))
    else:
        for run in found:
            run_status.print_status(run, terminal())
    if exit_verdict:
        exit_by_verdict(run_status.status_reply(found))


def ui(
    runs: Runs = Path("runs"),
    study: Annotated[Path | None, typer.Option(help="Study file that names the store.")] = None,
    overrides: Overrides = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of MLflow; reports are at the next port.")
    ] = 5000,
    trust: Annotated[
        bool, typer.Option("--trust", help="Open a store of MLflow that was not made here.")
    ] = False,
) -> None:
    """Serve the reports, fresh while searches run, and MLflow's page, both on loopback."""
    from fathom.search.commands.live_report import serve
    from fathom.search.run_folder import default_tracking_uri, is_named_store
    from fathom.search.study.file.study_file import load
    from fathom.search.study.preflight import check_trusted_study

    named = None
    if study:
        config = load(study, overrides)
        check_trusted_study(config, study, trust=trust)
        named = config.tracking.uri
    uri = named or default_tracking_uri(runs)
    serve(runs, uri, port=port, trust=trust or is_named_store(named))
