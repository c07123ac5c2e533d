"""Reads the question of `fathom analyse`, and answers it from a file, folder, MLflow, Optuna or
W&B."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from math import isfinite
from operator import attrgetter
from pathlib import Path

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.models.unit import UNITS
from fathom.objectives.files.reading import check_bounded, source_errors
from fathom.search.formatting import printable, shell_command
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.options import count_of
from fathom.search.study.store_uri import is_optuna, without_credentials
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.columns.columns import parse_maps
from fathom.search.tables.columns.selecting import parse_where
from fathom.search.tables.folders.finding import is_pattern
from fathom.search.tables.folders.logged import keeper, table_of
from fathom.search.tables.folders.wandb_address import is_wandb
from fathom.search.tables.folders.wandb_chart import as_runs
from fathom.search.tables.grouped.horizons import Horizon, parse_horizons
from fathom.search.tables.grouped.named_types import with_sizes
from fathom.search.tables.open_table import KINDS, OpenTable, rows_of
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.layouts.markdown import from_markdown
from fathom.search.tables.sources.layouts.nested import unfolded
from fathom.search.tables.sources.layouts.seeds import by_seed
from fathom.search.tables.sources.read import open_text

Layout = Callable[[OpenTable, Mapping[str, str]], OpenTable]
LARGEST_NOISE = 10.0
LAYOUTS: Sequence[Layout] = (as_runs, from_markdown, by_seed, unfolded, with_sizes)
"""Functions that each convert one layout of a text table to plain rows, and leave others
unchanged."""


def question_of(
    *,
    count: Count | None,
    budgets: Sequence[str] | None,
    width: float,
    horizons: Sequence[str] | None,
    several: str | None = None,
    noise: float | None,
    best_of: Sequence[str] | None = None,
    where: Sequence[str] | None = None,
    by: Sequence[str] | None = None,
    unit: str | None = None,
    tokens_per_byte: float | None = None,
    maximise: bool = False,
    at: str | None = None,
) -> TableQuestion:
    """The `TableQuestion` that these options of `fathom analyse` ask.

    Raises:
        ConfigError: when one is out of its range.
    """
    if not 0 <= width < 1:
        raise ConfigError(f"`--width` must be a share from 0 to 1, got {width:g}; for example 0.1")
    if noise is not None and not (isfinite(noise) and 0 < noise <= LARGEST_NOISE):
        raise ConfigError(
            f"`--noise` must be above 0 and at most {LARGEST_NOISE:g}, got {noise:g}; "
            "for example 0.004"
        )
    if unit is not None and (unit not in UNITS or maximise):
        instead = "drop it with --maximise" if unit in UNITS else f"use {', '.join(UNITS)}"
        raise ConfigError(f"`--loss-unit` must be a unit of losses, got {unit}; {instead}")
    if tokens_per_byte is not None and not (0 < tokens_per_byte <= 1):
        raise ConfigError(
            "`--tokens-per-byte` must be tokens for each byte or character, above 0 and at most 1, "
            f"got {tokens_per_byte:g}; for example 0.25"
        )
    return TableQuestion(
        count=count,
        budgets=[count_of("--params", text) for text in budgets or ()],
        width=width,
        horizons=_horizons(horizons or (), several),
        noise=noise,
        best_of=tuple(dict.fromkeys(best_of or ())),
        where=parse_where(where or ()),
        by=tuple(dict.fromkeys(by or ())),
        unit=unit or "",
        tokens_per_byte=tokens_per_byte,
        maximise=maximise,
        at=_coin(at, at is not None and bool(budgets or horizons or several)),
    )


def _coin(at: str | None, chosen: bool) -> Coin | None:
    """The quantity that `--at` names, or None without it; `chosen` is True if sizes or horizons are
    given with it, which is an error."""
    coins = {str(coin).lower(): coin for coin in (Coin.FLOPS, Coin.SECONDS, Coin.TOKENS)}
    if chosen:
        raise ConfigError(
            f"`--at` compares models of any size, got {at} with --params or --horizon; drop one"
        )
    if at is not None and at.lower() not in coins:
        raise ConfigError(f"`--at` must be one of {', '.join(coins)}, got {at}")
    return coins[at.lower()] if at else None


def _horizons(single: Sequence[str], several: str | None) -> tuple[Horizon, ...]:
    """The horizons of `--horizon` and `--horizons`, those in tokens first, each kind ascending."""
    found = [Horizon(count_of("--horizon", text)) for text in single]
    try:
        found += parse_horizons(several) if several is not None else ()
    except ValueError as error:
        raise ConfigError(f"`--horizons` {error}") from error
    return tuple(sorted(dict.fromkeys(found), key=attrgetter("per_parameter", "amount")))


def answer_source(
    source: str, maps: Sequence[str], question: TableQuestion, experiment: str | None,
    lines: Sequence[str] = (),
) -> Analysis:  # fmt: skip
    """The answers of a file, a run folder, a folder of logs, or an experiment; `lines` are the
    patterns by which logs are read.

    Raises:
        ValueError: when the source can't be read, or lacks what is asked.
    """
    with source_errors(source):
        if "://" not in source:
            check_bounded(source)
        return _answer(source, parse_maps(maps), maps, question, experiment, lines)


def _answer(
    source: str, told: Mapping[str, str], maps: Sequence[str], question: TableQuestion,
    experiment: str | None, lines: Sequence[str],
) -> Analysis:  # fmt: skip
    """The answers of a source; `told` are `maps` as Fathom's names by theirs."""
    if lines:
        _check_logs(source, experiment)
    if is_wandb(source):
        return _answer_project(source, told, question, experiment)
    if lines or is_pattern(source):
        return _answer_folder(source, told, question, lines)
    if is_optuna(source):
        from fathom.search.scheduling.optuna.optuna_table import read_study

        study, rows, notes, maximises = read_study(source, experiment)
        table = rows_of(f"Optuna's {printable(study)}", rows)
        table = replace(table, notes=notes, maximised="value" if maximises else "")
        return analyse_table(table, told, question)
    if experiment is not None:
        from fathom.search.tracking.writing.experiment import open_experiment

        return analyse_table(open_experiment(source, experiment, told), told, question)
    path = Path(source)
    if _is_run_folder(path):
        from fathom.search.analysing.run import answer_run

        return answer_run(path, maps, question)
    if "://" in source or any(path.glob("*/meta.yaml")):  # of MLflow's folder of an experiment
        from fathom.search.tracking.writing.experiment import experiments_at

        raise ConfigError(
            "`--experiment` must name one of the experiments of "
            f"{printable(without_credentials(source))}, which has {experiments_at(source)}"
        )
    if path.is_dir():
        return _answer_folder(source, told, question, lines)
    if not path.is_file():
        there = "something else" if path.exists() else "nothing"
        raise ConfigError(
            f"the source must be {KINDS}, a folder of logs or event files, a run folder of Fathom, "
            f"or the address of MLflow with --experiment, got {printable(source)}, where there is "
            f"{there}"
        )
    with open_table(path, told) as table:
        return analyse_table(table, told, question)


@contextmanager
def open_table(path: Path, told: Mapping[str, str]) -> Iterator[OpenTable]:
    """Context manager that opens a file in any of the layouts as a table, whose rows can be read
    until it ends.

    Raises:
        TableError: when the file is not a table.
    """
    if path.suffix.lower() in (".parquet", ".pq"):
        from fathom.search.tables.sources.parquet import open_parquet

        yield with_sizes(unfolded(open_parquet(path), told), told)
        return
    with open_text(path) as table:
        for plain in LAYOUTS:
            table = plain(table, told)
        yield table


def _is_run_folder(path: Path) -> bool:
    """True for a run folder of Fathom; not for any folder of logs with a config.yaml."""
    folder = RunFolder(path)
    return folder.config.is_file() and (folder.is_run or folder.began)


def _check_logs(source: str, experiment: str | None) -> None:
    """Raises ConfigError if the source of `--line` has no lines to read."""
    path = Path(source)
    if experiment is not None or is_optuna(source) or is_wandb(source) or _is_run_folder(path):
        raise ConfigError(
            f"`--line` is for a folder or pattern of logs, got {printable(source)}; drop it"
        )
    if not path.exists() and not is_pattern(source):
        raise ConfigError(
            f"`--line` is for a folder or pattern of logs, got {printable(source)}, where there is "
            "nothing; check the path"
        )


def _answer_project(
    source: str, told: Mapping[str, str], question: TableQuestion, experiment: str | None
) -> Analysis:
    """The answers of a project of W&B."""
    if experiment is not None:
        raise ConfigError(
            f"`--experiment` is for MLflow and Optuna, got {printable(experiment)} with W&B's "
            f"{printable(source)}; drop it"
        )
    if find_spec("wandb") is None:
        raise ConfigError(
            f"{printable(source)} is read by W&B's own package, which is not installed; "
            "run `pip install wandb` first"
        )
    from fathom.search.tables.folders.wandb_project import read_project

    project = read_project(source, keeper(told, question.columns))
    return analyse_table(table_of(project, told), told, question)


def _answer_folder(
    source: str, told: Mapping[str, str], question: TableQuestion, lines: Sequence[str]
) -> Analysis:
    from fathom.search.analysing.folder import open_folder

    return analyse_table(open_folder(source, told, question.columns, lines), told, question)


def write_report_of(analysis: Analysis, folder: Path) -> Path:
    """Writes the report of a table into a folder; returns the page's path.

    Raises:
        ConfigError: when the analysis has several horizons or parts, or is of a run folder, which
            has its own report.
    """
    if not analysis.columns:
        again = shell_command("fathom", "report", analysis.label)
        raise ConfigError(f"`--report` is for tables; use `{again}`")
    if not analysis.optima:
        raise ConfigError(
            "`--report` shows best depths, but these runs don't tell depth from size; drop --report"
        )
    if len(analysis.findings) > 1:
        raise ConfigError(
            f"`--report` shows one answer for each size, got {len(analysis.findings)}; name one "
            "horizon with --horizon, and one part with --where"
        )
    if os.path.lexists(folder) and not _is_ours(folder):
        raise ConfigError(
            f"`--report` must be a new folder, or one with an earlier report of a table, got "
            f"{printable(str(folder))}, which has something else; name another"
        )
    from fathom.search.report.pages.writer import write_analysis

    return write_analysis(analysis, folder)


def _is_ours(folder: Path) -> bool:
    """True for an empty folder, or one with only a report of a table."""
    if not folder.is_dir():
        return False
    return {path.name for path in folder.iterdir()} <= {"report.html", "figures", "tables"}
