"""Tokens to the answer: whole searches through known learning curves, ours and others'.

python -m benchmarks.answers.spent.replay --table TABLE.csv
python -m benchmarks.answers.spent.replay --table TABLE.csv --count non_embedding \\
    --rivals ladder,ray
python -m benchmarks.answers.spent.replay --synthetic --repetitions 200 --figure replay.png
python -m benchmarks.answers.spent.replay --synthetic loud  # a kind of benchmarks/worlds/kinds.py

TABLE.csv has a row for each evaluation; benchmarks/worlds/curve_tables.py names its columns. Each
class of its sizes is a budget. Rivals are matched by any part of their names; `--rivals none` runs
ours alone.
"""

import argparse
import logging
import math
import multiprocessing
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.answers.spent.replay_report import Entry, Repetition, draw, markdown, points
from benchmarks.rival_searchers.field import contender, contenders
from benchmarks.rival_searchers.rival import Rival
from benchmarks.simulate.clock import Moment, Searcher, run, tokens_until_right
from benchmarks.simulate.ours import FathomSearch
from benchmarks.worlds.curve_tables import read_runs
from benchmarks.worlds.kinds import KINDS, planted
from benchmarks.worlds.known import Known, known_budgets
from fathom.models.shape import Count
from fathom.search.study.file.errors import ConfigError
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.sizes import WIDTH

OURS = {"ours": ""}
"""Fathom's own entries: name -> YAML added to the study file."""


@dataclass(frozen=True, slots=True)
class Job:
    """One search to run: its budget's title, its searcher's name and its seed."""

    title: str
    name: str
    seed: int


@dataclass(frozen=True, slots=True)
class ReplaySetup:
    """Budgets to search and the number of workers; no budgets mean planted worlds of a kind."""

    budgets: dict[str, Known]
    kind: str
    workers: int

    def known(self, job: Job) -> Known:
        """The budget of a job."""
        return self.budgets[job.title] if self.budgets else planted(job.seed, self.kind)


def main() -> None:
    """Prints a table for each budget; a mistake is one line and exit status 2."""
    arguments = _arguments()
    _quietly()
    try:
        stage = ReplaySetup(_budgets(arguments), arguments.synthetic, arguments.workers)
        names, missing = _names(arguments.rivals)
    except (TableError, ConfigError, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print("".join(f"{line}\n" for line in missing), end="", file=sys.stderr)
    entries: dict[str, list[Entry]] = {}
    for title in stage.budgets or [f"planted worlds, {arguments.synthetic}"]:
        jobs = list(_jobs(title, names, arguments))
        entries[title] = _entries(jobs, search_all(stage, jobs, arguments.processes))
        text = describe(stage.budgets[title]) if stage.budgets else ""
        print("\n".join(markdown(title, text, entries[title])), flush=True)
    if arguments.figure:
        draw(entries, arguments.figure)


def search_all(stage: ReplaySetup, jobs: Sequence[Job], processes: int) -> list[Repetition]:
    """Runs every job in several processes and prints a line of progress."""
    found = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _quietly) as pool:
        for result in pool.map(partial(search, stage), jobs, chunksize=4):
            found.append(result)
            if len(found) % max(1, len(jobs) // 100) == 0:
                line = f"\r{len(found)} of {len(jobs)} searches"
                print(line, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def search(stage: ReplaySetup, job: Job) -> Repetition:
    """Runs one search; returns its results, in shares of the ladder's tokens."""
    known = stage.known(job)
    with tempfile.TemporaryDirectory() as home:
        return play(known, searcher(known, job, Path(home)), stage.workers)


def searcher(known: Known, job: Job, home: Path) -> Searcher:
    """Returns the searcher of a job, Fathom or a rival."""
    if job.name in OURS:
        return FathomSearch(known, OURS[job.name], job.seed, home)
    return Rival(known, contender(job.name), job.seed)


def play(known: Known, player: Searcher, workers: int) -> Repetition:
    """Runs a search until it ends or has spent the ladder's tokens."""
    whole = known.ladder_tokens
    moments = list(run(known, player, workers=workers, limit=whole))
    worst = max(known.regret(depth) for depth in known.depths)
    answers = [_answer_at(moments, point * whole) for point in points()]
    return Repetition(
        until=tokens_until_right(moments, known.plateau) / whole,
        spent=moments[-1].tokens / whole if moments else 0.0,
        right=tuple(answer in known.plateau for answer in answers),
        regret=tuple(worst if depth is None else known.regret(depth) for depth in answers),
    )


def describe(known: Known) -> str:
    """Returns the line about a budget that stands above its table."""
    plateau, depths = (", ".join(map(str, some)) for some in (known.plateau, known.depths))
    tokens = f"{known.seeds} seeds, {known.ladder_tokens:.3g} tokens in all"
    return f"{tokens}; plateau: {plateau} of {depths}"


def _answer_at(moments: Sequence[Moment], tokens: float) -> int | None:
    """The last answer of a search up to `tokens`; a search that has ended keeps its answer."""
    return next((m.answer for m in reversed(moments) if m.tokens <= tokens * (1 + 1e-9)), None)


def _budgets(arguments: argparse.Namespace) -> dict[str, Known]:
    if arguments.synthetic:
        return {}
    runs = read_runs(arguments.table)
    found = known_budgets(runs, Count(arguments.count), arguments.width)
    budgets = {known.title: known for known in found if len(known.depths) > 1}
    if not budgets:
        raise TableError(
            f"{arguments.table} must have at least 3 shapes of 2 depths within "
            f"{arguments.width:g} of a size, found none in {len(runs)} runs; raise --width"
        )
    return budgets


def _names(asked: str) -> tuple[dict[str, float], list[str]]:
    """The requested searchers, each with its share of the repetitions, and lines on missing
    packages.
    """
    ours = dict.fromkeys(OURS, 1.0)
    if asked == "none":
        return ours, []
    found, missing = contenders()
    parts = [part.strip().lower() for part in asked.split(",") if part.strip()]
    for part in parts:
        if not any(
            part in line.lower() for line in [*missing, *(contender.name for contender in found)]
        ):
            known = "; ".join(contender.name for contender in found)
            raise ConfigError(f"--rivals must name some of these, got {part!r}: {known}")
    some = {
        contender.name: contender.share
        for contender in found
        if not parts or any(part in contender.name.lower() for part in parts)
    }
    return ours | some, missing


def _jobs(title: str, names: dict[str, float], arguments: argparse.Namespace) -> Iterator[Job]:
    """Yields the jobs in rounds of all searchers; slow searchers have fewer rounds."""
    for repetition in range(arguments.repetitions):
        for name, share in names.items():
            if repetition < math.ceil(share * arguments.repetitions):
                yield Job(title, name, arguments.seed + repetition)


def _entries(jobs: Sequence[Job], found: Sequence[Repetition]) -> list[Entry]:
    """Groups the repetitions by searcher."""
    grouped: dict[str, list[Repetition]] = {}
    for job, result in zip(jobs, found, strict=True):
        grouped.setdefault(job.name, []).append(result)
    return [Entry(name, name in OURS, tuple(some)) for name, some in grouped.items()]


def _quietly() -> None:
    """Silences warnings and log lines of the packages that search."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", type=Path, help="CSV of learning curves, or a run folder")
    planted_help = f"planted worlds instead: {', '.join(KINDS)}"
    what.add_argument("--synthetic", nargs="?", const="usual", choices=KINDS, help=planted_help)
    add("--count", choices=list(Count), default=Count.TOTAL, help="what a size counts")
    add("--width", type=float, default=WIDTH, help="of a class of sizes, to either side")
    add("--workers", type=_positive, default=4, help="trials at a time")
    add("--repetitions", type=_positive, default=100, help="searches of each kind")
    add("--rivals", default="", help="parts of names, with commas; all if not given, or none")
    add("--processes", type=_positive, default=2)
    add("--seed", type=int, default=0)
    add("--figure", type=Path, help="draw right answers against tokens here, PNG or SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
