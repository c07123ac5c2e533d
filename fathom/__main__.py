"""`python -m fathom VERB …` is `fathom VERB …`; while the program is imported, Ctrl-C ends it."""

import importlib
import sys


def main() -> None:
    """Entry point of every command, with the exit status of `fathom.search.cli.main`."""
    try:
        program = importlib.import_module("fathom.search.cli")
    except KeyboardInterrupt:
        print("fathom: interrupted", file=sys.stderr)
        sys.exit(130)
    program.main()


if __name__ == "__main__":
    main()
