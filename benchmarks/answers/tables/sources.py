"""Counts which exports of other tools `fathom analyse` answers, or refuses with a flag that helps.

`python -m benchmarks.answers.tables.sources --json FILE`
"""

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import optuna
from typer.core import TyperGroup
from typer.main import get_command

from benchmarks.answers.tables.source_writers import BEST, EXPORTS, Export
from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search import cli


@dataclass(frozen=True, slots=True)
class CommandReply:
    """What `fathom analyse --json` says."""

    status: int
    output: str
    complaint: str

    @property
    def answered(self) -> bool:
        """True if a best depth is identified whose interval holds the planted one."""
        if self.status:
            return False
        [answer] = json.loads(self.output)["answers"]
        if answer["verdict"]["kind"] != "identified":
            return False
        low, high = answer["answer"]["interval"]
        return bool(low <= BEST <= high)

    @property
    def flags(self) -> list[str]:
        """The flags of the command that a refusal names."""
        group = get_command(cli.app)
        assert isinstance(group, TyperGroup)
        known = {name for param in group.commands["analyse"].params for name in param.opts}
        return sorted(set(re.findall(r"--[a-z-]+", self.complaint)) & known)


def is_installed(export: Export) -> bool:
    """True if the tool is there; W&B is the only one that Fathom's environment lacks."""
    return export.tool != "W&B" or find_spec("wandb") is not None


def asked(typed: Sequence[str]) -> CommandReply:
    """What the command says to a person who types this in the working folder."""
    output, complaint, status = StringIO(), StringIO(), 0
    try:
        with (
            patch("sys.argv", ["fathom", "analyse", *typed, "--json"]),
            redirect_stdout(output),
            redirect_stderr(complaint),
        ):
            cli.main()
    except SystemExit as end:
        status = int(end.code or 0)
    return CommandReply(status, output.getvalue(), complaint.getvalue())


def as_advised(export: Export) -> Sequence[str]:
    """What a person types once a refusal said what helps."""
    if export.advised and not export.advised[0].startswith("--"):
        return export.advised
    return (*export.typed, *export.advised)


def outcomes(export: Export) -> Iterator[CommandReply]:
    """Yields what is said of an export, and, if that is a refusal, once its advice was taken."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        export.write(Path(name))
        first = asked(export.typed)
        yield first
        if not first.answered and export.advised:
            yield asked(as_advised(export))


def main() -> None:
    """Prints a row for each export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print refusals")
    add_json_option(parser)
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    columns = dict.fromkeys(("made by", "export", "said", "flags", "as advised"), "")
    table = PrintedTable(columns, arguments.json)
    for export in EXPORTS:
        if not is_installed(export):
            print(f"left out, as {export.tool} is not installed: {export.what}")
            continue
        first, *then = outcomes(export)
        said = ["answered" if reply.answered else "refused" for reply in (first, *then)]
        table.add(export.tool, export.what, said[0], ", ".join(first.flags), *(said[1:] or [""]))
        if arguments.verbose and not first.answered:
            print(first.complaint)


if __name__ == "__main__":
    main()
