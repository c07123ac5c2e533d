"""What several verbs print: JSON, and how to go on with what was interrupted."""

import json
import os
import shlex
import sys
from typing import NoReturn


def print_json(value: object) -> None:
    """For programs."""
    print(json.dumps(value, indent=2))


def command_again() -> str:
    """What goes on with this run; without a password that an address may hold."""
    from fathom.search.study.store_uri import without_credentials

    words = [argument for argument in sys.argv[1:] if argument != "--extend"]  # it is noted down
    return without_credentials(shlex.join(["fathom", *words]))


def say_how_to_go_on(interrupt: KeyboardInterrupt) -> NoReturn:
    """Status 130; at once where the user has insisted: Ray ends with this process."""
    print(f"fathom: interrupted; nothing is lost. To go on:\n  {command_again()}", file=sys.stderr)
    from fathom.search.cluster.interrupt import InterruptNow

    if isinstance(interrupt, InterruptNow):
        sys.stderr.flush()
        os._exit(130)
    sys.exit(130)
