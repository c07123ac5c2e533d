"""Commands that measure without searching a user's study: `latency`, `ask` and `check`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fathom.models.shape import Count
from fathom.search.commands.arguments import (
    BudgetOption,
    ExitVerdict,
    HorizonOption,
    Json,
    Maps,
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

    from fathom.objectives.contract import Objective
    from fathom.search.laboratory.ask.question import Question
    from fathom.search.study.keys.config import StudyConfig
    from fathom.search.tracking.writing.publishing import RunResult

NO_LIMIT = float("inf")
LEAST_LIMIT = 1e-6
"""Least value that a limit may have, since nothing takes 0 of anything."""


def _at_most(what: str) -> Any:
    """The option of a limit, with its help."""
    return typer.Option(min=LEAST_LIMIT, help=what)


def latency(
    run_folder: RunPath,
    budget: BudgetOption = None,
    horizon: HorizonOption = None,
    batch: Annotated[int, typer.Option(min=1, help="Prompts at a time.")] = 1,
    prompt: Annotated[
        int | None, typer.Option(help="Tokens of a prompt; by default half the context.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Tokens of an answer; by default the rest of the context.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="Only estimate, for a GPU type such as H100.")
    ] = None,
    max_token_ms: Annotated[
        float, _at_most("Leave out depths that take longer for a token.")
    ] = NO_LIMIT,
    max_prefill_ms: Annotated[float, _at_most("Limit on the time to read a prompt.")] = NO_LIMIT,
    max_weight_mb: Annotated[float, _at_most("Limit on the memory of the weights.")] = NO_LIMIT,
    max_cache_mb: Annotated[float, _at_most("Limit on the memory of keys and values.")] = NO_LIMIT,
    as_json: Json = False,
) -> None:
    """Time how long the best shape of each depth takes to answer, beside its loss.

    Names the best depth and the fastest one that is as good, and writes RUN/latency.json, where
    other budgets keep their times.
    """
    from fathom.search.analysis.spending.serving_choice import Limits
    from fathom.search.laboratory.latency import output
    from fathom.search.laboratory.latency.find import (
        check_decodes,
        find_latency,
        losses_of,
        request_of,
    )
    from fathom.search.report.terminal.steps import Steps
    from fathom.search.report.terminal.tables import terminal
    from fathom.search.report.words.latency import joined
    from fathom.search.serving.latency_file import read_latency, write_latency
    from fathom.search.study.file.options import count_of
    from fathom.search.study.own_records import read_records
    from fathom.search.study.runs import one_run

    run = one_run(run_folder, horizon)
    folder, config = run.folder, run.config
    check_decodes(config, gpu)
    asked = None if budget is None else count_of("--params", budget)
    budgets = losses_of(read_records(folder, config), asked, seed=config.seed)
    request = request_of(budgets[0].shapes[0].context, batch, prompt, tokens)
    before = read_latency(folder)
    console = terminal(stderr=as_json)
    with Steps(console) as steps:
        found = find_latency(budgets, config, request, gpu, steps.begin)
    write_latency(folder, before, found)
    limits = Limits(
        token_seconds=max_token_ms / 1000,
        prefill_seconds=max_prefill_ms / 1000,
        weight_bytes=max_weight_mb * 1e6,
        cache_bytes=max_cache_mb * 1e6,
    )
    together = [joined(*pair, limits) for pair in zip(budgets, found, strict=True)]
    if as_json:
        print_reply(output.latency_reply(together))
    else:
        output.print_latency(together, console)


def ask(
    params: Annotated[str | None, typer.Option(help="Model size, for example 1B.")] = None,
    hours: Annotated[float | None, typer.Option(help="Time that the search may take.")] = None,
    flops: Annotated[
        str | None, typer.Option(help="FLOPs of a training: find size, tokens and depth by --law.")
    ] = None,
    gpu_hours: Annotated[float | None, typer.Option(help="FLOPs as hours of one --gpu.")] = None,
    law: Annotated[
        str | None,
        typer.Option(help="Run folder, JSON of `fathom analyse --horizons`, or table of runs."),
    ] = None,
    maps: Maps = None,
    data: Annotated[str, typer.Option(help="Text (path, glob, known name) or tokens.")] = "stdlib",
    tokens: Annotated[
        str | None, typer.Option(help="Training tokens of the model; by default 20 a parameter.")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="bytes, chars, bpe:N or a file.")] = "bytes",
    gpus: Annotated[int, typer.Option(min=0, help="Trials at a time, one on each GPU.")] = 0,
    gpu: Annotated[str | None, typer.Option(help="Type of the GPUs, for example H100.")] = None,
    count: Annotated[Count, typer.Option(help="Parameters that a size counts.")] = (
        Count.NON_EMBEDDING
    ),
    out: Annotated[Path | None, typer.Option(help="The study file to write.")] = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Write the study and stop there.")
    ] = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
    exit_verdict: ExitVerdict = False,
) -> None:
    """Say how deep a model of some size should be, by searching it or smaller ones in time.

    Writes the study that it searches, to be edited and run again; the same question resumes. With
    --flops or --gpu-hours: how large, how long and how deep at once, by the laws of a ladder.
    """
    searched = {"--params": params, "--tokens": tokens, "--hours": hours, "--out": out}
    searched |= {"--gpus": gpus or None, "--plan": only_plan or None}
    if flops is not None or gpu_hours is not None:
        _refuse_beside("--gpu-hours" if flops is None else "--flops", searched)
        _ask_compute(
            flops, gpu_hours, gpu, law, maps or (), as_json=as_json, exit_verdict=exit_verdict
        )
        return
    from fathom.search.laboratory.ask.question import question
    from fathom.search.study.file.errors import ConfigError

    if params is None or hours is None:
        raise ConfigError(
            "`fathom ask` takes --params and --hours to search, or --flops and --law to ask a "
            "ladder"
        )
    _refuse_beside("--params", {"--law": law, "--map": maps})
    asked = question(
        params=params, tokens=tokens, data=data, tokenizer=tokenizer, hours=hours, gpus=gpus,
        gpu=gpu, count=count,
    )  # fmt: skip
    _answer_asked(
        asked, out or Path(f"{asked.name}.yaml"), runs, only_plan=only_plan, as_json=as_json,
        exit_verdict=exit_verdict,
    )  # fmt: skip


def _answer_asked(
    asked: "Question", file: Path, runs: Path, *, only_plan: bool, as_json: bool,
    exit_verdict: bool,
) -> None:  # fmt: skip
    """Writes the study of a question to a file, searches it and prints the answer; with `only_plan`
    prints only its plan."""
    from fathom.search.analysis.answer.verdict import Kind
    from fathom.search.contract.reply import Reply
    from fathom.search.laboratory.ask.answer import print_answer
    from fathom.search.laboratory.ask.chosen_study import prepare_study
    from fathom.search.report.terminal.tables import terminal

    console = terminal(stderr=as_json)
    try:
        if only_plan:
            _plan_asked(asked, file, runs, console, as_json=as_json)
            return
        config, objective = prepare_study(asked, file, console, runs)
        result = _search_asked(config, objective, runs, console)
    except KeyboardInterrupt as interrupt:
        exit_interrupted(interrupt)
    found = print_answer(asked, file, objective.vocab_size, result, console)
    reply = Reply(command="ask", answers=(found,))
    if as_json:
        print_reply(reply)
    if exit_verdict:
        exit_by_verdict(reply)
    if not (found.verdict.settled or found.verdict.kind is Kind.BY_LAW):
        sys.exit(1)


def _ask_compute(
    flops: str | None, gpu_hours: float | None, gpu: str | None, law: str | None,
    maps: Sequence[str], *, as_json: bool, exit_verdict: bool,
) -> None:  # fmt: skip
    """Prints the size, tokens and depth for an amount of compute, or why there is no answer."""
    from fathom.search.laboratory.ask import compute
    from fathom.search.report.terminal.tables import print_text, terminal
    from fathom.search.study.file.errors import ConfigError

    option = "--gpu-hours" if flops is None else "--flops"
    if law is None:
        raise ConfigError(
            "`--law` must be a run folder, the JSON of `fathom analyse --horizons`, or a table of "
            f"runs, with {option}"
        )
    answer = compute.ask_compute(law, compute.compute_of(flops, gpu_hours, gpu), option, maps)
    reply = compute.compute_reply(answer, law)
    if as_json:
        print_reply(reply)
    else:
        for line in compute.compute_lines(answer):
            print_text(line, terminal())
    if exit_verdict:
        exit_by_verdict(reply)
    if answer.why_not:
        sys.exit(1)


def _refuse_beside(question: str, options: Mapping[str, object]) -> None:
    """Raises `ConfigError` if any of `options` is given (not None) together with `question`, the
    option of another question."""
    from fathom.search.study.file.errors import ConfigError

    for option, value in options.items():
        if value is not None:
            raise ConfigError(
                f"`{question}` and `{option}` belong to two questions: --flops or --gpu-hours read "
                "a --law and train nothing, --params searches for --hours; drop one"
            )


def _plan_asked(
    asked: "Question", file: Path, runs: Path, console: "Console", *, as_json: bool
) -> None:
    """Writes the study of a question, unless the file exists, and prints the study's plan and the
    next commands."""
    from fathom.search.commands.study_file import plan
    from fathom.search.laboratory.ask.chosen_study import prepare_study
    from fathom.search.report.terminal.answer_tables import print_next

    known = file.exists()
    prepare_study(asked, file, console, runs)
    if known or as_json:
        plan(file, gpu=asked.gpu or None, as_json=as_json)
    if not as_json:
        print_next([command_again(without="--plan")], console)


def _search_asked(
    config: "StudyConfig", objective: "Objective", runs: Path, console: "Console"
) -> "RunResult":
    """Searches the study of a question, with its data as `objective`."""
    from fathom.search.pipeline import run_study
    from fathom.search.report.terminal.steps import Steps
    from fathom.search.run_folder import locked
    from fathom.search.study.preflight import check_ready

    ready = check_ready(config, runs)
    with locked(ready.folder), Steps(console) as steps:
        [result] = run_study(ready, steps, objective=objective).runs
        return result


def check(
    study: StudyFile,
    overrides: Overrides = None,
    trust: Trust = False,
    steps: Annotated[
        int, typer.Option(min=8, max=100_000, help="Steps of each short training.")
    ] = 250,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show whether one learning rate suits shapes of every depth and width, in two minutes.

    Where trainings take more than one epoch of their data, it compares weight decays as well.
    Exit status 0 when the rate carries over both, 1 when it does not.
    """
    from fathom.search.report.terminal.tables import terminal
    from fathom.search.study.file.study_file import load, placed
    from fathom.search.study.planning.horizons import horizon_studies
    from fathom.search.study.preflight import check_own_loop, check_trusted_study

    config = load(study, overrides)
    check_trusted_study(config, study, trust=trust)
    with placed(study, overrides):
        check_own_loop(config)
    console = terminal(stderr=as_json)
    from fathom.search.laboratory.check import output
    from fathom.search.laboratory.check.check import check_study
    from fathom.search.laboratory.check.probe import Probe
    from fathom.search.run_folder import token_cache
    from fathom.search.training.calibrate import measure_speeds

    probe = Probe(steps=steps)
    output.print_opening(config, probe, console)
    with placed(study, overrides):
        longest = horizon_studies(config)[-1]
        result = check_study(longest, output.follow(console), probe, token_cache(runs))
    measure_speeds(config.resources)  # the next plan reads it
    if as_json:
        print_reply(output.check_reply(result))
    else:
        output.print_check(result, console)
    if not result.carries_over:
        sys.exit(1)
