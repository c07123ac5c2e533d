"""Runs that were each read from files of their own, and the table made of all of them."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from math import inf
from typing import Any

from fathom.search.formatting import printable
from fathom.search.tables.columns.columns import (
    PERPLEXITY,
    choose_columns,
    listed,
    meaning,
    plain_name,
)
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.grouping import IDENTITY
from fathom.search.tables.open_table import OpenTable

RUN, STEP = "run", "step"
LOGS = "logs"
MEASURED = ("loss", "tokens", "step")
"""Columns for which measured values are used instead of a setting of the same name."""
NAMED = (
    *("depth", "d_model", "d_ff", "params_total", "params_non_embedding", "tokens", "seed"),
    "learning_rate",
)
"""Columns whose values may be read from the name of a file or folder."""
VAGUE = frozenset(
    {"l", "value", "size", "id", "name", "experiment", "model", "run", "trial", "repeat"}
)
"""Names that have a meaning as columns of a table, but not in the lines of a log."""
MOST_KNOWN = 4096
"""Largest number of names for which the decision to keep them is cached."""
MOST_OTHERS = 200
"""Largest number of names of unknown meaning that are remembered, for a message."""

Keep = Callable[[str], bool]
"""Function that returns True if the numbers under a name are kept."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one quantity that a run measured, in order."""

    at: "array[int]" = field(default_factory=lambda: array("q"))
    """Line of the log, or step, of each value, ascending."""
    values: list[object] = field(default_factory=list)

    def add(self, at: int, value: object) -> None:
        """Appends the value of a line or step after the last one."""
        self.at.append(at)
        self.values.append(value)

    def near(self, at: int, guess: int = 0) -> object:
        """The last value at or before a line or step, or the first value if all come later; `guess`
        is the index that is tried first."""
        if guess < len(self.at) and self.at[guess] == at:
            return self.values[guess]
        return self.values[max(0, bisect_right(self.at, at) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """Content of the files of one run."""

    name: str
    settings: Mapping[str, object]
    """Settings from the files of settings beside the log."""
    named: Mapping[str, object]
    """Settings in the names of the run's file and folders, under Fathom's names if in `NAMED`,
    otherwise as written."""
    series: Mapping[str, Series]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The runs of a folder, and how messages name them."""

    label: str
    kind: str
    """What messages call the runs, in the plural: `LOGS`, tables or runs."""
    runs: Sequence[LoggedRun]
    lacking: Mapping[str, str]
    """Fathom's name of a column, or `size` -> end of a message that says how else to give it."""
    notes: tuple[str, ...] = ()
    settings: frozenset[str] = frozenset()
    """Names of series, given by a person's own patterns, that may be settings."""


def keeper(told: Mapping[str, str], asked: Sequence[str]) -> Keep:
    """Returns a function that is True for the names under which numbers of a log are kept: known
    names, and names in `--map` or another flag."""
    named = {*told, *asked}

    def keep(name: str) -> bool:
        plain = plain_name(name)
        known = plain not in VAGUE and meaning(name) not in (None, "run")
        return known or name in named or PERPLEXITY.search(plain) is not None

    return lru_cache(maxsize=MOST_KNOWN)(keep)


def table_of(logged: Logged, told: Mapping[str, str]) -> OpenTable:
    """The runs as rows, one for each value of the loss; `told` maps names in the logs to Fathom's.

    Raises:
        TableError: when a column that is needed is not there.
    """
    runs = _with_one_name(_without_doubles(logged.runs, told), told)
    series = dict.fromkeys(chain.from_iterable(run.series for run in runs))
    names = list(dict.fromkeys([RUN, *chain.from_iterable(run.settings for run in runs), *series]))
    taken = choose_columns(names, told, logged.label, logged.lacking).taken
    times = [taken[ours] for ours in ("step", "tokens") if taken.get(ours) in series]
    if not any(_moves(run, name) for run in runs for name in times):  # final values alone
        names, times = [name for name in names if name not in times], []
    loss = taken["loss"]
    apart = {taken[ours] for ours in (*IDENTITY, RUN) if ours in taken}
    apart |= {name for name in logged.settings - set(taken.values()) if _is_text(runs, name)}
    used = [run for run in runs if _has(run, loss) and (not times or _time(run, times))]
    _check_depths(logged, used, taken["depth"])
    names = [name for name in names if name == RUN or any(_has(run, name) for run in used)]
    return OpenTable(
        logged.label,
        names,
        enumerate(chain.from_iterable(_rows(run, names, loss, times, apart) for run in used), 1),
        results=frozenset(series) - logged.settings,
        notes=(*logged.notes, *_notes(logged, used, loss, times)),
        lacking=logged.lacking,
    )


def _without_doubles(runs: Sequence[LoggedRun], told: Mapping[str, str]) -> list[LoggedRun]:
    """The runs with one source for each column: measurements for the loss and its time, and
    settings for another column if every run has it as a setting."""
    measured = {meaning(name) for run in runs for name in run.series if name not in told}
    both = {ours for ours in MEASURED if ours in measured}
    ours_set = [{*run.named, *map(meaning, run.settings)} for run in runs]
    always = {
        ours for ours in NAMED if ours not in MEASURED and all(ours in names for names in ours_set)
    }

    def without(values: Mapping[str, Any], dropped: set[str]) -> dict[str, Any]:
        return {
            name: value
            for name, value in values.items()
            if name in told or meaning(name) not in dropped
        }

    return [
        replace(
            run,
            settings=without(run.settings, both),
            named=without(run.named, both),
            series=without(run.series, always),
        )
        for run in runs
    ]


def _with_one_name(runs: Sequence[LoggedRun], told: Mapping[str, str]) -> list[LoggedRun]:
    """The runs with the settings in their names added, under the name that other runs use for the
    same column, if any."""
    known: dict[str, str] = {}
    for name in chain.from_iterable((*run.settings, *run.series) for run in runs):
        if name not in told and (ours := meaning(name)):
            known.setdefault(ours, name)
    return [
        replace(
            run,
            settings={known.get(n, n): v for n, v in run.named.items()} | dict(run.settings),
        )
        for run in runs
    ]


def _rows(
    run: LoggedRun, names: Sequence[str], loss: str, times: Sequence[str], apart: Set[str]
) -> Iterator[list[object]]:
    """Yields a row for each loss of a run, with the latest value of every other quantity up to
    there.

    If a time occurs again, the run was restarted, and the later rows replace the earlier ones.
    Without times only the last loss counts. Both rules apply separately to each value of the series
    `apart`, such as the names of several runs in one log, or of the data of a loss.
    """
    plain = [run.name if name == RUN else run.settings.get(name) for name in names]
    losses = run.series.get(loss)
    if losses is None:
        yield plain
        return
    places = [(names.index(name), values) for name, values in run.series.items() if name in names]
    time = _time(run, times)
    parts = [values for name, values in run.series.items() if name in apart]
    kept: dict[tuple[object, ...], list[tuple[float, int]]] = {}
    for index, at in enumerate(losses.at):
        now = _number(time.near(at, index)) if time else inf
        earlier = kept.setdefault(tuple(part.near(at, index) for part in parts), [])
        while earlier and earlier[-1][0] >= now:
            earlier.pop()
        earlier.append((now, index))
    for _, index in chain.from_iterable(kept.values()):
        row = plain.copy()
        for place, values in places:
            row[place] = values.near(losses.at[index], index)
        yield row


def _time(run: LoggedRun, times: Sequence[str]) -> Series | None:
    """The series of the run's progress: the first of `times` that the run has."""
    return next((run.series[name] for name in times if name in run.series), None)


def _number(value: object) -> float:
    """A time as a number; infinite for a text, which is reported later as an error."""
    if isinstance(value, float):
        return value
    try:
        return float(str(value).replace(",", ""))
    except ValueError:
        return inf


def _is_text(runs: Sequence[LoggedRun], name: str) -> bool:
    """True if the first value of a series is a text."""
    first = next(run.series[name].values[0] for run in runs if name in run.series)
    return _number(first) == inf


def _moves(run: LoggedRun, name: str) -> bool:
    """True if a series has a number above zero."""
    return name in run.series and any(_number(value) > 0 for value in run.series[name].values)


def _has(run: LoggedRun, name: str) -> bool:
    return name in run.series or name in run.settings


def _check_depths(logged: Logged, used: Sequence[LoggedRun], depth: str) -> None:
    """Raises `TableError` if some runs have no depth, and all others have the same depth."""
    without = [printable(run.name) for run in used if not _has(run, depth)]
    known = {str(run.settings.get(depth)) for run in used if _has(run, depth)}
    if without and len(known) == 1 and not any(depth in run.series for run in used):
        raise TableError(
            f"{logged.label} must have runs of several depths, got {len(without)} of {len(used)} "
            f"runs without a depth, such as {without[0]}, and depth {known.pop()} for all others; "
            f"give each run a column of its depth{logged.lacking['depth']}"
        )


def _notes(
    logged: Logged, used: Sequence[LoggedRun], loss: str, times: Sequence[str]
) -> Iterator[str]:
    """Yields notes on runs that are left out, on unknown data of a loss, and on missing steps."""
    names = {run.name for run in used}
    left = [run.name for run in logged.runs if run.name not in names]
    if left:
        lack = " or ".join(f"no {printable(name)}" for name in (loss, *times))
        of_all = f"{len(left)} of {len(logged.runs)} {logged.kind}"
        yield f"{of_all} have {lack}: left out ({listed(left)})"
    if logged.kind == LOGS and not logged.settings and plain_name(loss) == "loss":
        yield "no line says on which data its loss is: training losses may rank depths otherwise"
    if not times and any(len(run.series[loss].at) > 1 for run in used if loss in run.series):
        yield f"the losses have no step, so the last one of each of the {logged.kind} counts"


def lacking(others: Sequence[str], line: str = "") -> dict[str, str]:
    """Column -> end of the message that files lack it; `others` are names of unknown meaning, and
    `line` is an example of the flag that describes a line."""
    place = ", or put it into the names of folders or files, such as {}, or into config.json"
    more = f" (there are also {listed(others)})" if others else ""
    return {
        "depth": place.format("d8 or depth=8") + "; `predict` needs no losses",
        "loss": more + (f", or say how a line has it with {line}" if line else ""),
        "size": place.format("w512 or params=124M"),
    }
