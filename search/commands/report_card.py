"""`fathom report --card`: the answer as one page of Markdown, and its picture."""

import sys
from pathlib import Path

from fathom.search.conclusion.conclude import conclude_run
from fathom.search.formatting import visible
from fathom.search.report.writer import write_card
from fathom.search.scheduling.journal import read_run
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.preflight import load_run


def check_card(out: Path | None, *, card: bool, with_others: bool) -> None:
    """Raises `ConfigError` if options do not go with `--card`, or with its absence."""
    if card and with_others:
        raise ConfigError(
            "`--card` prints Markdown for people; leave out --json and --exit-verdict, or --card"
        )
    if out is not None and not card:
        raise ConfigError(f"`--out` must be given with --card, got {out}; add --card")


def print_card(run: Path, folder: Path) -> None:
    """Prints the card of a run, and writes it with its picture into a folder.

    Raises:
        ConfigError: if the run has no answer yet, or the folder is a file.
    """
    found, config = load_run(run)
    conclusion = conclude_run(found, config, read_run(found, config))
    if not conclusion.optima:
        raise ConfigError(f"{run} has no trial that ended; `fathom run` trains them")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"`--out` must be a folder, got the file {folder}; name another place")
    folder.mkdir(parents=True, exist_ok=True)
    print(visible(write_card(conclusion, folder)), end="")
    print(f"fathom: written to {folder / 'card.md'} and {folder / 'card.png'}", file=sys.stderr)
