"""Output that several commands share: JSON, and advice on resuming after an interruption."""

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from fathom.search.contract.reply import Reply


def print_reply(reply: "Reply") -> None:
    """Prints a reply as JSON, in the form of docs/answer.schema.json."""
    print(reply.model_dump_json(indent=2, ensure_ascii=True))


def exit_by_verdict(reply: "Reply") -> None:
    """Exits with the status that belongs to the least certain answer, for `--exit-verdict`."""
    from fathom.search.contract.exit_status import exit_status

    sys.exit(exit_status(reply.answers))


def command_again(without: str = "--extend") -> str:
    """The command that was typed, without passwords, and without the option `without`, which is for
    a single call."""
    from fathom.search.formatting import shell_command
    from fathom.search.study.store_uri import without_credentials

    arguments = [argument for argument in sys.argv[1:] if argument != without]
    return without_credentials(shell_command("fathom", *arguments))


def exit_interrupted(interrupt: KeyboardInterrupt) -> NoReturn:
    """Prints how to resume and exits with status 130; after a second Ctrl-C, does not wait for
    Ray."""
    print(f"fathom: interrupted; nothing is lost. Resume by:\n  {command_again()}", file=sys.stderr)
    from fathom.search.cluster.interrupt import InterruptNow

    if isinstance(interrupt, InterruptNow):
        sys.stderr.flush()
        os._exit(130)
    sys.exit(130)
