"""Commands before a search: `init`, `plan`, `doctor`, `tokenize` and `schema`."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from fathom.search.commands.arguments import (
    Json,
    Overrides,
    Runs,
    StudyFile,
    Trust,
    found_study,
)
from fathom.search.commands.output import print_reply


def init(
    study: Annotated[Path, typer.Argument(help="File to write.", metavar="STUDY.yaml")],
    data: Annotated[str, typer.Option(help="Your text or tokens: a file, a folder or a glob.")],
    tokenizer: Annotated[str, typer.Option(help="bytes, chars, bpe:N or a file.")] = "bytes",
    params: Annotated[str | None, typer.Option(help="Sizes, for example 1M,3M,10M.")] = None,
    hours: Annotated[float, typer.Option(min=0, help="Time that the search may take.")] = 1,
    runs: Annotated[
        str | None,
        typer.Option("--from", metavar="RUNS", help="Search what these runs leave open."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a study for a text, as large as the text and this machine can bear."""
    from fathom.search.report.terminal.tables import print_text, terminal
    from fathom.search.study.planning import draft

    draft.refuse_place(study, data, force=force)
    left = None
    if runs is not None:
        from fathom.search.analysing.open_study import open_study
        from fathom.search.analysing.source import answer_source
        from fathom.search.tables.question import TableQuestion

        left = open_study(answer_source(runs, [], TableQuestion(), None))
        params = params or left.size
        print(f"Runs      {left.reason}")
    seen = draft.look(data, tokenizer)
    chosen = draft.choose(
        seen,
        draft.study_name(study),
        budgets=params,
        hours=hours,
        runs={} if left is None else left.keys,
    )
    draft.write_study(study, draft.study_text(seen, chosen))
    print_text(draft.summary(seen, chosen, study), terminal())


def plan(
    study: StudyFile,
    overrides: Overrides = None,
    trust: Trust = False,
    shapes: Annotated[bool, typer.Option(help="List every feasible shape.")] = False,
    gpu: Annotated[str | None, typer.Option(help="Type of the GPUs, for example H100.")] = None,
    price: Annotated[
        float | None,
        typer.Option(min=0, max=1e9, help="Price of an hour of a GPU or, without GPUs, of a core."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show shapes, trials, tokens and time before any compute is spent."""
    from fathom.search.formatting import shell_command
    from fathom.search.report.terminal.plan_tables import print_plans
    from fathom.search.report.terminal.tables import terminal
    from fathom.search.study.file.study_file import load, placed
    from fathom.search.study.hardware.machine import this_machine
    from fathom.search.study.planning.advice import plan_runs
    from fathom.search.study.preflight import check_trusted_study
    from fathom.search.study.store_uri import check_store

    config = load(study, overrides)
    check_trusted_study(config, study, trust=trust)
    if config.tracking.uri:
        check_store(config.tracking.uri)
    if config.own_sampler:
        from fathom.search.scheduling.sampling.study_sampler import check_sampler

        with placed(study, overrides):
            check_sampler(config)
    machine = this_machine(config.resources, config.train, gpu)
    sets = [part for text in overrides or () for part in ("--set", text)]
    command = shell_command("fathom", "run", study, *sets)
    with placed(study, overrides):
        planned = plan_runs(config, machine, gpu)
    if as_json:
        from fathom.search.contract.plans import plan_reply

        print_reply(plan_reply(planned, price=price, with_shapes=shapes, command=command))
    else:
        print_plans(config.study, planned, terminal(), price=price, with_shapes=shapes)


def doctor(
    study: Annotated[
        Path | None,
        typer.Argument(
            help="Study file (YAML), or `quickstart`.", metavar="STUDY.yaml", callback=found_study
        ),
    ] = None,
    overrides: Overrides = None,
    trust: Trust = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say whether a search would work here: every node, storage, tracking, open ports.

    Exit status 0 when it would, 1 when it would not.
    """
    from fathom.search.report.terminal.tables import terminal
    from fathom.search.study.file.study_file import load
    from fathom.search.study.preflight import check_trusted_study

    config = load(study, overrides) if study else None
    if study and config:
        check_trusted_study(config, study, trust=trust)
    from fathom.search.cluster.doctor.examine import examine
    from fathom.search.cluster.doctor.messages import print_findings, would_work
    from fathom.search.contract.reply import Reply

    findings = examine(config, runs)
    works = would_work(findings)
    if as_json:
        print_reply(Reply(command="doctor", works=works, findings=tuple(findings)))
    else:
        print_findings(findings, terminal())
    if not works:
        sys.exit(1)


def tokenize(
    source: Annotated[str, typer.Argument(help="Text, JSON lines, parquet, or a dataset.")],
    tokenizer: Annotated[
        str, typer.Option(help="A tokenizer.json, bpe:N, bytes; ids for a column of token ids.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the shards.")],
    field: Annotated[str, typer.Option(help="Key or column of the text.")] = "text",
    validation: Annotated[
        float, typer.Option(min=0, max=0.5, help="Fraction of the documents that is held out.")
    ] = 0.01,
    end: Annotated[
        str | None, typer.Option(help="Token between documents, if not a usual one.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, max=1 << 31, help="Number of ids, with `ids`.")
    ] = None,
) -> None:
    """Cut text into tokens once, for `objective: tokens`; the same command resumes it."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from fathom.objectives.tokens.making.run import HowFar, Making, make_tokens
    from fathom.search.report.terminal.tables import terminal

    making = Making(
        source=source, tokenizer=tokenizer, out=out, field=field, validation=validation, end=end,
        vocabulary=vocabulary,
    )  # fmt: skip
    console = terminal(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, TimeRemainingColumn(), console=console)
    task = bar.add_task("", total=None)
    with ExitStack() as shown:  # from the first tokens on: what can't be made shows no bar

        def show(how_far: HowFar) -> None:
            if not bar.live.is_started:
                shown.enter_context(bar)
            text = f"{how_far.tokens:,} tokens"
            bar.update(task, completed=how_far.read, total=how_far.size, description=text)

        index = make_tokens(making, show, console.print)
    for name, split in index.splits.items():
        print(
            f"{name}: {split.tokens:,} tokens of {split.documents:,} documents, "
            f"{split.bytes:,} bytes, in {len(split.shards)} shards"
        )
    print(f"vocabulary {index.vocabulary}; a study: objective: {{name: tokens, train: {out}}}")


def schema(
    out: Annotated[Path | None, typer.Option(help="Write to a file.")] = None,
    answer: Annotated[
        bool, typer.Option("--answer", help="Print the schema of --json output instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of study files, for editors that complete and check them."""
    from fathom.search.run_folder import write_atomically

    if answer:
        from fathom.search.contract.schema import answer_schema_text

        text = answer_schema_text()
    else:
        from fathom.search.study.keys.json_schema import schema_text

        text = schema_text()
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text)
