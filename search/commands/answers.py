"""Commands that use an answer: `export`, `train`, `compare` and `predict`."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fathom.search.commands.arguments import (
    BudgetOption,
    DepthOption,
    HorizonOption,
    Json,
    Runs,
    Trust,
)
from fathom.search.commands.output import command_again, print_reply

if TYPE_CHECKING:
    from fathom.search.export.best import BestShape


def export(
    source: Annotated[
        Path, typer.Argument(help="Run folder, runs/NAME, or its best.yaml.", metavar="RUN")
    ],
    budget: BudgetOption = None,
    horizon: HorizonOption = None,
    depth: DepthOption = None,
    to: Annotated[
        str, typer.Option("--format", help="yaml, or a folder: hf, litgpt, nanogpt, torchtitan.")
    ] = "yaml",
    out: Annotated[Path | None, typer.Option(help="File (yaml) or folder to write.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder of `fathom train` with weights to export.")
    ] = None,
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Use RMSNorm if the framework lacks the layer norm.")
    ] = False,
) -> None:
    """Print the best shape as YAML, ready for `fathom train`, or write it for another framework."""
    from fathom.search.export.best import best_file, doubts, read_best, select, write_selected
    from fathom.search.formatting import visible

    best = best_file(source)
    if to != "yaml" or weights or nearest:
        from fathom.search.commands.export_folder import export_folder

        chosen = read_best(best, budget, horizon, depth)
        for text in export_folder(chosen, to, out, weights, nearest=nearest):
            print(visible(text))
    elif out is None:
        print(select(best, budget, horizon, depth), end="")
    else:
        write_selected(best, budget, horizon, out, depth)
    for line in doubts(best, budget, horizon, depth):
        print(f"fathom: {visible(line)}", file=sys.stderr)


def train(
    best: Annotated[
        Path, typer.Argument(help="File from `fathom export`, or RUN.", metavar="BEST.yaml")
    ],
    budget: BudgetOption = None,
    horizon: HorizonOption = None,
    depth: DepthOption = None,
    tokens: Annotated[str | None, typer.Option(help="Training tokens, if not the study's.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Text instead of the study's, tokenized alike.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for checkpoint and weights.")] = Path("trained"),
    register: Annotated[
        str | None, typer.Option(help="Name for the model in MLflow's registry.")
    ] = None,
    trust: Trust = False,
    runs: Runs = Path("runs"),
) -> None:
    """Train the exported shape, no search; the same command again resumes."""
    from fathom.search.export.best import best_file, doubts, read_best
    from fathom.search.run_folder import default_tracking_uri, token_cache
    from fathom.search.study.preflight import check_trusted

    chosen = read_best(best_file(best), budget, horizon, depth)
    check_trusted(chosen.config, best, trust=trust)
    for line in doubts(best_file(best), budget, horizon, depth):
        print(f"fathom: {line}", file=sys.stderr)
    if register is not None:
        # Before the training, which takes longer.
        _check_register(register, chosen, runs, trust=trust)
    from fathom.search.commands.train_best import train_best
    from fathom.search.export.formats import next_step
    from fathom.search.formatting import visible

    try:
        train_best(
            chosen,
            tokens=tokens,
            corpus=data,
            out=out,
            cache=token_cache(runs),
            say=lambda line: print(visible(line)),
        )
    except KeyboardInterrupt:
        print(f"fathom: interrupted; to resume: {command_again()}", file=sys.stderr)
        sys.exit(130)
    if not chosen.config.train.command:
        print(next_step(chosen, best, out, params=budget, horizon=horizon, depth=depth))
    if register is not None:
        from fathom.search.tracking.writing.register import register_model

        uri, weights = default_tracking_uri(runs), out / "weights.pt"
        address = register_model(chosen, weights, register, uri, trust=trust)
        print(f"model in MLflow's registry: {address}")


def _check_register(name: str, chosen: "BestShape", runs: Path, *, trust: bool) -> None:
    """Raises `TrackingError` if MLflow's registry can't take the model, or can't take it by this
    name."""
    from fathom.search.run_folder import default_tracking_uri
    from fathom.search.study.store_uri import check_form, check_model_name
    from fathom.search.tracking.stores.artifacts import check_store

    config = chosen.config
    foreign = "`train.command`" if config.train.command else config.model.build
    check_model_name(name, "two stacks" if config.space.split else foreign)
    uri = default_tracking_uri(runs)
    check_store(uri, config.study, trust=trust)
    check_form(uri)


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, two or more.", metavar="RUN RUN...")
    ],
    report: Annotated[
        Path | None,
        typer.Option(help="Folder for a page with these tables and a figure of each study."),
    ] = None,
    horizon: HorizonOption = None,
    as_json: Json = False,
) -> None:
    """Compare studies of other data, training, tokens or splits: is the best depth the same?

    Each pair has the ratio of its best depths with an interval, what the depth of one costs in the
    other, and, on the same data, the difference of the best losses.
    """
    from fathom.search.commands import compare as comparing
    from fathom.search.conclusion.comparison import compare_runs
    from fathom.search.report.terminal.tables import terminal

    found = compare_runs(runs, horizon)
    place = None
    if report is not None:
        from fathom.search.report.pages.comparison import write_comparison

        place = write_comparison(found, report)
    if as_json:
        print_reply(comparing.comparison_reply(found))
        return
    comparing.print_comparison(found, terminal())
    if place:
        print(f"Report      {place}")


def predict(
    ladder: Annotated[
        list[Path] | None,
        typer.Argument(help="Models: their config.json, or a table of them.", metavar="[CONFIGS]"),
    ] = None,
    params: Annotated[
        str | None, typer.Option(help="Model size, for example 10M; without it, a table.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help="Training tokens, for a law over several horizons.")
    ] = None,
    law: Annotated[
        str,
        typer.Option(help="levine2020, a run folder, its best.yaml, or JSON of `fathom analyse`."),
    ] = "levine2020",
    doubling: Annotated[
        float | None,
        typer.Option(help="Nats that twice the best depth costs, where the law does not say."),
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="THEIRS=OURS", help="A column's meaning: blocks=depth."),
    ] = None,
    horizon: HorizonOption = None,
    as_json: Json = False,
) -> None:
    """Say how deep a model of some size should be, by a published law or a run's own.

    With CONFIGS: which models are too shallow or too deep for their size, how far that bends a line
    through their losses, and the same ladder at the law's depths. Without CONFIGS and a size: a
    table, the sizes of GPT-3 by levine2020 or a run's budgets by its own law.
    """
    from fathom.objectives.files.reading import source_errors
    from fathom.search.commands import predict as predictions
    from fathom.search.contract.reply import Reply

    if horizon is not None:
        from fathom.search.study.runs import one_run

        law = str(one_run(Path(law), horizon).folder.path)
    _check_predict(ladder, params=params, tokens=tokens, doubling=doubling, maps=maps)
    with source_errors(" ".join(map(str, ladder)) if ladder else law):
        if ladder:
            from fathom.search.commands import ladder as checking
            from fathom.search.report.terminal.tables import terminal

            found = checking.check_ladder(ladder, law, doubling, maps or ())
            reply = Reply(command="predict", ladder=found)
            show = partial(checking.print_ladder, found, terminal())
        elif params is None:
            table = predictions.predict_table(law)
            reply = Reply(command="predict", law_table=table)
            show = partial(predictions.print_table, table)
        else:
            answer = predictions.predict_size(params, law, tokens)
            reply = Reply(command="predict", size=answer)
            show = partial(predictions.print_prediction, answer)
    if as_json:
        print_reply(reply)
    else:
        show()


def _check_predict(ladder: "list[Path] | None", **options: object) -> None:
    """Raises `ConfigError` for options that can't be used together with models, or that need
    models."""
    from fathom.search.study.file.errors import ConfigError

    if ladder and (options["params"] or options["tokens"]):
        raise ConfigError(
            "`--params` and `--tokens` must be left out with CONFIGS, which say the size of each "
            f"model, got {ladder[0]}; ask for a size without them: fathom predict --params 1B"
        )
    if not ladder and (options["doubling"] is not None or options["maps"]):
        raise ConfigError(
            "`--doubling` and `--map` need CONFIGS, the sizes of models; for example fathom "
            "predict sizes.csv --doubling 0.02"
        )
    if not ladder and options["params"] is None and options["tokens"] is not None:
        raise ConfigError("`--tokens` needs `--params`, the size of the model; for example 1B")
