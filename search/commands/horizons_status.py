"""`fathom status` for a study of several horizons."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fathom.search.commands.output import exit_by_verdict, print_reply
from fathom.search.commands.run_status import (
    RunStatus,
    print_status,
    run_of,
    status_answers,
    status_of,
)
from fathom.search.contract.reply import Reply, RunProgress, StatedAnswer
from fathom.search.contract.studies import not_begun
from fathom.search.horizons.folders import HorizonFolder
from fathom.search.report.terminal.tables import print_whole
from fathom.search.run_folder import RunFolder


def show(
    path: Path, horizons: Sequence[HorizonFolder], *, as_json: bool, exit_verdict: bool
) -> None:
    """Prints how far the search of each horizon is."""
    found = [(each, status_of(each.folder.path) if each.began else None) for each in horizons]
    reply = horizons_status_reply(path, found) if as_json or exit_verdict else None
    if reply and as_json:
        print_reply(reply)
    elif not as_json:
        _print(path, found)
    if reply and exit_verdict:
        exit_by_verdict(reply)


def horizons_status_reply(
    path: Path, found: Sequence[tuple[HorizonFolder, RunStatus | None]]
) -> Reply:
    """The reply on a study of several horizons: a run and the answers of each, begun or not."""
    again, answers, runs = RunFolder(path).resume_command, list[StatedAnswer](), list[RunProgress]()
    for each, status in found:
        if status:
            answers += status_answers(status, each.label)
            runs.append(run_of(status, each.label))
        else:
            config = each.config
            answers += not_begun(config, each.folder.path, config.budgets, again, each.label)
            runs.append(_not_begun(each))
    return Reply(command="status", answers=tuple(answers), runs=tuple(runs))


def _not_begun(each: HorizonFolder) -> RunProgress:
    return RunProgress(
        study=each.config.study, folder=str(each.folder.path), horizon=each.label,
        state="not begun", budgets=len(each.config.budgets), settled_budgets=(), trials_ended=0,
        trials_running=(), idle_seconds=None, time_left_seconds=None,
    )  # fmt: skip


def _print(path: Path, found: Sequence[tuple[HorizonFolder, RunStatus | None]]) -> None:
    console = Console()
    for _, status in found:
        if status:
            print_status(status, console)
    waiting = [each.text for each, status in found if status is None]
    if waiting:
        print_whole(f"not begun: {', '.join(waiting)}", console)
    if _state([status for _, status in found]) == "unfinished":
        print_whole(f"to resume all: {RunFolder(path).resume_command}", console)


def _state(found: Sequence[RunStatus | None]) -> str:
    """`running`, `done` or `unfinished`, of all horizons together."""
    states = {status.state if status else "not begun" for status in found}
    if "running" in states:
        return "running"
    return "done" if states == {"done"} else "unfinished"
