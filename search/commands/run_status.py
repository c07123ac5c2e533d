"""`fathom status`: the progress of a search, read from its files alone, while it runs or
afterwards."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from fathom.search.analysis.answer.finding import find_optima
from fathom.search.conclusion.conclude import conclude_run
from fathom.search.contract.reply import Reply, RunProgress, StatedAnswer
from fathom.search.contract.studies import study_answers
from fathom.search.formatting import format_count, format_seconds, shell_command, visible
from fathom.search.record_json import DamagedFileError
from fathom.search.records import Stage, TrialRecord
from fathom.search.report.terminal.tables import empty_table, print_whole
from fathom.search.run_folder import RunFolder, RunFolderError, is_in_use
from fathom.search.scheduling.journal import Past, read_run
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler
from fathom.search.study.planning.horizons import horizon_name
from fathom.search.study.runs import StudyRun, runs_of
from fathom.search.study.timing.time_left import TimeLeft, time_left_text, told_time_left


@dataclass(frozen=True, slots=True)
class AnswerSoFar:
    """The answer for a budget so far."""

    depth: int | None
    verdict: str
    """The verdict on the budget; empty while its search goes on."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The progress of a search, as its run folder records it."""

    folder: RunFolder
    config: StudyConfig
    past: Past
    running: bool
    """True while a `fathom` command works on the folder."""

    @property
    def settled(self) -> list[int]:
        """Budgets with nothing left to train."""
        unfinished = self.past.unfinished(self.config.budgets)
        return [size for size in self.config.budgets if size not in unfinished]

    @property
    def state(self) -> Literal["running", "done", "unfinished", "not begun"]:
        """`running`, `done`, `unfinished`, or `not begun` for a horizon that is searched later."""
        if self.running:
            return "running"
        if not self.folder.config.exists():
            return "not begun"
        return "done" if len(self.settled) == len(self.config.budgets) else "unfinished"

    @property
    def time_left(self) -> TimeLeft | None:
        """Estimate of the time left, as the running search has noted it; None if there is none
        yet."""
        return told_time_left(self.folder, time.time()) if self.running else None

    @property
    def answers(self) -> dict[int, AnswerSoFar]:
        """The answer of each budget with a trial that ended, computed in the same way as for the
        report."""
        return {
            optimum.budget: AnswerSoFar(
                optimum.optimal_depth, optimum.kind if optimum.budget in self.settled else ""
            )
            for optimum in find_optima(self.past.ended, seed=self.config.seed)
        }

    @property
    def idle_seconds(self) -> float | None:
        """Seconds since anything was written about a trial; None before the search has begun."""
        files = (self.folder.records, self.folder.journal, self.folder.config)
        written = [file.stat().st_mtime for file in files if file.exists()]
        return max(0.0, time.time() - max(written)) if written else None

    @property
    def idle_text(self) -> str:
        """Time since anything was written about a trial, such as `3 min ago`."""
        return "never" if self.idle_seconds is None else f"{format_seconds(self.idle_seconds)} ago"


def status_of(run: StudyRun) -> RunStatus:
    """The progress of a run.

    Raises:
        ValueError: if its files are damaged.
    """
    past = read_run(run.folder, run.config)
    return RunStatus(run.folder, run.config, past, is_in_use(run.folder))


def print_status(status: RunStatus, console: Console) -> None:
    """Prints a row for each budget, the trials under way, and the commands to type next."""
    if status.state == "not begun":
        begin = status.folder.resume_command
        print_whole(f"{status.config.study}: not begun; to begin it:\n  {begin}", console)
        return
    title = f"{status.config.study}: {status.state}"
    headings = ("budget", "state", "explored", "confirmed", "running", "depth so far", "verdict")
    table = empty_table(title, headings)
    for row in _rows(status):
        table.add_row(*row)
    console.print(table)
    for record in status.past.running.records.values():
        console.print(_trial_line(record, running=status.running), highlight=False)
    folder = status.folder
    last = f"last written {status.idle_text}"
    if status.running:
        left = time_left_text(status.time_left)
        console.print(f"{last}; the search is running, {left}", highlight=False)
    elif status.state == "done":
        again = shell_command("fathom", "report", folder.path)
        print_whole(f"{last}; nothing is left to train: {again}", console)
    else:
        print_whole(f"{last}; to resume it:\n  {folder.resume_command}", console)


def run_of(status: RunStatus) -> RunProgress:
    """Progress of a search, in the form that programs read."""
    left = status.time_left
    return RunProgress(
        study=status.config.study,
        folder=str(status.folder.path),
        horizon=horizon_name(status.config),
        state=status.state,
        budgets=len(status.config.budgets),
        settled_budgets=tuple(status.settled),
        trials_ended=len(status.past.ended),
        trials_running=tuple(sorted(status.past.running.records)) if status.running else (),
        idle_seconds=status.idle_seconds,
        time_left_seconds=(left.low, left.high) if left else None,
    )


def status_answers(status: RunStatus) -> tuple[StatedAnswer, ...]:
    """The answers of a search so far, the same as in its report."""
    conclusion = conclude_run(status.folder, status.config, status.past)
    return study_answers(conclusion, status.folder.path, horizon_name(status.config))


def status_reply(found: Sequence[RunStatus], problems: Sequence[str] = ()) -> Reply:
    """The reply for programs on some runs; `problems` are sentences on folders that can't be
    read."""
    return Reply(
        command="status",
        answers=tuple(answer for status in found for answer in status_answers(status)),
        runs=tuple(map(run_of, found)),
        notes=tuple(problems),
    )


def all_runs_reply(runs: Path) -> Reply:
    """The reply for programs on all run folders inside a folder."""
    every = list(all_runs(runs))
    return status_reply(
        [run for run in every if isinstance(run, RunStatus)],
        [problem for _, problem in (run for run in every if isinstance(run, tuple))],
    )


def all_runs(runs: Path) -> Iterator[RunStatus | tuple[Path, str]]:
    """The status of each run in a folder of run folders; for a run that can't be read, its path and
    the reason.

    Raises:
        ConfigError: if there is no such folder.
    """
    if not runs.is_dir():
        raise ConfigError(f"there is no folder {runs}; name it with --runs, or name a run folder")
    for path in sorted(runs.iterdir()):
        if RunFolder(path).config.is_file():
            try:
                yield from map(status_of, runs_of(path))
            except (ConfigError, RunFolderError, DamagedFileError) as error:
                yield path, str(error)


def print_runs(runs: Path, console: Console) -> None:
    """Prints a row for each run in a folder of run folders."""
    headings = ("run", "state", "budgets settled", "trials ended", "time left", "last written")
    table = empty_table("", headings)
    problems = []
    for run in all_runs(runs):
        if isinstance(run, RunStatus):
            settled = f"{len(run.settled)} of {len(run.config.budgets)}"
            ended = str(len(run.past.ended))
            left = time_left_text(run.time_left) if run.running else ""
            table.add_row(_path(run.folder.path), run.state, settled, ended, left, run.idle_text)
        else:
            table.add_row(_path(run[0]), "unreadable", "", "", "", "")
            problems.append(run[1])
    if not table.row_count:
        print_whole(f"{runs} holds no run yet; `fathom run STUDY.yaml` makes one", console)
        return
    console.print(table)
    for problem in problems:
        console.print(visible(problem), style="yellow", highlight=False, markup=False)


def _path(path: Path) -> Text:
    return Text(visible(str(path)))


def _rows(status: RunStatus) -> Iterator[tuple[str, ...]]:
    """Yields for each budget the texts of its table row."""
    config, past = status.config, status.past
    answers = status.answers
    ended = Counter((record.spec.budget, record.spec.stage) for record in past.ended)
    live = Counter(record.spec.budget for record in past.running.records.values())
    for budget in config.budgets:
        explored, confirmed = (ended[budget, stage] for stage in (Stage.EXPLORE, Stage.CONFIRM))
        answer = answers.get(budget)
        most = "" if config.sampler is Sampler.LADDER else f" of {config.trials}"
        if budget in status.settled:
            state, most = "done", ""
        elif not (explored or confirmed or live[budget]):
            state = "not begun"
        else:
            state = "confirming" if budget in past.confirmations else "exploring"
        yield (
            format_count(budget),
            state,
            f"{explored}{most}",
            str(confirmed),
            str(live[budget]) if status.running else "-",
            f"{answer.depth}" if answer and answer.depth else "-",
            (answer.verdict if answer else "") or "-",
        )


def _trial_line(record: TrialRecord, *, running: bool) -> str:
    share = record.tokens / record.spec.horizon_tokens
    loss = f", loss {record.curve[-1].loss:.4f}" if record.curve else ""
    done = "running" if running else "interrupted"
    return f"{record.spec.trial}: {done} at {share:.0%} of its tokens{loss}"
