"""The command line: the program, its commands, and its exit status.

The commands are in `search/commands/`. Only there and here are imports inside functions.
"""

import errno
import gc
import logging
import os
import shutil
import signal
import sys
import threading
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fathom.search.commands.analyse import analyse
from fathom.search.commands.answers import compare, export, predict, train
from fathom.search.commands.examples import EXAMPLES, START
from fathom.search.commands.laboratory import ask, check, latency
from fathom.search.commands.searching import report, run, status, ui
from fathom.search.commands.study_file import doctor, init, plan, schema, tokenize
from fathom.search.signals import ending_signals, interrupt

VERBS = {
    "Before a search": (init, plan, check, doctor, tokenize, schema),
    "Search": (run, status, ui),
    "Answers": (report, compare, latency, analyse, predict, ask),
    "After it": (export, train),
}
"""Commands by group, in the order of `fathom --help`."""

UsageError: Any = typer.BadParameter.__bases__[0]
"""Base class of Typer's errors about a command line; its module depends on Typer's version."""
LONGEST_LINE = 800
"""Most characters of the line of an error."""
FREE_SOME = "; free some, then run the same command again, which continues from here"
MAKE_WRITABLE = "; make it writable, or name another place"
REMEDIES = {
    errno.ENOSPC: FREE_SOME,
    errno.EDQUOT: FREE_SOME,
    errno.EACCES: MAKE_WRITABLE,
    errno.EROFS: MAKE_WRITABLE,
}
"""Remedies with which the lines on errors of the machine end, by the error's number."""
COLLECTIONS = (20_000, 50, 20)
"""Sizes of the three generations at which Python's garbage collector runs; at its own, 20,000
trials take a tenth longer to report."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, the same as Typer's."""
AGAIN_SECONDS = 0.05
"""Time after which a Ctrl-C that was lost is sent once more."""

OF_A_SEARCH = (
    *("grpc", "h11", "mlflow", "optuna", "pandas", "psutil", "pyarrow", "ray", "safetensors"),
    *("sqlalchemy", "tokenizers", "torch", "uvicorn"),
)
"""Packages that the smaller distribution leaves out."""

BOXES_WIDTH = 72
"""Columns of a terminal in which boxes of options show each of them in full."""


class Command(TyperCommand):
    """A command whose help shows no type for flags, and on a narrow terminal shows plain lines
    instead of boxes, which would cut options off."""

    def get_params(self, ctx: Any) -> Any:
        """Returns the arguments and options; flags have no type to show."""
        params = super().get_params(ctx)
        for option in params:
            if getattr(option, "is_flag", False) and option.metavar is None:
                option.metavar = ""
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help."""
        if shutil.get_terminal_size().columns < BOXES_WIDTH:
            self.rich_markup_mode = None
        super().format_help(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples, a line each."""
        formatter.write(f"\n{self.epilog}\n")


app = typer.Typer(
    name="fathom",
    help="Finds how deep a transformer should be, for a fixed number of parameters.",
    epilog=START,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    """Prints the installed version and exits, if it is asked for."""
    if not asked:
        return
    from fathom.search.version import own_version

    installed = own_version()
    print(f"fathom {installed}" if installed else "fathom, a checkout that is not installed")
    raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Finds how deep a transformer should be, for a fixed number of parameters."""


for group, verbs in VERBS.items():
    for verb in verbs:
        app.command(cls=Command, epilog=EXAMPLES[verb.__name__], rich_help_panel=group)(verb)
app.command("analyze", cls=Command, epilog=EXAMPLES["analyse"], hidden=True)(analyse)


def main() -> None:
    """Entry point. Exit status: 2 and a line for each mistake of the user, 1 and a line for an
    error of the machine such as a full disk, 130 for Ctrl-C, SIGTERM or SIGHUP."""
    # No process that this one starts looks for modules in the working folder first: its `random.py`
    # would be run instead of Python's.
    os.environ["PYTHONSAFEPATH"] = "1"
    gc.set_threshold(*COLLECTIONS)
    for number in ending_signals():
        signal.signal(number, interrupt)
    sys.unraisablehook = _interrupt_again
    # It says in four lines that the home folder can't be written to, and does without.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        status = app(standalone_mode=False)
    except UsageError as error:
        _print_usage_error(error)
        sys.exit(2)
    except ValueError as error:
        if type(error).__module__.split(".")[0] != "fathom":
            raise
        for problem in error.args:  # of a study file, each mistake
            _print_error(str(problem))
        sys.exit(2)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in OF_A_SEARCH:
            raise
        from fathom.search.version import CORE, FULL

        _print_error(
            f"`{package}` must be installed for this command, which {CORE} leaves out; "
            f"`pip install {FULL}` brings all that a search takes"
        )
        sys.exit(1)
    except OSError as error:
        if error.errno is None:
            raise
        remedy = REMEDIES.get(error.errno, "")
        where = f": {error.filename}" if error.filename else ""
        _print_error(f"{error.strerror}{where}{remedy}")
        sys.exit(1)
    except KeyboardInterrupt:
        status = INTERRUPTED
    if status == INTERRUPTED:
        print("fathom: interrupted", file=sys.stderr)
    sys.exit(status or 0)


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Sends Ctrl-C once more if it came in a finaliser, where Python prints and drops errors."""
    main = threading.main_thread().ident
    if main is not None and issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def _print_usage_error(error: Any) -> None:
    """Prints one line about a command line that can't be parsed; nothing if it was empty, since
    then the help was printed."""
    if message := error.format_message():
        command = error.ctx.command_path if error.ctx else "fathom"
        _print_error(f"{message.rstrip('.')}; see `{command} --help`")


def _print_error(text: str) -> None:
    """Prints an error as one line without passwords and control characters.

    A long line loses its middle, which is a path or a value that the user gave.
    """
    from fathom.search.formatting import printable
    from fathom.search.study.store_uri import without_credentials

    line = printable(without_credentials(text))
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    print(f"fathom: {line}", file=sys.stderr)
