"""`fathom status` for a study of several horizons."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fathom.search.commands.output import print_json, say_unchecked
from fathom.search.commands.run_status import RunStatus, print_status, status_json, status_of
from fathom.search.horizons.folders import HorizonFolder
from fathom.search.report.terminal.tables import print_whole
from fathom.search.run_folder import RunFolder


def show(path: Path, horizons: Sequence[HorizonFolder], *, as_json: bool) -> None:
    """Prints how far the search of each horizon is."""
    found = [(each, status_of(each.folder.path) if each.began else None) for each in horizons]
    state = _state([status for _, status in found])
    for _, status in found:
        if status:
            say_unchecked(status.folder.records)
    if as_json:
        print_json(
            {
                "study": path.name,
                "folder": str(path),
                "state": state,
                "horizons": [
                    {"horizon": each.horizon, **(status_json(status) if status else {})}
                    for each, status in found
                ],
            }
        )
        return
    console = Console()
    for _, status in found:
        if status:
            print_status(status, console)
    waiting = [each.text for each, status in found if status is None]
    if waiting:
        print_whole(f"not begun: {', '.join(waiting)}", console)
    if state == "unfinished":
        print_whole(f"to resume all: {RunFolder(path).resume_command}", console)


def _state(found: Sequence[RunStatus | None]) -> str:
    """`running`, `done` or `unfinished`, of all horizons together."""
    states = {status.state if status else "not begun" for status in found}
    if "running" in states:
        return "running"
    return "done" if states == {"done"} else "unfinished"
