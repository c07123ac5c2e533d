"""`fathom tokenize`: text into shards of tokens."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer


def tokenize(
    source: Annotated[str, typer.Argument(help="Text, JSON lines or parquet: path or glob.")],
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
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from fathom.objectives.tokens.making.run import HowFar, Making, make_tokens

    making = Making(
        source=source, tokenizer=tokenizer, out=out, field=field, validation=validation, end=end,
        vocabulary=vocabulary,
    )  # fmt: skip
    console = Console(file=sys.stderr, highlight=False)
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
