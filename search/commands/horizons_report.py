"""`fathom report` for a study of several horizons, and what `run` prints at its end."""

from pathlib import Path

from rich.console import Console

from fathom.search.commands.output import exit_by_verdict, print_reply
from fathom.search.contract.horizons import horizons_reply
from fathom.search.formatting import format_count, shell_command
from fathom.search.horizons.answers import HorizonAnswers, answers_of, publish_answers
from fathom.search.horizons.folders import read_horizons
from fathom.search.report.terminal.answer_tables import SHORTER, optimum_cells, print_next
from fathom.search.report.terminal.tables import empty_table, print_text, print_whole
from fathom.search.study.preflight import load_folder
from fathom.search.tracking.publishing import report_study

COLUMNS = ("depth", "95 % interval", "verdict", "best shape")


def report_horizons(path: Path, *, trust: bool, as_json: bool, exit_verdict: bool) -> None:
    """Concludes again from the records of every horizon, and rewrites all reports."""
    for each in read_horizons(path):
        if each.began:
            result = report_study(each.folder.path, trust=trust)
            if result.untracked:
                text = f"fathom: MLflow is not written: {result.untracked}"
                print_whole(text, Console(stderr=True))
    found = answers_of(*load_folder(path))
    publish_answers(found)
    if as_json:
        print_reply(horizons_reply("report", found))
    else:
        print_answers(found, Console())
    if exit_verdict:
        exit_by_verdict(horizons_reply("report", found))


def print_answers(found: HorizonAnswers, console: Console) -> None:
    """Prints a row for each budget and horizon, the law over tokens, and what to type next."""
    headings = ("budget", "horizon", *(SHORTER.get(name, name) for name in COLUMNS))
    table = empty_table(f"{found.config.study}: all horizons", headings)
    rows = [(o.budget, a.text, o) for a in found.answers for o in a.conclusion.optima]
    for budget, horizon, optimum in sorted(rows, key=lambda row: row[0]):
        cells = optimum_cells(optimum)
        table.add_row(format_count(budget), horizon, *(cells[name] or "-" for name in COLUMNS))
    console.print(table)
    print_text(found.law_sentence, console)
    print_whole(f"Report      {found.folder.report}", console)
    print_whole(f"Shapes      {found.folder.best}", console)
    shaped = [(a.label, o) for a in found.answers for o in a.conclusion.optima if o.shape]
    if shaped:
        label, optimum = shaped[-1]
        which = ("--params", format_count(optimum.budget), "--horizon", label)
        print_next([shell_command("fathom", "train", found.folder.path, *which)], console)
