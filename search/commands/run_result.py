"""What `fathom run` prints at its end."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from fathom.search.commands.output import command_again
from fathom.search.formatting import format_seconds
from fathom.search.pipeline import RunResult
from fathom.search.report.terminal.answer_tables import print_conclusion, print_next
from fathom.search.report.terminal.tables import print_whole
from fathom.search.report.text import next_steps
from fathom.search.scheduling.extend import waits, warnings


def print_run(result: RunResult, runs: Path, seconds: float, console: Console) -> None:
    """Prints the answer of a run, its files, what to type next, and the time that it took."""
    folder, conclusion = result.folder, result.conclusion
    print_conclusion(conclusion, console)
    for line in waits(conclusion.audits):
        console.print(line, highlight=False)
    for line in warnings(conclusion.audits, command_again()):
        console.print(line, style="yellow", highlight=False)
    print_whole(f"\nTook        {format_seconds(seconds)}", console)
    page = (str(folder.report), f"link {folder.report.absolute().as_uri()}")
    console.print(Text.assemble("Report      ", page), soft_wrap=True, highlight=False)
    print_whole(f"Shapes      {folder.best}", console)
    print_whole(f"Browse      fathom ui --runs {runs}", console)
    print_next(next_steps(conclusion, str(folder.path)), console)
