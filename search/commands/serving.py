"""Commands on the time and memory of inference: `latency`."""

from typing import Annotated

import typer

from fathom.search.commands.arguments import BudgetOption, HorizonOption, Json, RunPath
from fathom.search.commands.output import print_reply

NO_LIMIT = float("inf")
LEAST_LIMIT = 1e-6
"""Least value of a limit; nothing takes 0 of anything."""


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
        float, typer.Option(min=LEAST_LIMIT, help="Leave out depths that take longer for a token.")
    ] = NO_LIMIT,
    max_prefill_ms: Annotated[
        float, typer.Option(min=LEAST_LIMIT, help="Limit on the time to read a prompt.")
    ] = NO_LIMIT,
    max_weight_mb: Annotated[
        float, typer.Option(min=LEAST_LIMIT, help="Limit on the memory of the weights.")
    ] = NO_LIMIT,
    max_cache_mb: Annotated[
        float, typer.Option(min=LEAST_LIMIT, help="Limit on the memory of keys and values.")
    ] = NO_LIMIT,
    as_json: Json = False,
) -> None:
    """Time how long the best shape of each depth takes to answer, beside its loss.

    Names the best depth and the fastest one that is as good, and writes RUN/latency.json, in which
    budgets that are not asked for keep what they have.
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
    check_decodes(config)
    asked = None if budget is None else count_of("--params", budget)
    budgets = losses_of(read_records(folder, config), config, asked)
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
