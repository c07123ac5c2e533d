"""Reads the runs of a W&B project from its server, by the package `wandb`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import wandb
import wandb.errors

from fathom.search.formatting import printable
from fathom.search.study.file.errors import ConfigError
from fathom.search.tables.folders.logged import Keep, Logged, LoggedRun, Series
from fathom.search.tables.folders.wandb_address import ADDRESS
from fathom.search.tables.open_table import flat_names

SECONDS = 60
"""Seconds to wait for an answer of the server."""
STATE = "state"
LACKING = {
    "depth": ", or put it into the config of each run",
    "size": ", or put d_model or the parameters into the config of each run",
    "loss": "",
}


def read_project(address: str, keep: Keep) -> Logged:
    """The runs of `wandb:ENTITY/PROJECT` with their configs and histories.

    Raises:
        ConfigError: when the address has another form, or W&B does not answer.
    """
    place = address.removeprefix(ADDRESS)
    if place.count("/") != 1 or not all(place.split("/")):
        raise ConfigError(
            f"a project of W&B must be {ADDRESS}ENTITY/PROJECT, got {printable(address)}; for "
            f"example {ADDRESS}me/depths"
        )
    try:
        with _no_questions():
            runs = [_run(run, keep) for run in wandb.Api(timeout=SECONDS).runs(place, lazy=False)]
    except (wandb.errors.Error, ValueError, OSError) as error:
        said = printable(_first_line(error) or "nothing")
        raise ConfigError(
            f"W&B must answer for {printable(place)}, got: {said}; log in with `wandb login` or "
            "set WANDB_API_KEY, and for a server of your own WANDB_BASE_URL"
        ) from None
    if not runs:
        raise ConfigError(f"{printable(address)} must have runs, got none; check the project")
    return Logged(label=printable(address), kind="runs", runs=runs, lacking=LACKING)


@contextmanager
def _no_questions() -> Iterator[None]:
    """Context in which W&B raises an error if no key is set, instead of asking for one at the
    terminal."""
    terminal = sys.stdin
    with open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = terminal


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(". ") if lines else ""


def _run(run: Any, keep: Keep) -> LoggedRun:
    series: dict[str, Series] = {}
    for index, row in enumerate(run.scan_history()):
        for name, value in flat_names(row).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and (name in series or keep(name)):
                series.setdefault(name, Series()).add(index, value)
    settings = flat_names(dict(run.config)) | {STATE: run.state}
    return LoggedRun(name=run.name, settings=settings, named={}, series=series)
